"""The WSGI application behind every AWS host name: rules first, then the service's answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rehearsal.cloud import REGISTRY_HOST, sts
from rehearsal.cloud.backends import SERVICES
from rehearsal.cloud.credentials import Credential
from rehearsal.cloud.errors import JSON_SERVICES, JSON_TYPE, ApiError, render
from rehearsal.cloud.faults import Call, UnansweredError
from rehearsal.cloud.iam import UnsupportedPolicyError
from rehearsal.cloud.journal import Journal
from rehearsal.cloud.registry import Registry
from rehearsal.cloud.requests import ApiRequest, parse
from rehearsal.cloud.rules import Ruleset
from rehearsal.cloud.serving import StartResponseRecorder, answer
from rehearsal.cloud.world import World

if TYPE_CHECKING:
    from wsgiref.types import StartResponse

Answer = Callable[[World, ApiRequest, Credential], bytes]


class Front:
    """Decides, answers and logs each request. Safe for threads."""

    def __init__(self, world: World, rules: Ruleset, registry: Registry, journal: Journal) -> None:
        self._world = world
        self._rules = rules
        self._registry = registry
        self._journal = journal
        # How many requests have changed something in EC2, its network included.
        self.ec2_changes = 0
        # What the cloud answers itself, because moto would not know the sessions and tokens.
        self._own: dict[tuple[str, str], Answer] = {
            ("sts", "AssumeRole"): sts.assume_role,
            ("sts", "GetCallerIdentity"): sts.get_caller_identity,
            ("ecr", "GetAuthorizationToken"): registry.get_authorization_token,
        }

    def __call__(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        """Answer one request, as WSGI has it."""
        host = environ.get("HTTP_HOST", "").rsplit(":", 1)[0]
        if host == REGISTRY_HOST:
            return self._answer_registry(environ, start)
        return self._answer_api(environ, start)

    def _answer_api(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        recorder = StartResponseRecorder()
        request: ApiRequest | None = None
        # As it was sent: moto gets another one.
        path = environ["PATH_INFO"]
        try:
            request = parse(environ)
            request.credential = self._world.keyring.find(request.access_key_id or "")
            self._world.faults.meet(Call(request.service, request.operation, request.asked_path))
            body = self._decided(request, recorder)
        except ApiError as error:
            body = _error(request, recorder, error)
        except UnsupportedPolicyError as error:
            body = _error(request, recorder, ApiError(501, "NotImplemented", f"The rehearsal cannot decide: {error}"))
        except UnansweredError:
            self._log(request, environ, path, None)
            raise
        self._log(request, environ, path, recorder.status)
        start(recorder.status, recorder.headers)
        return [body]

    def _decided(self, request: ApiRequest, recorder: StartResponseRecorder) -> bytes:
        if request.service not in SERVICES:
            raise ApiError(
                501, "NotImplemented", f"The rehearsal's cloud has {sorted(SERVICES)}, not {request.service}"
            )
        with self._world.backends.locked():
            self._rules.apply(self._world, request)
            own = self._own.get((request.service, request.operation))
            if own is not None and request.credential is not None:
                body = own(self._world, request, request.credential)
                content_type = JSON_TYPE if request.service in JSON_SERVICES else "text/xml"
                answer(recorder, "200 OK", content_type, body)
                return body
            application = self._world.backends.application(request.service)
            answered = application(request.environ, recorder)
            body = b"".join(answered)
            if recorder.status.startswith("200"):
                self._follow(request)
        return body

    def _follow(self, request: ApiRequest) -> None:
        """Tell the other parts of the cloud what moto has done."""
        if request.operation == "DeleteRepository":
            self._registry.forget(request.parameters["repositoryName"])
        elif request.service == "iam" and not request.operation.startswith(("Get", "List")):
            self._world.note_iam()
        elif request.service == "ec2" and not request.operation.startswith("Describe"):
            self.ec2_changes += 1

    def _answer_registry(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        status = ""

        def started(line: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> Any:
            nonlocal status
            status = line
            return start(line, headers)

        body, call = self._registry(environ, started)
        self._journal.request(
            {
                "service": "registry",
                "action": call.action,
                "principal": call.principal,
                "key": call.key_id,
                "source": environ["REMOTE_ADDR"],
                "method": environ["REQUEST_METHOD"],
                "path": environ["PATH_INFO"],
                "status": int(status[:3]),
            }
        )
        return body

    def _log(self, request: ApiRequest | None, environ: dict[str, Any], path: str, status: str | None) -> None:
        credential = request.credential if request else None
        self._journal.request(
            {
                "service": request.service if request else None,
                "action": f"{request.service}:{request.operation}" if request else None,
                "principal": credential.principal.arn if credential else None,
                "key": request.access_key_id if request else None,
                "source": environ["REMOTE_ADDR"],
                "method": environ["REQUEST_METHOD"],
                "path": request.asked_path if request else path,
                # None when there was no answer.
                "status": int(status[:3]) if status else None,
            }
        )


def _error(request: ApiRequest | None, recorder: StartResponseRecorder, error: ApiError) -> bytes:
    content_type, body = render(request.service if request else "s3", error)
    # The answer to a HEAD has the length, but the server sends no body with it.
    answer(recorder, error.status_line, content_type, body)
    return body
