"""Error answers in the form in which each service gives them."""

from __future__ import annotations

import json
import secrets
from xml.etree import ElementTree

from rehearsal.cloud.xml import document

# The reason phrases that boto3 and curl show.
STATUS_PHRASES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    501: "Not Implemented",
}
JSON_SERVICES = frozenset({"ecr", "logs", "ssm"})
QUERY_NAMESPACES = {
    "iam": "https://iam.amazonaws.com/doc/2010-05-08/",
    "sts": "https://sts.amazonaws.com/doc/2011-06-15/",
}
JSON_TYPE = "application/x-amz-json-1.1"


class ApiError(Exception):
    """An error that a service answers with.

    Attributes:
        status: the HTTP status.
        code: the error code by which an SDK makes its exception.
        extra: further elements of an S3 error, such as the key id that S3 does not know.
    """

    def __init__(self, status: int, code: str, message: str, extra: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.extra = extra or {}

    @property
    def status_line(self) -> str:
        """The status as WSGI takes it: `403 Forbidden`."""
        return f"{self.status} {STATUS_PHRASES[self.status]}"


def invalid_key(service: str, access_key_id: str) -> ApiError:
    """An access key that nobody has issued.

    Sources: the error tables of S3 (https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html), of
    EC2 (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html), and the common errors
    of the others (https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html).
    """
    if service == "s3":
        message = "The AWS Access Key Id you provided does not exist in our records."
        return ApiError(403, "InvalidAccessKeyId", message, {"AWSAccessKeyId": access_key_id})
    if service == "ec2":
        return ApiError(401, "AuthFailure", "AWS was not able to validate the provided access credentials")
    message = "The security token included in the request is invalid."
    if service in JSON_SERVICES:
        return ApiError(400, "UnrecognizedClientException", message)
    return ApiError(403, "InvalidClientTokenId", message)


def invalid_token(service: str) -> ApiError:
    """A session token that does not belong to the key. Sources: as for `invalid_key`."""
    if service == "s3":
        return ApiError(400, "InvalidToken", "The provided token is malformed or otherwise invalid.")
    return invalid_key(service, "")


def expired_token(service: str) -> ApiError:
    """A session that has ended: 400 from S3, where sccache looks for `ExpiredToken`. Sources: as for
    `invalid_key`.
    """
    if service == "s3":
        # The real answer repeats the token; this one does not, so that no log ends up with it.
        return ApiError(400, "ExpiredToken", "The provided token has expired.")
    if service == "ec2":
        return ApiError(400, "RequestExpired", "Request has expired.")
    message = "The security token included in the request is expired"
    if service in JSON_SERVICES:
        return ApiError(400, "ExpiredTokenException", message)
    return ApiError(403, "ExpiredToken", message)


def missing_token(service: str) -> ApiError:
    """No signature at all. Sources: as for `invalid_key`."""
    if service == "s3":
        return ApiError(403, "AccessDenied", "Access Denied")
    return ApiError(403, "MissingAuthenticationToken", "Missing Authentication Token")


def access_denied(service: str, message: str) -> ApiError:
    """A request that IAM refuses. Sources: as for `invalid_key`."""
    if service == "ec2":
        return ApiError(403, "UnauthorizedOperation", f"You are not authorized to perform this operation. {message}")
    if service in JSON_SERVICES:
        return ApiError(400, "AccessDeniedException", message)
    return ApiError(403, "AccessDenied", message)


def render(service: str, error: ApiError) -> tuple[str, bytes]:
    """The content type and the body in which `service` puts an error."""
    if service in JSON_SERVICES:
        return JSON_TYPE, json.dumps({"__type": error.code, "message": error.message}).encode()
    request_id = secrets.token_hex(8).upper()
    root: ElementTree.Element
    if service == "s3":
        root = document(
            "Error",
            {
                "Code": error.code,
                "Message": error.message,
                **error.extra,
                "RequestId": request_id,
                "HostId": "rehearsal",
            },
        )
    elif service == "ec2":
        root = document(
            "Response",
            {"Errors": {"Error": {"Code": error.code, "Message": error.message}}, "RequestID": request_id},
        )
    else:
        root = document(
            "ErrorResponse",
            {
                "Error": {"Type": "Sender", "Code": error.code, "Message": error.message},
                "RequestId": request_id,
            },
            QUERY_NAMESPACES.get(service),
        )
    return "application/xml", ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
