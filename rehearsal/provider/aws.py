"""The AWS that the environment names: clients, made when first used, and what AWS's eventual consistency asks for."""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import boto3
from botocore.exceptions import ClientError

from rehearsal.provider.errors import ProviderError

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client
    from types_boto3_ecr.client import ECRClient
    from types_boto3_iam.client import IAMClient
    from types_boto3_logs.client import CloudWatchLogsClient
    from types_boto3_s3.client import S3Client
    from types_boto3_ssm.client import SSMClient
    from types_boto3_sts.client import STSClient

T = TypeVar("T")

CONSISTENCY_SECONDS = 120.0
"""How long an error that comes from AWS's eventual consistency is retried. The official provider waits for 2 to 15
minutes, by operation."""

POLL: Any = {"Delay": 1, "MaxAttempts": 600}
"""boto3's waiters look every 15 s or more, which would be most of a rehearsal's time."""


class Aws:
    """The clients of one region and account.

    :param region: a region's name; without it ``AWS_REGION``, then what boto3 finds, is used.
    """

    def __init__(self, region: str | None = None) -> None:
        # boto3 itself does not read AWS_REGION, the official provider does.
        self._session = boto3.Session(region_name=region or os.environ.get("AWS_REGION"))
        # A session is not thread safe while it makes a client.
        self._lock = threading.Lock()

    @property
    def region(self) -> str:
        """The region's name."""
        region: str | None = self._session.region_name
        if region is None:
            raise ProviderError("no AWS region: set aws:region in the stack's configuration, or AWS_REGION")
        return region

    @cached_property
    def account(self) -> str:
        """The account's number, 12 digits."""
        return self.sts.get_caller_identity()["Account"]

    def arn(self, service: str, resource: str) -> str:
        """Give the ARN of ``resource`` (``<type>/<id>``) in this region and account; EC2 gives none in its answers."""
        return f"arn:aws:{service}:{self.region}:{self.account}:{resource}"

    @cached_property
    def ec2(self) -> "EC2Client":
        """EC2's client."""
        with self._lock:
            return self._session.client("ec2")

    @cached_property
    def ecr(self) -> "ECRClient":
        """ECR's client."""
        with self._lock:
            return self._session.client("ecr")

    @cached_property
    def iam(self) -> "IAMClient":
        """IAM's client."""
        with self._lock:
            return self._session.client("iam")

    @cached_property
    def logs(self) -> "CloudWatchLogsClient":
        """CloudWatch Logs' client."""
        with self._lock:
            return self._session.client("logs")

    @cached_property
    def s3(self) -> "S3Client":
        """S3's client."""
        with self._lock:
            return self._session.client("s3")

    @cached_property
    def ssm(self) -> "SSMClient":
        """Systems Manager's client."""
        with self._lock:
            return self._session.client("ssm")

    @cached_property
    def sts(self) -> "STSClient":
        """STS's client."""
        with self._lock:
            return self._session.client("sts")


def retry(call: Callable[[], T], while_error: Callable[[ClientError], bool]) -> T:
    """Call until it succeeds, fails otherwise than ``while_error`` expects, or `CONSISTENCY_SECONDS` are over."""
    deadline = time.monotonic() + CONSISTENCY_SECONDS
    while True:
        try:
            return call()
        except ClientError as error:
            if not while_error(error) or time.monotonic() > deadline:
                raise
        time.sleep(1)


def code_in(*codes: str) -> Callable[[ClientError], bool]:
    """Give a test whether an AWS error has one of ``codes``."""
    return lambda error: error.response["Error"]["Code"] in codes


def tag_list(tags: Mapping[str, str] | None) -> list[Any]:
    """Give ``tags`` as most services take them."""
    return [{"Key": key, "Value": value} for key, value in (tags or {}).items()]


def tag_map(tags: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Give a service's list of tags as a mapping, without AWS's own."""
    return {tag["Key"]: tag["Value"] for tag in tags if not tag["Key"].startswith("aws:")}


def only(items: Collection[T]) -> T:
    """Give the one item of an answer that must have exactly one."""
    (item,) = items
    return item


_ABBREVIATIONS = {"id": "ID", "sseAlgorithm": "SSEAlgorithm"}
_NAMES = {aws: name for name, aws in _ABBREVIATIONS.items()}


def to_aws(value: Any) -> Any:
    """Give nested properties with the field names of AWS's API (``httpTokens`` becomes ``HttpTokens``)."""
    return _renamed(value, lambda name: _ABBREVIATIONS.get(name, name[:1].upper() + name[1:]))


def from_aws(value: Any) -> Any:
    """Give a part of an AWS answer with the field names of Pulumi's schema; the inverse of `to_aws`."""
    return _renamed(value, lambda name: _NAMES.get(name, name[:1].lower() + name[1:]))


def _renamed(value: Any, rename: Callable[[str], str]) -> Any:
    if isinstance(value, Mapping):
        return {rename(name): _renamed(item, rename) for name, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, rename) for item in value]
    return value
