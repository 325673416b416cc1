"""Pulumi's wire form of properties (a protobuf ``Struct``) to plain Python values and back.

``pulumi.provider.experimental`` has a conversion of its own, which drops the content hash of an asset; the hash is what
tells whether an asset changed, so assets stay here the plain mappings that they are on the wire.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.rpc import UNKNOWN

__all__ = ["UNKNOWN", "Properties", "from_struct", "has_unknown", "to_struct"]

Properties = dict[str, Any]
"""Properties of a resource by their names in Pulumi's schema (camel case), as JSON-like values."""


def from_struct(struct: Struct) -> Properties:
    """Give the properties of a wire ``struct``; whole numbers become ``int``, because boto3 refuses ``1.0``."""
    return {name: _whole_numbers(value) for name, value in MessageToDict(struct).items()}


def to_struct(properties: Mapping[str, Any]) -> Struct:
    """Give the wire form of ``properties``; a property whose value is ``None`` is left out, as if never set."""
    struct = Struct()
    struct.update({name: value for name, value in properties.items() if value is not None})
    return struct


def has_unknown(value: Any) -> bool:
    """Tell whether ``value`` is, or contains, one that a preview does not know yet."""
    if isinstance(value, Mapping):
        return any(map(has_unknown, value.values()))
    if isinstance(value, list):
        return any(map(has_unknown, value))
    return bool(value == UNKNOWN)


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
