"""Certificates for tests: an authority that issues certificates for servers and clients, also wrong ones."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

LOCAL = ("localhost", "127.0.0.1")
BOTH_USAGES = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


def _name(text: str) -> x509.Name:
    """A distinguished name from `CN=alice,OU=tests`; a text without `=` is the common name."""
    return x509.Name.from_rfc4514_string(text if "=" in text else f"CN={text}")


def _encryption(password: str) -> KeySerializationEncryption:
    return BestAvailableEncryption(password.encode()) if password else NoEncryption()


class Certificate(NamedTuple):
    """A certificate with its private key and the authority's certificate."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    authority: x509.Certificate

    @property
    def chain_pem(self) -> str:
        certificates = (self.certificate, self.authority) if self.authority != self.certificate else (self.certificate,)
        return "".join(one.public_bytes(Encoding.PEM).decode() for one in certificates)

    def key_pem(self, password: str = "") -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, _encryption(password)).decode()

    @property
    def authority_pem(self) -> str:
        return self.authority.public_bytes(Encoding.PEM).decode()

    def write_pem(self, path: Path, password: str = "") -> Path:
        """Write key and chain into one file, as `ssl.keystore.location` takes it."""
        path.write_text(self.key_pem(password) + self.chain_pem)
        path.chmod(0o600)
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"own", self.key, self.certificate, [self.authority], _encryption(password)
            )
        )
        return path


class Authority:
    """A certificate authority of a test."""

    def __init__(self, name: str = "Moldau tests") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = x509.CertificateBuilder().add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate = _signed(builder, _name(name), _name(name), self._key, self._key, days=(-30, 365))

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def write_pem(self, path: Path) -> Path:
        """Write the authority's certificate, as `ssl.truststore.location` takes it."""
        path.write_text(self.pem)
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        """Write a trust store with the authority's certificate."""
        entry = pkcs12.PKCS12Certificate(self.certificate, b"authority")
        path.write_bytes(pkcs12.serialize_java_truststore([entry], _encryption(password)))
        return path

    def issue(
        self,
        name: str = "localhost",
        *,
        hosts: tuple[str, ...] = LOCAL,
        days: tuple[int, int] = (-1, 30),
        usages: tuple[x509.ObjectIdentifier, ...] = BOTH_USAGES,
    ) -> Certificate:
        """A certificate for a distinguished name and host names, valid from `days[0]` to `days[1]` from today."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _leaf(hosts, usages)
        certificate = _signed(builder, _name(name), self.certificate.subject, key, self._key, days)
        return Certificate(certificate, key, self.certificate)

    def expired(self, name: str = "localhost") -> Certificate:
        return self.issue(name, days=(-20, -10))

    def not_yet_valid(self, name: str = "localhost") -> Certificate:
        return self.issue(name, days=(10, 20))


def self_signed(name: str = "localhost", hosts: tuple[str, ...] = LOCAL) -> Certificate:
    """A certificate that no authority has issued."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _signed(_leaf(hosts, BOTH_USAGES), _name(name), _name(name), key, key, (-1, 30))
    return Certificate(certificate, key, certificate)


def _leaf(hosts: tuple[str, ...], usages: tuple[x509.ObjectIdentifier, ...]) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(one) for one in hosts]), critical=False)
    return builder


def _signed(
    builder: x509.CertificateBuilder,
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signing_key: ec.EllipticCurvePrivateKey,
    days: tuple[int, int],
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    return (
        builder.subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=days[0]))
        .not_valid_after(now + datetime.timedelta(days=days[1]))
        .sign(signing_key, hashes.SHA256())
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
