"""``python3 -m buildspec.box.cache_probe`` proves before the bake that the cache can be written and read.

With the credentials that a build step gets, from the service that it asks, with the session policy that
narrows them: an object is written, read back and listed, and a missing key must be answered with 404. sccache
itself would find out too late: a refused write makes it read-only without a word, a refused list makes every
missing key a 403 that stops the compile.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from buildspec.box import config as box
from buildspec.box.config import BoxConfig

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

PATIENCE_SECONDS = 60.0
"""How long a refusal is taken for IAM's eventual consistency
(https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency)."""

PAUSE_SECONDS = 3.0
REQUEST_SECONDS = 30.0

WRONG_CLOCK = {"SignatureDoesNotMatch", "RequestExpired"}
"""What STS says of a signature that is too old; no time mends that
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html)."""
REFUSED = {"403", "AccessDenied", "AllAccessDisabled"}
NOT_FOUND = {"404", "NoSuchKey"}


class ProbeError(RuntimeError):
    """The compile cache is not usable; the message names the missing action or what came instead."""


class Patience:
    """The time for which refusals are retried, shared by all steps of a probe."""

    def __init__(self, seconds: float = PATIENCE_SECONDS, pause: float = PAUSE_SECONDS) -> None:
        self._end = time.monotonic() + seconds
        self._pause = pause

    def wait(self) -> bool:
        """Pauses and returns True while there is time left."""
        if time.monotonic() + self._pause > self._end:
            return False
        time.sleep(self._pause)
        return True


def fetch_credentials(uri: str, token: str, patience: Patience) -> dict[str, str]:
    """One set from the credential service.

    Raises:
        ProbeError: the service did not answer with credentials in time; the message has its reason.
    """
    request = urllib.request.Request(uri, headers={"Authorization": token})  # noqa: S310  # our own file names it
    # No proxy of the environment's: the token is for this host only.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        try:
            with opener.open(request, timeout=REQUEST_SECONDS) as answer:
                credentials: dict[str, str] = json.load(answer)
                return credentials
        except urllib.error.HTTPError as error:
            answer = error.read().decode(errors="replace")
            reason = f"{error.code} {answer}"
            retry = error.code >= 500 and not any(f'"{code}"' in answer for code in WRONG_CLOCK)
        except OSError as error:
            reason, retry = str(error), True
        if not retry or not patience.wait():
            raise ProbeError(f"the credential service at {uri} gave no credentials: {reason}")


def probe(s3: S3Client, bucket: str, prefix: str, run_id: str, patience: Patience) -> list[str]:
    """Write, read, list, and ask for a missing key; return a line for each.

    The object stays, because the cache role cannot delete; the bucket's lifecycle removes it with the rest of
    the cache.

    Raises:
        ProbeError: an action is refused, or S3 answers something else than it should.
    """
    key, missing = f"{prefix}/.rocm-build-probe/{run_id}", f"{prefix}/.rocm-build-probe/{run_id}-missing"
    content = f"{run_id} {time.time_ns()}".encode()
    objects = f"arn:aws:s3:::{bucket}/{prefix}/*"

    def put() -> None:
        s3.put_object(Bucket=bucket, Key=key, Body=content)

    def get() -> None:
        found = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        if found != content:
            raise ProbeError(f"s3://{bucket}/{key}: {found!r} was read back, {content!r} had been written")

    def list_key() -> None:
        found = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket, Prefix=key).get("Contents", [])]
        if key not in found:
            raise ProbeError(f"s3://{bucket}/{key}: was written, and is not listed")

    def get_missing() -> None:
        try:
            s3.get_object(Bucket=bucket, Key=missing)
        except ClientError as error:
            if error.response["Error"]["Code"] in NOT_FOUND:
                return
            raise
        raise ProbeError(f"s3://{bucket}/{missing}: is there, although nobody wrote it")

    return [
        _allowed("s3:PutObject", objects, put, patience),
        _allowed("s3:GetObject", objects, get, patience),
        _allowed("s3:ListBucket", f"arn:aws:s3:::{bucket}", list_key, patience),
        # S3 tells a missing key from a forbidden one only to whom it would list the bucket.
        _allowed("s3:ListBucket", f"arn:aws:s3:::{bucket} (a missing key is 404)", get_missing, patience),
    ]


def _allowed(action: str, resource: str, call: Callable[[], None], patience: Patience) -> str:
    while True:
        try:
            call()
            return f"allowed: {action} on {resource}"
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code not in REFUSED:
                raise ProbeError(f"{action} on {resource}: S3 answers {error}") from error
            if not patience.wait():
                raise ProbeError(
                    f"the cache role or its session policy does not allow {action} on {resource} ({error}); "
                    "add it to the cache role's policy in the foundation stack"
                ) from error
        except BotoCoreError as error:
            raise ProbeError(f"{action} on {resource}: S3 was not reached: {error}") from error


def is_required() -> bool:
    """Whether the build may not go on without its compile cache: REQUIRE_SCCACHE is not 0."""
    return os.environ.get("REQUIRE_SCCACHE") != "0"


def main() -> int:
    """Probes the cache of this box; one that is not usable fails the build, unless it is not required."""
    config, instance = BoxConfig.load(box.CONFIG_FILE), box.instance_id(box.INSTANCE_ID_FILE)
    secret = dict(line.split("=", 1) for line in box.SECRET_FILE.read_text(encoding="utf-8").splitlines())
    patience = Patience()
    try:
        credentials = fetch_credentials(
            secret["AWS_CONTAINER_CREDENTIALS_FULL_URI"],
            secret["AWS_CONTAINER_AUTHORIZATION_TOKEN"],
            patience,
        )
        # Not botocore's own container provider: it takes plain HTTP from loopback addresses only.
        s3 = boto3.client(
            "s3",
            region_name=config.region,
            aws_access_key_id=credentials["AccessKeyId"],
            aws_secret_access_key=credentials["SecretAccessKey"],
            aws_session_token=credentials["Token"],
        )
        for line in probe(s3, config.bucket, config.cache_prefix, config.run_id(instance), patience):
            print(f"cache probe: {line}")
    except ProbeError as error:
        print(f"cache probe: {error}")
        if is_required():
            return 1
        print("cache probe: the build goes on without a compile cache, as REQUIRE_SCCACHE=0 allows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
