"""One API request: service and operation, by whose key, about what, and the IAM actions that it needs."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from rehearsal.cloud import ACCOUNT, REGION
from rehearsal.cloud.errors import JSON_SERVICES, ApiError
from rehearsal.cloud.iam import Action

if TYPE_CHECKING:
    from rehearsal.cloud.credentials import Credential

S3_HOST = f"s3.{REGION}.amazonaws.com"
_S3_NAME = re.compile(r"(?:(?P<bucket>.+)\.)?s3(?:\.[a-z0-9-]+)*\.amazonaws\.com")
_CREDENTIAL = re.compile(r"Credential=(?P<key>[^/]+)/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request")

# IAM actions of S3's bucket operations, by the name in the query string and the method.
# Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
_BUCKET_ACTIONS: dict[str, dict[str, str]] = {
    "acl": {"GET": "GetBucketAcl", "PUT": "PutBucketAcl"},
    "encryption": {
        "GET": "GetEncryptionConfiguration",
        "PUT": "PutEncryptionConfiguration",
        "DELETE": "PutEncryptionConfiguration",
    },
    "lifecycle": {
        "GET": "GetLifecycleConfiguration",
        "PUT": "PutLifecycleConfiguration",
        "DELETE": "PutLifecycleConfiguration",
    },
    "location": {"GET": "GetBucketLocation"},
    "ownershipControls": {
        "GET": "GetBucketOwnershipControls",
        "PUT": "PutBucketOwnershipControls",
        "DELETE": "PutBucketOwnershipControls",
    },
    "policy": {"GET": "GetBucketPolicy", "PUT": "PutBucketPolicy", "DELETE": "DeleteBucketPolicy"},
    "policyStatus": {"GET": "GetBucketPolicyStatus"},
    "publicAccessBlock": {
        "GET": "GetBucketPublicAccessBlock",
        "PUT": "PutBucketPublicAccessBlock",
        "DELETE": "PutBucketPublicAccessBlock",
    },
    "tagging": {"GET": "GetBucketTagging", "PUT": "PutBucketTagging", "DELETE": "PutBucketTagging"},
    "uploads": {"GET": "ListBucketMultipartUploads"},
    "versioning": {"GET": "GetBucketVersioning", "PUT": "PutBucketVersioning"},
    "versions": {"GET": "ListBucketVersions"},
    "": {"GET": "ListBucket", "HEAD": "ListBucket", "PUT": "CreateBucket", "DELETE": "DeleteBucket"},
}
_OBJECT_ACTIONS: dict[str, dict[str, str]] = {
    "tagging": {"GET": "GetObjectTagging", "PUT": "PutObjectTagging", "DELETE": "DeleteObjectTagging"},
    "uploads": {"POST": "PutObject"},
    "uploadId": {
        "PUT": "PutObject",
        "POST": "PutObject",
        "GET": "ListMultipartUploadParts",
        "DELETE": "AbortMultipartUpload",
    },
    "versionId": {"GET": "GetObjectVersion", "HEAD": "GetObjectVersion", "DELETE": "DeleteObjectVersion"},
    "": {"GET": "GetObject", "HEAD": "GetObject", "PUT": "PutObject", "DELETE": "DeleteObject"},
}
# Query parameters that name another operation; any of them not in the tables above is not known here.
_SUBRESOURCES = frozenset(
    {*_BUCKET_ACTIONS, *_OBJECT_ACTIONS}
    | {
        "accelerate",
        "analytics",
        "attributes",
        "cors",
        "delete",
        "intelligent-tiering",
        "inventory",
        "legal-hold",
    }
    | {
        "logging",
        "metrics",
        "notification",
        "object-lock",
        "replication",
        "requestPayment",
        "restore",
        "retention",
    }
    | {"select", "session", "torrent", "website"}
) - {""}


@dataclass
class ApiRequest:
    """A parsed request.

    Attributes:
        service: the name in the signature's scope, such as `s3` or `sts`.
        operation: the API's operation (`AssumeRole`); for S3 the IAM action without its prefix, "" if not
            known.
        access_key_id: None when the request is not signed.
        parameters: of the query protocol's form, or of the JSON body.
        bucket, key: for S3; the key is decoded.
        credential: whose key it is, None when nobody has been issued it.
    """

    environ: dict[str, Any]
    service: str
    operation: str
    method: str
    path: str
    source_address: str
    secure: bool
    access_key_id: str | None
    token: str | None
    query: Mapping[str, str]
    body: bytes
    parameters: Mapping[str, Any] = field(default_factory=dict)
    bucket: str = ""
    key: str = ""
    credential: Credential | None = None

    def actions(self) -> list[Action] | None:
        """The IAM actions that this request needs; [] if it needs none, None if they are not known here."""
        if self.service == "s3":
            return list(self._s3_actions()) if self.operation else None
        known = _ACTIONS.get((self.service, self.operation))
        if known is not None:
            resource = known.format_map(_Parameters(self.parameters))
            return [Action(f"{self.service}:{self.operation}", resource)] if resource else []
        if self.service == "ec2" and self.operation.startswith("Describe"):
            return [Action(f"ec2:{self.operation}", "*")]
        return None

    @property
    def asked_path(self) -> str:
        """The path; of S3 always bucket and key, whether the bucket came in the host name or in the path."""
        return f"/{self.bucket}/{self.key}" if self.bucket else self.path

    def header(self, name: str) -> str | None:
        """The value of a header, whatever the case of its name, or None."""
        return self.environ.get(f"HTTP_{name.upper().replace('-', '_')}")

    def _s3_actions(self) -> Iterator[Action]:
        if not self.bucket:
            yield Action("s3:ListAllMyBuckets", "*")
            return
        bucket = f"arn:aws:s3:::{self.bucket}"
        resource = f"{bucket}/{self.key}" if self.key else bucket
        yield Action(f"s3:{self.operation}", resource)
        if self.key and self.method == "PUT":
            source = self.header("x-amz-copy-source")
            if source:
                yield Action("s3:GetObject", f"arn:aws:s3:::{unquote(source.split('?', 1)[0]).lstrip('/')}")
            if self.header("x-amz-tagging"):
                yield Action("s3:PutObjectTagging", resource)
            if self.header("x-amz-acl"):
                yield Action("s3:PutObjectAcl", resource)


class _Parameters(dict[str, Any]):
    """An absent parameter is an empty part of an ARN, as AWS writes it."""

    def __missing__(self, key: str) -> str:
        return ""


_LOG_GROUP = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{{logGroupName}}:log-stream:"
_REPOSITORY = f"arn:aws:ecr:{REGION}:{ACCOUNT}:repository/{{repositoryName}}"

# The resource that each operation is about; "" for one that needs no permission at all. A role may call no
# other. Sources: the tables at https://docs.aws.amazon.com/service-authorization/latest/reference/ ; for the
# logs' form "log-group:NAME:*"
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/iam-access-control-overview-cwl.html
_ACTIONS: dict[tuple[str, str], str] = {
    ("sts", "GetCallerIdentity"): "",
    ("sts", "AssumeRole"): "{RoleArn}",
    ("logs", "CreateLogStream"): _LOG_GROUP,
    ("logs", "DescribeLogGroups"): f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group::log-stream:",
    ("logs", "DescribeLogStreams"): _LOG_GROUP,
    ("logs", "FilterLogEvents"): _LOG_GROUP,
    ("logs", "GetLogEvents"): f"{_LOG_GROUP}{{logStreamName}}",
    ("logs", "PutLogEvents"): f"{_LOG_GROUP}{{logStreamName}}",
    ("ecr", "GetAuthorizationToken"): "*",
    ("ecr", "BatchGetImage"): _REPOSITORY,
    ("ecr", "DescribeImages"): _REPOSITORY,
    ("ecr", "DescribeRepositories"): f"arn:aws:ecr:{REGION}:{ACCOUNT}:repository/*",
    ("ecr", "ListImages"): _REPOSITORY,
}


def parse(environ: dict[str, Any]) -> ApiRequest:
    """Read a request, its body included.

    Raises:
        ApiError: it does not say which service it is for in a way that can be understood.
    """
    query = dict(parse_qsl(environ["QUERY_STRING"], keep_blank_values=True))
    authorization = environ.get("HTTP_AUTHORIZATION", "")
    if not authorization and "X-Amz-Credential" in query:
        authorization = f"Credential={query['X-Amz-Credential']}"
    scope = _CREDENTIAL.search(authorization)
    if authorization and scope is None:
        raise ApiError(400, "AuthorizationHeaderMalformed", "The authorization header is not a Signature Version 4.")
    request = ApiRequest(
        environ=environ,
        service=scope["service"] if scope else _service_of(environ),
        operation="",
        method=environ["REQUEST_METHOD"],
        path=environ["PATH_INFO"],
        source_address=environ["REMOTE_ADDR"],
        secure=environ["wsgi.url_scheme"] == "https",
        access_key_id=scope["key"] if scope else None,
        token=environ.get("HTTP_X_AMZ_SECURITY_TOKEN") or query.get("X-Amz-Security-Token"),
        query=query,
        body=environ["wsgi.input"].read(),
    )
    if request.service == "s3":
        _address_s3(request)
    elif request.service in JSON_SERVICES:
        request.operation = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
        request.parameters = json.loads(request.body or b"{}")
    else:
        request.parameters = {**query, **dict(parse_qsl(request.body.decode(), keep_blank_values=True))}
        request.operation = request.parameters.get("Action", "")
    # The body has been read, so whoever comes next finds it in memory.
    environ["wsgi.input"] = io.BytesIO(request.body)
    environ["CONTENT_LENGTH"] = str(len(request.body))
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    return request


def _service_of(environ: Mapping[str, Any]) -> str:
    """An unsigned request says its service by its host name alone."""
    label = environ.get("HTTP_HOST", "").split(".", 1)[0]
    return label if label in ("ec2", "iam", "logs", "ssm", "sts") else "s3"


def _address_s3(request: ApiRequest) -> None:
    """Find bucket and key, by host or by path, and give moto the path form, so that it cannot differ."""
    environ = request.environ
    raw_path = environ["RAW_URI"].split("?", 1)[0]
    virtual = _S3_NAME.fullmatch(environ.get("HTTP_HOST", "").rsplit(":", 1)[0].lower())
    if virtual and virtual["bucket"]:
        raw_path = f"/{virtual['bucket']}{raw_path}"
    bucket, _, key = raw_path.lstrip("/").partition("/")
    request.bucket, request.key = unquote(bucket), unquote(key)
    environ["HTTP_HOST"] = S3_HOST
    environ["RAW_URI"] = f"{raw_path}?{environ['QUERY_STRING']}" if environ["QUERY_STRING"] else raw_path
    environ["PATH_INFO"] = unquote(raw_path).encode().decode("latin-1")
    named = sorted(_SUBRESOURCES & request.query.keys())
    # A part of an upload carries two names (partNumber is none of them).
    name = named[0] if len(named) == 1 else "" if not named else "?"
    table = _OBJECT_ACTIONS if request.key else _BUCKET_ACTIONS
    request.operation = table.get(name, {}).get(request.method, "")
    if not request.bucket:
        request.operation = "ListAllMyBuckets" if request.method == "GET" else ""
