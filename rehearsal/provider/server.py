"""The provider as the engine sees it: a gRPC server of Pulumi's ``ResourceProvider`` protocol.

It stands on the protocol classes of Pulumi's SDK rather than on ``pulumi.provider.experimental``, which has no way to
say that a resource was made but did not come up, puts a traceback into every error, loses the hashes of assets, and
would serve one call at a time, because boto3 blocks.
"""

# What these methods are for is in Pulumi's provider.proto, their names too.
# ruff: noqa: ARG002, D102, N802

import copy
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import wraps
from typing import Any, NoReturn, TypeVar

import grpc
from botocore.exceptions import BotoCoreError, ClientError, WaiterError
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import provider_pb2 as proto
from pulumi.runtime.proto import status_pb2
from pulumi.runtime.proto.plugin_pb2 import PluginInfo
from pulumi.runtime.proto.provider_pb2_grpc import (
    ResourceProviderServicer,
    add_ResourceProviderServicer_to_server,
)

from rehearsal.provider import ec2, ecr, iam, instance, logs, s3, ssm
from rehearsal.provider.aws import Aws
from rehearsal.provider.errors import ProviderError
from rehearsal.provider.resource import Function, ResourceType
from rehearsal.provider.wire import UNKNOWN, Properties, from_struct, to_struct

VERSION = "7.51.1"
"""The version of pulumi_aws whose tokens and properties this implements."""

RESOURCES: dict[str, type[ResourceType]] = {
    kind.name: kind for module in (ec2, ecr, iam, instance, logs, s3) for kind in module.RESOURCES
}
FUNCTIONS: dict[str, Function] = {
    function.name: function for module in (ec2, iam, ssm) for function in module.FUNCTIONS
}
CONFIGURATION = frozenset({"region", "version"})
"""The provider's own settings; the engine adds ``version`` to those of the operator."""

EXPECTED = (ProviderError, ClientError, BotoCoreError, WaiterError)
"""Errors whose message is for the operator; any other is a fault of this program."""

Method = TypeVar("Method", bound=Callable[..., Any])


class _InitFailed(grpc.Status):
    """The gRPC status which says that a resource exists but did not come up."""

    def __init__(self, failure: proto.ErrorResourceInitFailed) -> None:
        self.code = grpc.StatusCode.UNKNOWN
        self.details = "; ".join(failure.reasons)
        status = status_pb2.Status(code=self.code.value[0], message=self.details)
        status.details.add().Pack(failure)
        self.trailing_metadata = (("grpc-status-details-bin", status.SerializeToString()),)


def _answering(method: Method) -> Method:
    """Give an expected error to the engine as its message alone."""

    @wraps(method)
    def answer(self: "Provider", request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return method(self, request, context)
        except EXPECTED as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))

    return answer  # type: ignore[return-value]  # functools.wraps keeps the signature


class Provider(ResourceProviderServicer):
    """The provider's methods, as Pulumi's ``provider.proto`` describes them."""

    def __init__(self) -> None:
        self._aws = Aws()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> PluginInfo:
        return PluginInfo(version=VERSION)

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Empty:
        return Empty()

    def CheckConfig(self, request: proto.CheckRequest, context: grpc.ServicerContext) -> proto.CheckResponse:
        failures = [
            proto.CheckFailure(property=name, reason=f"the stand-in does not implement aws:{name}")
            for name in sorted(from_struct(request.news).keys() - CONFIGURATION)
        ]
        return proto.CheckResponse(inputs=request.news, failures=failures)

    def DiffConfig(self, request: proto.DiffRequest, context: grpc.ServicerContext) -> proto.DiffResponse:
        old, new = from_struct(request.old_inputs), from_struct(request.news)
        # Another region means other resources, not a change of these.
        replaces = ["region"] if old.get("region") != new.get("region") else []
        changes = proto.DiffResponse.DIFF_SOME if replaces else proto.DiffResponse.DIFF_NONE
        return proto.DiffResponse(changes=changes, replaces=replaces)

    def Configure(self, request: proto.ConfigureRequest, context: grpc.ServicerContext) -> proto.ConfigureResponse:
        self._aws = Aws(from_struct(request.args).get("region"))
        # Without acceptSecrets the engine itself marks the outputs which repeat a secret input.
        return proto.ConfigureResponse(supportsPreview=True)

    @_answering
    def Invoke(self, request: proto.InvokeRequest, context: grpc.ServicerContext) -> proto.InvokeResponse:
        function = FUNCTIONS.get(request.tok)
        if function is None:
            raise ProviderError(f"the stand-in does not implement the function {request.tok}")
        arguments = {name: value for name, value in from_struct(request.args).items() if value is not None}
        if unknown := sorted(arguments.keys() - function.arguments):
            reason = f"{request.tok}: the stand-in does not implement this argument"
            return proto.InvokeResponse(failures=[proto.CheckFailure(property=name, reason=reason) for name in unknown])
        answer: dict[str, Any] = {"return": to_struct(function.call(self._aws, arguments))}  # a keyword in Python
        return proto.InvokeResponse(**answer)

    @_answering
    def Check(self, request: proto.CheckRequest, context: grpc.ServicerContext) -> proto.CheckResponse:
        kind = self._type(request.urn)
        inputs = {name: value for name, value in from_struct(request.news).items() if value is not None}
        failures = [proto.CheckFailure(property=name, reason=reason) for name, reason in kind.check(inputs)]
        defaults = {name: copy.deepcopy(item.default) for name, item in kind.inputs.items() if item.default is not None}
        return proto.CheckResponse(inputs=to_struct(defaults | inputs), failures=failures)

    @_answering
    def Diff(self, request: proto.DiffRequest, context: grpc.ServicerContext) -> proto.DiffResponse:
        kind = self._type(request.urn)
        old, new = from_struct(request.old_inputs), from_struct(request.news)
        changes = kind.changes(old, new)
        replaces = [name for name in changes if kind.replaces(name, new)]
        return proto.DiffResponse(
            changes=proto.DiffResponse.DIFF_SOME if changes else proto.DiffResponse.DIFF_NONE,
            diffs=changes,
            replaces=replaces,
            hasDetailedDiff=True,
            detailedDiff={
                name: proto.PropertyDiff(kind=_kind(name not in old, name not in new, name in replaces), inputDiff=True)
                for name in changes
            },
        )

    @_answering
    def Create(self, request: proto.CreateRequest, context: grpc.ServicerContext) -> proto.CreateResponse:
        kind = self._type(request.urn)
        inputs = from_struct(request.properties)
        if request.preview:
            return proto.CreateResponse(properties=to_struct(dict.fromkeys(kind.outputs, UNKNOWN) | inputs))
        resource_id = kind.create(inputs)
        try:
            kind.settle(resource_id, inputs)
            _, state = _existing(kind, resource_id, inputs)
        except EXPECTED as error:
            _abort_with_resource(context, resource_id, inputs, str(error))
        return proto.CreateResponse(id=resource_id, properties=to_struct(state))

    @_answering
    def Read(self, request: proto.ReadRequest, context: grpc.ServicerContext) -> proto.ReadResponse:
        kind = self._type(request.urn)
        inputs = from_struct(request.inputs)
        if not inputs:
            raise ProviderError(f"{kind.name}: the stand-in does not implement reading a resource it did not make")
        found = kind.state(request.id, inputs)
        if found is None:
            return proto.ReadResponse()
        now, state = found
        return proto.ReadResponse(id=request.id, inputs=to_struct(now), properties=to_struct(state))

    @_answering
    def Update(self, request: proto.UpdateRequest, context: grpc.ServicerContext) -> proto.UpdateResponse:
        kind = self._type(request.urn)
        old, new = from_struct(request.old_inputs), from_struct(request.news)
        updates = kind.updates(old, new)
        if request.preview:
            return proto.UpdateResponse(properties=to_struct(from_struct(request.olds) | new))
        for update in updates:
            update(kind, request.id, old, new)
        _, state = _existing(kind, request.id, new)
        return proto.UpdateResponse(properties=to_struct(state))

    @_answering
    def Delete(self, request: proto.DeleteRequest, context: grpc.ServicerContext) -> Empty:
        self._type(request.urn).remove(request.id, from_struct(request.properties))
        return Empty()

    def _type(self, urn: str) -> ResourceType:
        """Give the resource type of ``urn`` (``urn:pulumi:<stack>::<project>::<parents$type>::<name>``)."""
        name = urn.split("::")[2].rpartition("$")[2]
        if name not in RESOURCES:
            raise ProviderError(f"the stand-in does not implement the resource type {name}")
        return RESOURCES[name](self._aws)


def start() -> tuple[grpc.Server, int]:
    """Start serving on a free port of loopback; give the server and the port."""
    # One call is one thread, most of whose time is spent waiting for AWS.
    server = grpc.server(ThreadPoolExecutor(max_workers=16))
    add_ResourceProviderServicer_to_server(Provider(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def serve() -> None:
    """Serve until the engine ends this process; says the port on standard output, as the engine expects."""
    engine = os.getppid()
    server, port = start()
    print(port, flush=True)
    # The engine ends a provider with SIGINT. One that is killed cannot, and would leave the provider behind.
    with suppress(KeyboardInterrupt):
        while os.getppid() == engine:
            server.wait_for_termination(timeout=1)


def _existing(kind: ResourceType, resource_id: str, inputs: Properties) -> tuple[Properties, Properties]:
    found = kind.state(resource_id, inputs)
    if found is None:
        raise ProviderError(f"{kind.name}: {resource_id} was gone right after it was made or changed")
    return found


def _abort_with_resource(context: grpc.ServicerContext, resource_id: str, inputs: Properties, reason: str) -> NoReturn:
    """Fail a creation, but leave the resource in the state, so that the next `up` or `destroy` deals with it."""
    failure = proto.ErrorResourceInitFailed(
        id=resource_id, properties=to_struct(inputs), inputs=to_struct(inputs), reasons=[reason]
    )
    context.abort_with_status(_InitFailed(failure))


def _kind(added: bool, removed: bool, replaces: bool) -> Any:
    kinds = proto.PropertyDiff
    if added:
        return kinds.ADD_REPLACE if replaces else kinds.ADD
    if removed:
        return kinds.DELETE_REPLACE if replaces else kinds.DELETE
    return kinds.UPDATE_REPLACE if replaces else kinds.UPDATE
