"""``python3 -m buildspec.box.registry_probe`` proves before the bake that the registry is what the build takes it for.

``REGISTRY_INSECURE`` lets BuildKit fall back to plain HTTP, and makes it skip certificate checks without a
word, so a wrong value either fails the push at the end of a long build or sends images to whoever answers.
The registry is asked over TLS and over plain HTTP, and what it speaks has to be what the variable says.
"""

from __future__ import annotations

import http.client
import os
import ssl
import sys
from dataclasses import replace

from botocore.exceptions import BotoCoreError, ClientError

from buildspec.box.cache_probe import Patience
from buildspec.box.ecr_credentials import REGISTRY_HOST
from buildspec.box.registry import Registry, RegistryError

UNREACHED = (OSError, http.client.HTTPException, BotoCoreError, ClientError)


def probe(host: str, *, insecure: bool, patience: Patience) -> str:
    """Return a line that says how the registry was reached.

    A registry that is not reached, fails, or gives no login yet, is asked again while there is patience.

    Raises:
        RegistryError: it speaks something else than REGISTRY_INSECURE says, wants a login that the box does
            not have, or was not reached.
    """
    while True:
        try:
            registry, status = _reach(host, insecure=insecure)
        except UNREACHED as error:
            reason = f"{host}: the registry was not reached: {error}"
        else:
            if status == http.HTTPStatus.OK:
                return f"registry: {registry.scheme}://{host}/v2/ answers {status}"
            reason = f"{registry.scheme}://{host}/v2/: the registry answers {status}"
            if status == http.HTTPStatus.UNAUTHORIZED and not REGISTRY_HOST.fullmatch(host):
                raise RegistryError(f"{reason}: it wants a login, and a box has one for ECR only")
        if not patience.wait():
            raise RegistryError(reason)


def _reach(host: str, *, insecure: bool) -> tuple[Registry, int]:
    """Return the registry over what it speaks, and what it answered."""
    tls = Registry(host, "https")
    status: int | None
    try:
        status = tls.answers()
    except ssl.SSLCertVerificationError as error:
        if insecure:
            raise _speaks_tls(host) from error
        raise RegistryError(
            f"{host}: the registry's certificate is not trusted: {error.verify_message}; add its authority to the "
            "machine image's certificates"
        ) from error
    except UNREACHED as error:
        plain = replace(tls, scheme="http")
        try:
            status = plain.answers()
        except UNREACHED:
            status = None
        # A port for TLS answers plain HTTP as well, with 400; then what TLS said is the more telling.
        if status not in (http.HTTPStatus.OK, http.HTTPStatus.UNAUTHORIZED):
            raise
        if not insecure:
            raise RegistryError(
                f"{host}: REGISTRY_INSECURE is not true, and the registry speaks plain HTTP only; set "
                "REGISTRY_INSECURE to true if everybody on the way to it may read and change the images"
            ) from error
        return plain, status
    if insecure:
        raise _speaks_tls(host)
    return tls, status


def _speaks_tls(host: str) -> RegistryError:
    return RegistryError(
        f"{host}: REGISTRY_INSECURE is true, and the registry speaks TLS: BuildKit would skip the check of its "
        "certificate without a word; set REGISTRY_INSECURE to false"
    )


def main() -> int:
    """Probe the registry that the environment names."""
    try:
        insecure = os.environ["REGISTRY_INSECURE"] == "true"
        print(probe(os.environ["REGISTRY"], insecure=insecure, patience=Patience()))
    except RegistryError as error:
        print(f"registry probe: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
