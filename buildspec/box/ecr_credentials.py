"""Docker credential helper for ECR: asks for a login when one is needed, and stores none.

ECR's logins last 12 hours, and a login of an hour ago may fail the push at the end of a long build, so
``docker login`` is of no use here. The protocol:
https://github.com/docker/docker-credential-helpers#development
"""

from __future__ import annotations

import base64
import json
import re
import sys
from typing import TYPE_CHECKING

import boto3

if TYPE_CHECKING:
    from types_boto3_ecr import ECRClient

REGISTRY_HOST = re.compile(r"\d{12}\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
"""A private registry's host (https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html)."""


class HelperError(ValueError):
    """The helper was asked for something that it does not do."""


def region_of(server: str) -> str:
    """Return the region of a registry, given as Docker gives it: a host, perhaps with a scheme and a path.

    Raises:
        HelperError: not a registry of ECR.
    """
    host = server.strip().removeprefix("https://").partition("/")[0]
    match = REGISTRY_HOST.fullmatch(host)
    if match is None:
        raise HelperError(f"{server.strip()!r} is not a registry of ECR (<account>.dkr.ecr.<region>.amazonaws.com)")
    return match["region"]


def login(ecr: ECRClient, server: str) -> dict[str, str]:
    """Return the answer to ``get``.

    Raises:
        botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError: ECR was not reached, or refused.
    """
    token = ecr.get_authorization_token()["authorizationData"][0]["authorizationToken"]
    username, _, password = base64.b64decode(token).decode().partition(":")
    return {"ServerURL": server.strip(), "Username": username, "Secret": password}


def main(arguments: list[str]) -> int:
    """Answers one request of Docker's: the server comes on standard input, the login goes to standard output.

    The exit code is 1 when there is no login to give.
    """
    try:
        if arguments != ["get"]:
            raise HelperError(f"{arguments}: only get is supported; logins are made when needed and never stored")
        server = sys.stdin.read()
        answer = login(boto3.client("ecr", region_name=region_of(server)), server)
    except HelperError as error:
        # The protocol wants the reason on standard output.
        print(error)
        return 1
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
