"""Certificates for a new cluster: a certificate authority, and certificates that it signs, as PEM texts.

For `moldau security init` and for tests. Keys are ECDSA P-256: small, and fast to sign with. This module writes no
file: the caller decides who may read the keys. It needs the extra `security` (the package cryptography).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

CA_DAYS: Final = 3650
CERTIFICATE_DAYS: Final = 825
"""The longest life of a server certificate that common TLS clients accept."""

CLOCK_SKEW: Final = timedelta(hours=1)
"""Certificates are valid from this long before they are made, for machines whose clocks are late."""


class MissingExtra(ImportError):
    """The package that this feature needs is not installed."""


class Certificate(NamedTuple):
    """A certificate and its private key, both as PEM texts."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "Certificate(key not shown)"

    @property
    def pem(self) -> str:
        """Key and certificate in one text, as `ssl.keystore.location` of type PEM has them."""
        return self.key + self.certificate


def new_authority(name: str, now: datetime) -> Certificate:
    """A self-signed certificate authority."""
    require_cryptography()
    from cryptography import x509

    key = _new_key()
    builder = (
        _builder(name, now, timedelta(days=CA_DAYS))
        .issuer_name(_subject(name))
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _signed(builder, key, key)


def new_certificate(
    authority: Certificate,
    name: str,
    now: datetime,
    *,
    hosts: Sequence[str] = (),
    life: timedelta = timedelta(days=CERTIFICATE_DAYS),
) -> Certificate:
    """A certificate for a server (with its `hosts`: names and addresses) or a client, signed by the authority."""
    require_cryptography()
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    signer = serialization.load_pem_private_key(authority.key.encode(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    key = _new_key()
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        _builder(name, now, life)
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if hosts:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
        )
    return _signed(builder, key, signer)


def hosts_of(pem: str) -> list[str]:
    """The names and addresses that the first certificate of a PEM text is for."""
    require_cryptography()
    from cryptography import x509

    certificate = x509.load_pem_x509_certificates(pem.encode())[0]
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in names]


def require_cryptography() -> None:
    """Raise MissingExtra if the package is not installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise MissingExtra("making certificates needs an extra: pip install 'moldau[security]'") from None


def _new_key() -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _subject(name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(name: str, now: datetime, life: timedelta) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(_subject(name))
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + life)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> Certificate:
    from cryptography.hazmat.primitives import hashes, serialization

    certificate = builder.sign(signer, hashes.SHA256())
    return Certificate(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )
