"""Runs the real `__main__.py` against Pulumi's mocks and records what it asks the engine for.

The mocks answer and record; every assertion is made on the record, outside of them, because one that fails
inside an `apply` can go unnoticed. What this does not show: that AWS, or its provider, takes these inputs.
"""

from __future__ import annotations

import asyncio
import runpy
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
import pulumi
from pulumi.runtime import mocks, rpc, settings

from infra.settings import CHECKOUT

ACCOUNT = "123456789012"
REGION = "us-east-1"
AMI = "ami-0123456789abcdef0"
ZONES = ("us-east-1b", "us-east-1a")

FOUNDATION_OUTPUTS: Mapping[str, Any] = {
    "accountId": ACCOUNT,
    "region": REGION,
    "bucketName": "bucket",
    "cachePrefix": "rocm-pytorch",
    "cacheRoleArn": f"arn:aws:iam::{ACCOUNT}:role/rocm-build-box/cache",
    "boxInstanceProfile": "profile",
    "vpcId": "vpc-1",
    "s3EndpointId": "vpce-1",
    "subnetIds": {"us-east-1a": "subnet-a", "us-east-1b": "subnet-b"},
    "registry": f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com",
    "registryName": "rocm-build-box/foundation",
    "logGroup": "/rocm-build-box/foundation",
}


class UnknownStackError(grpc.RpcError):
    """What the engine answers for a stack that is not there, in the words of Pulumi 3.274."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNKNOWN

    def details(self) -> str:
        return f'invocation of pulumi:pulumi:readStackOutputs returned an error: unknown stack "{self.name}"'


@dataclass
class World:
    """What the mocks say about the world outside."""

    zones: tuple[str, ...] = ZONES
    """Zones that offer the instance type."""
    architectures: tuple[str, ...] = ("x86_64",)
    gpus: tuple[Mapping[str, Any], ...] = ()
    foundation: Mapping[str, Any] | None = field(default_factory=lambda: FOUNDATION_OUTPUTS)
    """The foundation stack's outputs; None: there is no such stack."""
    running: Mapping[str, str] = field(default_factory=dict)
    """Running instances of the stack, id to LaunchHash."""
    last_instance: str | None = None
    """The `instanceId` of the stack's last complete `up`."""
    region: str = REGION


@dataclass(frozen=True)
class Resource:
    """One registration, with the options that Pulumi's mocks do not pass on."""

    type: str
    name: str
    inputs: Mapping[str, Any]
    protect: bool
    delete_before_replace: bool
    ignore_changes: tuple[str, ...]
    replacement_trigger: str
    dependencies: frozenset[str]
    """Logical `type::name` of what must be there before."""


@dataclass
class Record:
    """All that a run of the program asked for."""

    resources: list[Resource] = field(default_factory=list)
    outputs: Mapping[str, Any] = field(default_factory=dict)

    def one(self, type_: str, name: str | None = None) -> Resource:
        """Return the only registration of a type, or of a type and name."""
        found = [r for r in self.resources if r.type == type_ and name in (None, r.name)]
        assert len(found) == 1, f"{len(found)} of {type_} {name}"
        return found[0]


class _World(mocks.Mocks):
    def __init__(self, world: World, *, preview: bool) -> None:
        self.world = world
        self.preview = preview

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        return self._answer(args.token, args.args), []

    def _answer(self, token: str, args: Mapping[str, Any]) -> dict[str, Any]:
        world = self.world
        match token.rpartition(":")[2]:
            case "getCallerIdentity":
                return {"accountId": ACCOUNT, "id": ACCOUNT}
            case "getRegion":
                return {"region": world.region, "id": world.region}
            case "getAvailabilityZones":
                assert args == {
                    "state": "available",
                    "filters": [{"name": "opt-in-status", "values": ["opt-in-not-required"]}],
                }
                return {"names": list(ZONES)}
            case "getInstanceTypeOfferings":
                assert args["locationType"] == "availability-zone"
                return {"locations": list(world.zones)}
            case "getInstanceType":
                return {"supportedArchitectures": list(world.architectures), "gpuses": list(world.gpus)}
            case "getInstances":
                assert args["instanceStateNames"] == ["pending", "running"]
                tags = dict(args["instanceTags"])
                wanted = tags.pop("LaunchHash", None)
                assert tags == {"Project": "rocm-build-box", "Stack": "dev"}
                return {"ids": [instance for instance, launch in world.running.items() if wanted in (None, launch)]}
            case "getParameter":
                assert args["name"] == "/aws/service/debian/release/13/latest/amd64"
                return {"value": AMI}
            case "readStackOutputs" if args["name"] == "organization/rocm-build-box/dev":
                instance_id = world.last_instance
                return {"name": args["name"], "outputs": {"instanceId": instance_id} if instance_id else {}}
            case "readStackOutputs":
                if world.foundation is None:
                    raise UnknownStackError(args["name"])
                return {"name": args["name"], "outputs": dict(world.foundation)}
        raise AssertionError(f"a function that the program should not call: {token}")

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        if args.typ == "pulumi:pulumi:StackReference":
            assert self.world.foundation is not None
            outputs = {"outputs": dict(self.world.foundation), "secretOutputNames": []}
            return args.resource_id, {**args.inputs, **outputs}
        # At preview the engine knows no id of anything that is not there yet.
        return None if self.preview else f"{args.name}-id", dict(args.inputs)


class _Recorder(mocks.MockMonitor):
    def __init__(self, answers: mocks.Mocks, record: Record) -> None:
        super().__init__(answers)
        self.record = record

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802  # the engine's name for it
        if request.type != "pulumi:pulumi:Stack":
            self.record.resources.append(
                Resource(
                    type=request.type,
                    name=request.name,
                    inputs=rpc.deserialize_properties(request.object, keep_unknowns=True),
                    protect=request.protect,
                    delete_before_replace=request.deleteBeforeReplace,
                    ignore_changes=tuple(request.ignoreChanges),
                    replacement_trigger=request.replacement_trigger.string_value,
                    dependencies=frozenset(_logical(urn) for urn in request.dependencies),
                )
            )
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]  # the SDK does not type its mocks

    def ReadResource(self, request: Any) -> Any:  # noqa: N802  # the engine's name for it
        inputs = rpc.deserialize_properties(request.properties)
        self.record.resources.append(Resource(request.type, request.name, inputs, False, False, (), "", frozenset()))
        return super().ReadResource(request)  # type: ignore[no-untyped-call]  # the SDK does not type its mocks

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802  # the engine's name for it
        if "::pulumi:pulumi:Stack::" in request.urn:
            self.record.outputs = rpc.deserialize_properties(request.outputs, keep_unknowns=True)
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]  # the SDK does not type its mocks


def _logical(urn: str) -> str:
    _, _, types, name = urn.split("::")
    return f"{types.rpartition('$')[2]}::{name}"


def run(stack: str, config: Mapping[str, str], world: World | None = None, *, preview: bool = False) -> Record:
    """Run the program as the engine would, and return what it registered.

    Raises:
        RunError: the program refused, as the operator would see it.
    """
    record = Record()
    answers = _World(world or World(), preview=preview)
    # Pulumi starts tasks on the thread's loop as soon as it gets the mocks; on another loop nobody would ever
    # finish them.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    # The mocks answer in threads, and make a loop in each that has none, which nobody would ever close.
    loops = [loop]

    def enter_thread() -> None:
        loops.append(asyncio.new_event_loop())
        asyncio.set_event_loop(loops[-1])

    loop.set_default_executor(ThreadPoolExecutor(initializer=enter_thread))
    mocks.set_mocks(
        answers,
        project="rocm-build-box",
        stack=stack,
        preview=preview,
        monitor=_Recorder(answers, record),
        organization="organization",
    )
    # The mocks come with a root of their own that is already finished, and only one may be active.
    settings.ROOT.set(None)
    pulumi.runtime.config.set_all_config({f"rocm-build-box:{key}": value for key, value in config.items()}, [])

    def program() -> None:
        runpy.run_path(str(CHECKOUT / "__main__.py"), run_name="__main__")

    try:
        loop.run_until_complete(pulumi.runtime.run_in_stack(program))
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        for made in loops:
            made.close()
    return record
