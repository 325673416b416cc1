"""The certificate authority of the rehearsal, and the one server certificate that every service presents."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rehearsal.cloud import REGION

# A wildcard covers exactly one label (RFC 6125, 6.4.3), so every depth at which a service has names needs its
# own.
SERVER_NAMES = (
    "*.amazonaws.com",
    f"*.{REGION}.amazonaws.com",
    f"*.ec2.{REGION}.amazonaws.com",
    f"*.ecr.{REGION}.amazonaws.com",
    f"*.dkr.ecr.{REGION}.amazonaws.com",
    "*.s3.amazonaws.com",
    f"*.s3.{REGION}.amazonaws.com",
    "localhost",
)
LIFETIME = timedelta(days=3650)
# Clocks of the host and of a box that has just booted may differ a little.
CLOCK_SKEW = timedelta(hours=1)


@dataclass(frozen=True)
class Authority:
    """A certificate authority and a server certificate, made once in `directory` and found there afterwards.

    The private keys are readable by their owner only. Both certificates carry the extensions that the strict
    verification of Python 3.13 and OpenSSL 3 asks for (RFC 5280: key identifiers, critical key usage).
    """

    directory: Path

    @property
    def certificate(self) -> Path:
        """The authority's certificate, PEM: what a client has to trust."""
        return self.directory / "ca.crt"

    @property
    def server_certificate(self) -> Path:
        """The certificate that every service presents, PEM."""
        return self.directory / "server.crt"

    @property
    def server_key(self) -> Path:
        """The private key of `server_certificate`, PEM, unencrypted."""
        return self.directory / "server.key"

    def make(self) -> Authority:
        """Make what is not there yet.

        Raises:
            OSError: the directory cannot be made or written.
        """
        # The key of the server is written last: if it is there, so is everything else.
        if self.server_key.exists():
            return self
        self.directory.mkdir(parents=True, exist_ok=True)
        authority_key = ec.generate_private_key(ec.SECP256R1())
        server_key = ec.generate_private_key(ec.SECP256R1())
        authority = _authority_certificate(authority_key)
        server = _server_certificate(authority, authority_key, server_key)
        _write(self.certificate, authority.public_bytes(serialization.Encoding.PEM), 0o644)
        _write(self.server_certificate, server.public_bytes(serialization.Encoding.PEM), 0o644)
        _write(self.server_key, _private_pem(server_key), 0o600)
        return self

    def server_context(self) -> ssl.SSLContext:
        """A TLS context for the servers: HTTP/1.1 only, TLS 1.2 and later."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.server_certificate, self.server_key)
        context.set_alpn_protocols(["http/1.1"])
        return context


def _write(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(subject: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, certificate_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificate_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certificate_authority,
        crl_sign=certificate_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _authority_certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = "ROCm build box rehearsal CA"
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return (
        _builder(name, issuer, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(certificate_authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _server_certificate(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in SERVER_NAMES]
    names.append(x509.IPAddress(IPv4Address("127.0.0.1")))
    return (
        _builder("ROCm build box rehearsal", authority.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(certificate_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
