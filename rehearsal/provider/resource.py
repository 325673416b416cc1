"""What a resource type is: a table of its input properties, and how AWS creates, reads and deletes it."""

import json
import operator
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from botocore.exceptions import ClientError

from rehearsal.provider.aws import Aws
from rehearsal.provider.errors import ProviderError
from rehearsal.provider.wire import Properties, has_unknown

Update = Callable[[Any, str, Properties, Properties], None]
"""Called with the resource type, the resource's id, its old inputs and its new inputs."""


def kept_in_state(_type: Any, _id: str, _old: Properties, _new: Properties) -> None:
    """Update of a property that AWS does not know: it only says how a later operation is done."""


@dataclass(frozen=True)
class Property:
    """One input property of a resource type, or one field of such a property.

    A change of it replaces the resource (``replaces``, or if the input that ``replaces_if`` names is true), or is made
    in place by calling ``update``. With neither, the stand-in does not implement the change, and making it is an error.
    """

    required: bool = False
    default: Any = None
    replaces: bool = False
    replaces_if: str | None = None
    update: Update | None = None
    same: Callable[[Any, Any], bool] = operator.eq
    fields: "Mapping[str, Property] | None" = None

    def unchanged(self, old: Any, new: Any) -> bool:
        """Tell whether the values ``old`` and ``new`` mean the same; a value that is not known yet never does."""
        if old is None or new is None or has_unknown(new):
            return bool(old == new)
        return self.same(old, new)

    def as_written(self, written: Any, actual: Any) -> Any:
        """Give what AWS has (``actual``) in the form in which the program wrote it.

        What means the same keeps the program's text, and of an object only the fields that the program set are
        compared, so that defaults which AWS fills in never look like a change.
        """
        if self.fields is not None and isinstance(written, dict) and isinstance(actual, dict):
            return {k: self.fields[k].as_written(v, actual[k]) if k in actual else v for k, v in written.items()}
        if (
            self.fields is not None
            and isinstance(written, list)
            and isinstance(actual, list)
            and len(written) == len(actual)
        ):
            return [self.as_written(*pair) for pair in zip(written, actual, strict=True)]
        return written if self.unchanged(written, actual) else actual


def same_json(old: str, new: str) -> bool:
    """Compare two JSON documents by their meaning: AWS gives policies back with other spacing and order."""
    return bool(json.loads(old) == json.loads(new))


def same_set(old: list[str], new: list[str]) -> bool:
    """Compare two lists whose order means nothing."""
    return sorted(old) == sorted(new)


class ResourceType(ABC):
    """A resource type: the tables that describe it and the operations that its service needs."""

    name: ClassVar[str]
    inputs: ClassVar[Mapping[str, Property]]
    outputs: ClassVar[frozenset[str]] = frozenset()
    """The properties beside the inputs that ``read`` gives."""
    not_found: ClassVar[frozenset[str]]
    """The AWS error codes which say that the resource is gone."""

    def __init__(self, aws: Aws) -> None:
        self.aws = aws

    @abstractmethod
    def create(self, new: Properties) -> str:
        """Create the resource from its inputs, with one call that makes it or does not, and give its id."""

    def settle(self, resource_id: str, new: Properties) -> None:  # noqa: B027  # many need nothing more
        """Do what the creation leaves to do, and wait until the resource can be used.

        Failing here leaves the resource in the state, so that the next `up` or `destroy` deals with it.
        """

    @abstractmethod
    def read(self, resource_id: str, known: Properties) -> Properties | None:
        """Give what AWS says about the resource, or nothing if it is gone.

        ``known`` are its last known inputs. An input that is missing in the answer is one that AWS does not give back;
        one that is ``None`` is not set.
        """

    @abstractmethod
    def delete(self, resource_id: str, old: Properties) -> None:
        """Delete the resource; ``old`` are its last known inputs and outputs."""

    def tag(self, resource_id: str, tags: Mapping[str, str]) -> None:
        """Set ``tags`` on the resource; types with a ``tags`` property implement it."""
        raise NotImplementedError(f"{self.name}: tag")

    def untag(self, resource_id: str, keys: list[str]) -> None:
        """Remove the tags named by ``keys``; types with a ``tags`` property implement it."""
        raise NotImplementedError(f"{self.name}: untag")

    def replaces(self, name: str, new: Properties) -> bool:
        """Tell whether a change of the input ``name`` to its value in ``new`` replaces the resource."""
        item = self.inputs[name]
        return item.replaces or (item.replaces_if is not None and bool(new.get(item.replaces_if)))

    def check(self, inputs: Properties) -> Iterator[tuple[str, str]]:
        """Give every fault of ``inputs``, as the property and what is wrong with it."""
        yield from _faults(self.name, self.inputs, inputs, "")

    def changes(self, old: Properties, new: Properties) -> list[str]:
        """Give the names of the inputs that differ between ``old`` and ``new``."""
        names = [name for name in self.inputs if name in old or name in new]
        return [name for name in names if not self.inputs[name].unchanged(old.get(name), new.get(name))]

    def updates(self, old: Properties, new: Properties) -> list[Update]:
        """Give the calls that bring the resource from ``old`` to ``new``.

        :raises ProviderError: the stand-in does not implement the change of a property.
        """
        updates: dict[Update, None] = {}
        for name in self.changes(old, new):
            update = self.inputs[name].update
            if update is None:
                raise ProviderError(
                    f"{self.name}: the stand-in does not implement a change of {name!r} in place; "
                    f"replace the resource (replace_on_changes=[...])"
                )
            updates[update] = None
        return list(updates)

    def state(self, resource_id: str, inputs: Properties) -> tuple[Properties, Properties] | None:
        """Give the inputs and the whole state of the resource as AWS has them, or nothing if it is gone."""
        try:
            actual = self.read(resource_id, inputs)
        except ClientError as error:
            if error.response["Error"]["Code"] in self.not_found:
                return None
            raise
        if actual is None:
            return None
        if undeclared := actual.keys() - self.inputs.keys() - self.outputs:
            raise AssertionError(f"{self.name}: undeclared outputs {sorted(undeclared)}")
        written = {
            name: self.inputs[name].as_written(value, actual[name]) if name in actual else value
            for name, value in inputs.items()
        }
        return {name: value for name, value in written.items() if value is not None}, actual | written

    def remove(self, resource_id: str, old: Properties) -> None:
        """Delete the resource; one that is gone already is fine."""
        try:
            self.delete(resource_id, old)
        except ClientError as error:
            if error.response["Error"]["Code"] not in self.not_found:
                raise


def update_tags(kind: ResourceType, resource_id: str, old: Properties, new: Properties) -> None:
    """Bring the tags of a resource to those of its new inputs."""
    before, after = old.get("tags") or {}, new.get("tags") or {}
    if removed := sorted(before.keys() - after.keys()):
        kind.untag(resource_id, removed)
    if changed := {key: value for key, value in after.items() if before.get(key) != value}:
        kind.tag(resource_id, changed)


TAGS = Property(default={}, update=update_tags)


@dataclass(frozen=True)
class Function:
    """A function of the provider: reads something from AWS."""

    name: str
    arguments: frozenset[str]
    call: Callable[[Aws, Properties], Properties]


def string_hash(text: str) -> int:
    """Give the number that the official provider puts into ids that AWS does not assign (CRC-32)."""
    return zlib.crc32(text.encode())


def _faults(
    type_name: str, table: Mapping[str, Property], values: Mapping[str, Any], path: str
) -> Iterator[tuple[str, str]]:
    for name in sorted(values.keys() - table.keys()):
        yield path + name, f"{type_name}: the stand-in does not implement the property {path + name!r}"
    for name, item in table.items():
        value = values.get(name)
        if value is None:
            if item.required:
                yield path + name, f"{type_name}: the property {path + name!r} is missing"
        elif item.fields is not None:
            for index, element in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(element, dict):
                    place = f"{path}{name}." if index is None else f"{path}{name}[{index}]."
                    yield from _faults(type_name, item.fields, element, place)
