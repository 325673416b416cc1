"""The settings of a stack: read once, checked whole, typed.

`Pulumi.yaml` holds the schema (types, defaults, descriptions) and the engine checks types against it. What a
value may be beyond its type is checked here, for every key at once, so that one run shows all there is to put
right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import pulumi
import yaml

from buildspec.bakefile import BakeFile
from infra.errors import RefusedError
from infra.naming import PROJECT, RESERVED_FOLDERS

CHECKOUT = Path(__file__).resolve().parent.parent

LAYERS = ("foundation", "box")
FOUNDATION_KEYS = frozenset({"layer", "bakeVariables", "cacheRolePrincipals", "protect"})
BOX_KEYS = frozenset(
    {
        "layer",
        "ami",
        "bakeVariables",
        "foundationStack",
        "instanceType",
        "keepBox",
        "maxLifetimeHours",
        "requireGpu",
        "targets",
        "volumeGiB",
    }
)

CACHE_PREFIX_VARIABLE = "SCCACHE_S3_KEY_PREFIX"
ARCHITECTURES_VARIABLE = "PYTORCH_ROCM_ARCH"

# Bake variables that the box fills in. A value from the settings would make the build use a store, or claim a
# commit, that is not the one that the stack prepared.
SET_BY_THE_BOX: Mapping[str, str] = {
    "SCCACHE_BUCKET": "it is the foundation's bucket",
    "SCCACHE_REGION": "it is the foundation's region",
    CACHE_PREFIX_VARIABLE: "the cache role is limited to the foundation's prefix; set it in the foundation stack",
    "VCS_REF": "it is the commit of this checkout",
    "BUILD_DATE": "it is the date of this checkout's commit",
    "RUN_ID": "it is the box stack and the instance id",
}

# Debian and Docker alone take some GiB; 16 TiB is more than any build fills, and a slip of the finger is
# expensive.
VOLUME_GIB = range(30, 16_384 + 1)
LIFETIME_HOURS = range(1, 12 + 1)
CACHE_PREFIX_LENGTH = 200

_STACK = re.compile(r"[A-Za-z0-9._-]{1,100}")
_INSTANCE_TYPE = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]+")
_AMI = re.compile(r"ami-(?:[0-9a-f]{8}|[0-9a-f]{17})")
# Exact ARNs: an asterisk or a question mark is a wildcard in the trust policy's condition.
_PRINCIPAL = re.compile(r"arn:aws:iam::(?P<account>\d{12}):(?:role|user)/[A-Za-z0-9+=,.@_/-]+")
# What S3 calls safe in a key, less what a policy would read as a wildcard or a variable.
_PREFIX_FOLDER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_REGISTRY = re.compile(r"[A-Za-z0-9.-]+(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with the settings."""

    key: str
    value: object
    allowed: str
    fix: str

    def __str__(self) -> str:
        return f"{self.key}: {json.dumps(self.value)}\n    allowed: {self.allowed}\n    fix: {self.fix}"


class SettingsError(RefusedError):
    """The settings are wrong; `problems` has all of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = f"{len(problems)} setting{'s are' if len(problems) > 1 else ' is'} wrong"
        super().__init__("\n".join([f"{count}:", *(f"  {problem}" for problem in problems)]))


@dataclass(frozen=True)
class FoundationSettings:
    """Settings of a foundation stack."""

    cache_prefix: str
    """Folder of the compile cache in the bucket, without a slash at its ends."""
    cache_role_principals: tuple[str, ...]
    """ARNs of roles and users that may assume the cache role besides the box."""
    protect: bool

    def check_account(self, account: str) -> None:
        """Raise SettingsError when a principal is not of `account`, the only one that the cache role can trust."""
        foreign = [arn for arn in self.cache_role_principals if f"::{account}:" not in arn]
        if foreign:
            raise SettingsError(
                [
                    Problem(
                        "cacheRolePrincipals",
                        arn,
                        f"roles and users of this stack's account, {account}",
                        f"make a role in {account} that the other account may assume, and name that",
                    )
                    for arn in foreign
                ]
            )


@dataclass(frozen=True)
class BoxSettings:
    """Settings of a box stack."""

    foundation_stack: str
    instance_type: str
    volume_gib: int
    ami: str | None
    """A pinned AMI, or None for Debian's newest."""
    targets: tuple[str, ...]
    bake_variables: Mapping[str, str]
    """Only those that the operator sets."""
    rocm_architectures: tuple[str, ...]
    """The gfx architectures that the build compiles for."""
    max_lifetime_hours: int
    keep_box: bool
    require_gpu: bool

    @property
    def registry_port(self) -> int:
        """The TCP port of the registry, when the settings name one; 443 otherwise."""
        match = _REGISTRY.fullmatch(self.bake_variables.get("REGISTRY", ""))
        return int(match["port"]) if match and match["port"] else 443


def read() -> dict[str, str]:
    """Return this project's settings as the engine delivers them: text, with arrays and objects as JSON.

    `pulumi.Config` answers only for keys that it is asked for, and a misspelt key would never be asked for;
    so the whole map is read.

    Raises:
        SettingsError: a key is stored as a secret.
    """
    namespace = f"{pulumi.get_project()}:"
    everything = pulumi.runtime.config.CONFIG.get()
    ours = [key for key in everything if key.startswith(namespace)]
    secret = [key for key in ours if pulumi.runtime.is_config_secret(key)]
    if secret:
        raise SettingsError(
            [
                Problem(
                    key.removeprefix(namespace),
                    "[secret]",
                    "plain values: user data and image layers show every setting to whoever can read them",
                    f"pulumi config rm {key}, and keep the secret out of the build",
                )
                for key in secret
            ]
        )
    return {key.removeprefix(namespace): everything[key] for key in ours}


def load(bake: BakeFile) -> FoundationSettings | BoxSettings:
    """Return the settings of the stack that is being deployed.

    Raises:
        SettingsError: any setting is wrong.
    """
    return parse(read(), bake)


def parse(raw: Mapping[str, str], bake: BakeFile) -> FoundationSettings | BoxSettings:
    """Return typed settings from text as the engine delivers it; a key that is not in `raw` has its default.

    Raises:
        SettingsError: with every problem that there is.
    """
    parser = _Parser({**schema_defaults(), **raw}, bake)
    parser.refuse_unknown_keys(raw)
    layer = parser.choice("layer", LAYERS)
    settings: FoundationSettings | BoxSettings | None = None
    if layer == "foundation":
        parser.refuse_keys_of_the_other_layer(layer, BOX_KEYS - FOUNDATION_KEYS)
        settings = parser.foundation()
    elif layer == "box":
        parser.refuse_keys_of_the_other_layer(layer, FOUNDATION_KEYS - BOX_KEYS)
        settings = parser.box()
    if parser.problems or settings is None:
        raise SettingsError(parser.problems)
    return settings


@cache
def schema_defaults() -> Mapping[str, str]:
    """Return the defaults of `Pulumi.yaml` in the form in which the engine delivers them."""
    schema = yaml.safe_load((CHECKOUT / "Pulumi.yaml").read_text())["config"]
    return {key: _as_delivered(entry["default"]) for key, entry in schema.items() if "default" in entry}


def _as_delivered(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _did_you_mean(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that `name` is most likely a misspelling of, whatever its case."""
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), by_lower_case, n=1)
    return by_lower_case[close[0]] if close else None


@dataclass
class _Parser:
    """Turns text into values and collects what is wrong. After a problem it returns some value of the right type."""

    raw: Mapping[str, str]
    bake: BakeFile
    problems: list[Problem] = field(default_factory=list)

    def foundation(self) -> FoundationSettings:
        return FoundationSettings(
            cache_prefix=self._cache_prefix(),
            cache_role_principals=self._names("cacheRolePrincipals", self._check_principal),
            protect=self._boolean("protect"),
        )

    def box(self) -> BoxSettings:
        variables = self._bake_variables()
        self._check_box_variables(variables)
        targets = self._names("targets", self._check_target)
        if not targets and not any(problem.key.startswith("targets") for problem in self.problems):
            self._problem("targets", self.raw["targets"], "at least one target of rocm-bake.hcl", "name one")
        architectures = variables.get(ARCHITECTURES_VARIABLE, self.bake.variables[ARCHITECTURES_VARIABLE].default)
        return BoxSettings(
            foundation_stack=self._matching(
                "foundationStack",
                _STACK,
                "a stack name: letters, digits, '.', '_' and '-'; no organization and no project",
            ),
            instance_type=self._matching("instanceType", _INSTANCE_TYPE, "an EC2 instance type such as m7a.8xlarge"),
            volume_gib=self._integer("volumeGiB", VOLUME_GIB, "GiB"),
            ami=self._matching("ami", _AMI, "empty, or 'ami-' and 8 or 17 hexadecimal digits")
            if self.raw["ami"]
            else None,
            targets=targets,
            bake_variables=variables,
            rocm_architectures=tuple(part.strip() for part in architectures.split(";") if part.strip()),
            max_lifetime_hours=self._integer("maxLifetimeHours", LIFETIME_HOURS, "hours"),
            keep_box=self._boolean("keepBox"),
            require_gpu=self._boolean("requireGpu"),
        )

    def refuse_unknown_keys(self, given: Mapping[str, str]) -> None:
        known = sorted(FOUNDATION_KEYS | BOX_KEYS)
        for key in sorted(set(given) - set(known)):
            meant = _did_you_mean(key, known)
            self._problem(
                key,
                given[key],
                f"the settings of Pulumi.yaml: {', '.join(known)}",
                f"{f'did you mean {meant}? ' if meant else ''}pulumi config rm {PROJECT}:{key}",
            )

    def refuse_keys_of_the_other_layer(self, layer: str, keys: frozenset[str]) -> None:
        # The engine delivers the default of every key to every stack, so only another value shows that
        # somebody set it.
        for key in sorted(keys):
            if self.raw[key] != schema_defaults()[key]:
                self._problem(
                    key,
                    self.raw[key],
                    f"no value in a stack with layer {layer}, where it has no effect",
                    f"pulumi config rm {PROJECT}:{key}, or set it in the stack that it is for",
                )

    def choice(self, key: str, allowed: Sequence[str]) -> str | None:
        value = self.raw.get(key)
        if value in allowed:
            return value
        self._problem(
            key,
            value,
            " or ".join(allowed),
            f"pulumi config set {PROJECT}:{key} {allowed[0]} (or {', '.join(allowed[1:])})",
        )
        return None

    def _problem(self, key: str, value: object, allowed: str, fix: str) -> None:
        self.problems.append(Problem(key, value, allowed, fix))

    def _matching(self, key: str, pattern: re.Pattern[str], allowed: str) -> str:
        value = self.raw[key]
        if not pattern.fullmatch(value):
            self._problem(key, value, allowed, f"pulumi config set {PROJECT}:{key} <value>")
        return value

    def _integer(self, key: str, allowed: range, unit: str) -> int:
        value = self.raw[key]
        number = int(value) if re.fullmatch(r"-?\d{1,18}", value) else None
        if number is None or number not in allowed:
            self._problem(
                key,
                value,
                f"a whole number of {unit}, {allowed[0]} to {allowed[-1]}",
                f"pulumi config set {PROJECT}:{key} <number>",
            )
            return allowed[0]
        return number

    def _boolean(self, key: str) -> bool:
        value = self.raw[key]
        if value not in ("true", "false"):
            self._problem(key, value, "true or false", f"pulumi config set {PROJECT}:{key} true")
        return value == "true"

    def _json(self, key: str, kind: type[list[Any] | dict[str, Any]], allowed: str) -> Any:
        try:
            value = json.loads(self.raw[key])
        except json.JSONDecodeError:
            value = None
        if isinstance(value, kind):
            return value
        self._problem(
            key,
            self.raw[key],
            allowed,
            f"write it as YAML in the stack's file, or as JSON: pulumi config set {PROJECT}:{key}",
        )
        return kind()

    def _names(self, key: str, check: Callable[[str, str], None]) -> tuple[str, ...]:
        names: list[str] = []
        for index, item in enumerate(self._json(key, list, "a list of names")):
            where = f"{key}[{index}]"
            if not isinstance(item, str):
                self._problem(where, item, "text", "quote it")
            elif item in names:
                self._problem(where, item, "each name once", "leave it out")
            else:
                check(where, item)
                names.append(item)
        return tuple(names)

    def _check_target(self, where: str, name: str) -> None:
        buildable = (target.name for target in self.bake.targets.values() if not target.is_abstract)
        known = sorted({*buildable, *self.bake.groups})
        if name not in known:
            meant = _did_you_mean(name, known)
            self._problem(
                where,
                name,
                f"a target or group of rocm-bake.hcl: {', '.join(known)}",
                f"did you mean {meant}?" if meant else "choose one of these",
            )

    def _check_principal(self, where: str, arn: str) -> None:
        if not _PRINCIPAL.fullmatch(arn):
            self._problem(
                where,
                arn,
                "the ARN of one role or user, arn:aws:iam::<12 digits>:role/<name> or ...:user/<name>, no wildcards",
                "for a session (arn:aws:sts::...:assumed-role/...) name its role; `aws iam get-role` shows the ARN",
            )

    def _bake_variables(self) -> dict[str, str]:
        """Return `bakeVariables` as text, without those that have a problem."""
        variables: dict[str, str] = {}
        for name, value in self._json("bakeVariables", dict, "a map of bake variables to values").items():
            where = f"bakeVariables.{name}"
            if name not in self.bake.variables:
                known = sorted(self.bake.variables)
                meant = _did_you_mean(name, known)
                self._problem(
                    where,
                    value,
                    "a variable of rocm-bake.hcl (make list-vars shows them)",
                    f"did you mean {meant}?" if meant else "remove it",
                )
                continue
            if isinstance(value, bool):
                text = "true" if value else "false"
            elif isinstance(value, int):
                text = str(value)
            elif isinstance(value, str):
                text = value
            else:
                # 3.10 in YAML is the number 3.1; what was meant cannot be told from what arrives.
                self._problem(where, value, "text, a whole number, true or false", f'quote it: {name}: "..."')
                continue
            if not text.isprintable():
                self._problem(where, text, "text on one line", "remove the line breaks and control characters")
                continue
            variables[name] = text
        return variables

    def _check_box_variables(self, variables: Mapping[str, str]) -> None:
        for name in sorted(variables.keys() & SET_BY_THE_BOX.keys()):
            if name == "SCCACHE_BUCKET" and "SCCACHE_REGION" not in variables:
                self._problem(
                    "bakeVariables.SCCACHE_BUCKET",
                    variables[name],
                    "SCCACHE_BUCKET and SCCACHE_REGION together, and in a box stack neither: both are the foundation's",
                    "remove it; the box sets SCCACHE_BUCKET and SCCACHE_REGION",
                )
                continue
            self._problem(
                f"bakeVariables.{name}",
                variables[name],
                f"no value in a box stack: {SET_BY_THE_BOX[name]}",
                "remove it",
            )
        registry = variables.get("REGISTRY")
        if registry is not None:
            match = _REGISTRY.fullmatch(registry)
            if not match or (match["port"] and not 1 <= int(match["port"]) <= 65_535):
                self._problem(
                    "bakeVariables.REGISTRY",
                    registry,
                    "a host name, or host:port; no scheme and no path",
                    "put the path into REGISTRY_NAME",
                )
        # Half of a pair would be completed with the other registry's half, which shows only when the push
        # fails, hours in.
        given = variables.keys() & {"REGISTRY", "REGISTRY_NAME"}
        if len(given) == 1:
            (name,) = given
            self._problem(
                f"bakeVariables.{name}",
                variables[name],
                "REGISTRY and REGISTRY_NAME together, or neither for the foundation's ECR repository",
                f"set {'REGISTRY_NAME' if name == 'REGISTRY' else 'REGISTRY'} too, or remove {name}",
            )

    def _cache_prefix(self) -> str:
        variables = self._bake_variables()
        for name in sorted(variables.keys() - {CACHE_PREFIX_VARIABLE}):
            self._problem(
                f"bakeVariables.{name}",
                variables[name],
                f"only {CACHE_PREFIX_VARIABLE} in a foundation stack",
                "set it in the box stack",
            )
        prefix = variables.get(CACHE_PREFIX_VARIABLE, self.bake.variables[CACHE_PREFIX_VARIABLE].default)
        folders = prefix.split("/")
        if (
            len(prefix) > CACHE_PREFIX_LENGTH
            or folders[0] in RESERVED_FOLDERS
            or not all(_PREFIX_FOLDER.fullmatch(folder) for folder in folders)
        ):
            self._problem(
                f"bakeVariables.{CACHE_PREFIX_VARIABLE}",
                prefix,
                f"folders of letters, digits, '.', '_' and '-' with one '/' between them, "
                f"at most {CACHE_PREFIX_LENGTH} characters, not under {' or '.join(RESERVED_FOLDERS)}",
                "choose another prefix, such as rocm-pytorch",
            )
        return prefix
