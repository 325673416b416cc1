"""Error answers in the form in which each service gives them."""

from __future__ import annotations

import json
import secrets
from datetime import datetime, timedelta
from xml.etree import ElementTree

from rehearsal.cloud.xml import document

# The reason phrases that boto3 and curl show.
STATUS_PHRASES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    429: "Too Many Requests",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
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
        """The status with its phrase, as WSGI wants it."""
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


def wrong_clock(service: str, signed: datetime, now: datetime, longest: timedelta) -> ApiError:
    """A request whose time is too far from the service's. Sources: see `rules.access.clock_is_right`."""
    form = "%Y%m%dT%H%M%SZ"
    if service == "s3":
        extra = {
            "RequestTime": f"{signed:{form}}",
            "ServerTime": f"{now:%Y-%m-%dT%H:%M:%SZ}",
            "MaxAllowedSkewMilliseconds": str(int(longest.total_seconds() * 1000)),
        }
        message = "The difference between the request time and the current time is too large."
        return ApiError(403, "RequestTimeTooSkewed", message, extra)
    if service == "ec2":
        return ApiError(400, "RequestExpired", "Request has expired.")
    minutes = int(longest.total_seconds() // 60)
    if signed < now:
        limit, words = now - longest, f"Signature expired: {signed:{form}} is now earlier than"
        message = f"{words} {limit:{form}} ({now:{form}} - {minutes} min.)"
    else:
        limit, words = now + longest, f"Signature not yet current: {signed:{form}} is still later than"
        message = f"{words} {limit:{form}} ({now:{form}} + {minutes} min.)"
    if service in JSON_SERVICES:
        return ApiError(400, "InvalidSignatureException", message)
    return ApiError(403, "SignatureDoesNotMatch", message)


def throttled(service: str) -> ApiError:
    """Too many requests, in the words of each service.

    Sources: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html,
    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html,
    https://github.com/jlevers/selling-partner-api/issues/278 (STS)
    """
    if service == "s3":
        return ApiError(503, "SlowDown", "Please reduce your request rate.")
    if service == "ec2":
        return ApiError(503, "RequestLimitExceeded", "Request limit exceeded.")
    if service == "registry":
        return ApiError(429, "TOOMANYREQUESTS", "Rate exceeded")
    return ApiError(400, "ThrottlingException" if service in JSON_SERVICES else "Throttling", "Rate exceeded")


def internal(service: str) -> ApiError:
    """A failure inside the service.

    Sources: as for `throttled`, and for the others
    https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html
    """
    if service == "s3":
        return ApiError(500, "InternalError", "We encountered an internal error. Please try again.")
    if service == "ec2":
        return ApiError(500, "InternalError", "An internal error has occurred")
    if service == "registry":
        return ApiError(500, "UNKNOWN", "unknown error")
    message = "The request processing has failed because of an unknown error, exception or failure."
    return ApiError(500, "InternalFailure", message)


def invalid(message: str) -> ApiError:
    """An argument that IAM or STS refuses."""
    return ApiError(400, "ValidationError", message)


def constraint(value: str, member: str, words: str) -> ApiError:
    """An argument that does not keep to the API's model, as IAM and STS say it.

    Source: https://docs.aws.amazon.com/IAM/latest/APIReference/CommonErrors.html (the code).
    """
    return invalid(f"1 validation error detected: Value '{value}' at '{member}' failed to satisfy constraint: {words}")


def require_range(value: int, member: str, lowest: int, highest: int) -> None:
    """Refuse an argument outside of its range.

    Raises:
        ApiError: as `constraint`.
    """
    if value < lowest:
        raise constraint(str(value), member, f"Member must have value greater than or equal to {lowest}")
    if value > highest:
        raise constraint(str(value), member, f"Member must have value less than or equal to {highest}")


def require_length(value: str, member: str, longest: int) -> None:
    """Refuse an argument that is too long.

    Raises:
        ApiError: as `constraint`.
    """
    if len(value) > longest:
        raise constraint(value, member, f"Member must have length less than or equal to {longest}")


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
                "Error": {
                    "Type": "Sender" if error.status < 500 else "Receiver",
                    "Code": error.code,
                    "Message": error.message,
                },
                "RequestId": request_id,
            },
            QUERY_NAMESPACES.get(service),
        )
    return "application/xml", ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
