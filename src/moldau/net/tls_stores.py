"""Key stores and trust stores of TLS: files and inline values in PEM or PKCS12, converted to PEM for `ssl`.

The content of a file decides its format, not its declared type: Java, too, reads PKCS12 where JKS is declared. A JKS
file is an error that names the command to convert it. Errors name the setting and the file, never a password.
"""

from __future__ import annotations

import re
from os.path import splitext
from typing import TYPE_CHECKING, NamedTuple

from moldau.host.secret_files import read_bounded
from moldau.net.tls_settings import STORE_TYPES, TlsSettings
from moldau.settings.setting import SettingError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

PEM_LINE = 64
"""The length of a line of base64 in PEM."""

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.+?-----END \1-----", re.DOTALL)
_BLOCK = re.compile(r"(-----BEGIN [A-Z ]+-----)(.+?)(-----END [A-Z ]+-----)", re.DOTALL)
_JAVA_STORES = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}


class KeyMaterial(NamedTuple):
    """A private key with its certificates, the own one first."""

    pem: bytes
    password: str
    """Decrypts the key; empty if the key is not encrypted."""
    source: str
    """The setting that the material comes from."""

    def __repr__(self) -> str:
        return f"KeyMaterial(source={self.source!r})"


def read_key(tls: TlsSettings) -> KeyMaterial | None:
    """Return the private key and its certificates; None if no setting names them."""
    _check_type(tls, "keystore.type", tls.keystore_type)
    if tls.keystore_key or tls.keystore_certificate_chain:
        return _inline_key(tls)
    if not tls.keystore_location:
        return None
    setting = tls.name("keystore.location")
    data = _read(setting, tls.keystore_location)
    if _is_pem(data):
        return _pem_key(tls, setting, f"the file {tls.keystore_location}", data)
    _refuse_java(tls, "keystore", tls.keystore_location, data)
    return _pkcs12_key(tls, data)


def read_trust(tls: TlsSettings) -> str | None:
    """Return the trusted certificates in PEM; None if no setting names them."""
    _check_type(tls, "truststore.type", tls.truststore_type)
    if tls.truststore_certificates:
        setting = tls.name("truststore.certificates")
        return _certificates(setting, "the value", whole_lines(tls.truststore_certificates).encode())
    if not tls.truststore_location:
        return None
    setting = tls.name("truststore.location")
    data = _read(setting, tls.truststore_location)
    if _is_pem(data):
        return _certificates(setting, f"the file {tls.truststore_location}", data)
    _refuse_java(tls, "truststore", tls.truststore_location, data)
    return _pkcs12_trust(tls, data)


def whole_lines(pem: str) -> str:
    """Return PEM with its line breaks. In a properties file an inline value often stands on one line, with blanks."""

    def block(found: re.Match[str]) -> str:
        begin, body, end = found.groups()
        if "\n" in body.strip():
            return found.group()
        code = "".join(body.split())
        lines = [code[start : start + PEM_LINE] for start in range(0, len(code), PEM_LINE)]
        return "\n".join(["", begin, *lines, end, ""])

    return _BLOCK.sub(block, pem)


# -- PEM -----------------------------------------------------------------------------------------------------------


def _is_pem(data: bytes) -> bool:
    return b"-----BEGIN " in data


def _inline_key(tls: TlsSettings) -> KeyMaterial:
    for value, setting, other in (
        (tls.keystore_key, "keystore.key", "keystore.certificate.chain"),
        (tls.keystore_certificate_chain, "keystore.certificate.chain", "keystore.key"),
    ):
        if not value:
            raise SettingError(tls.name(setting), f"is missing, but {tls.name(other)} is set; set both in PEM")
    if tls.keystore_location:
        raise SettingError(
            tls.name("keystore.location"), f"is set besides {tls.name('keystore.key')}; set only one of them"
        )
    pem = f"{whole_lines(tls.keystore_key)}\n{whole_lines(tls.keystore_certificate_chain)}\n"
    return _pem_key(tls, tls.name("keystore.key"), "the value", pem.encode())


def _pem_key(tls: TlsSettings, setting: str, source: str, data: bytes) -> KeyMaterial:
    key = _KEY.search(data)
    if key is None:
        raise SettingError(setting, f"{source} has no private key (-----BEGIN PRIVATE KEY-----); add it to the chain")
    _certificates(setting, source, data)
    # Without this check, OpenSSL would ask for the password on the terminal.
    encrypted = b"ENCRYPTED" in key.group()
    password = tls.key_password or tls.keystore_password
    if encrypted and not password:
        raise SettingError(tls.name("key.password"), f"is not set, but the private key in {source} is encrypted")
    return KeyMaterial(data, password if encrypted else "", setting)


def _certificates(setting: str, source: str, data: bytes) -> str:
    found = _CERTIFICATE.findall(data)
    if not found:
        raise SettingError(setting, f"{source} has no certificate (-----BEGIN CERTIFICATE-----)")
    return b"\n".join(found).decode("ascii", "replace")


# -- PKCS12 --------------------------------------------------------------------------------------------------------


def _pkcs12_key(tls: TlsSettings, data: bytes) -> KeyMaterial:
    store = _open_pkcs12(tls, "keystore", tls.keystore_location, tls.keystore_password, data)
    if store.key is None or store.cert is None:
        raise SettingError(
            tls.name("keystore.location"), f"the file {tls.keystore_location} has no private key with a certificate"
        )
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    chain = _ordered(store.cert.certificate, [one.certificate for one in store.additional_certs])
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem = key + b"".join(one.public_bytes(Encoding.PEM) for one in chain)
    return KeyMaterial(pem, "", tls.name("keystore.location"))


def _pkcs12_trust(tls: TlsSettings, data: bytes) -> str:
    store = _open_pkcs12(tls, "truststore", tls.truststore_location, tls.truststore_password, data)
    from cryptography.hazmat.primitives.serialization import Encoding

    found = [one.certificate for one in (*([store.cert] if store.cert else ()), *store.additional_certs)]
    if not found:
        raise SettingError(
            tls.name("truststore.location"), f"the file {tls.truststore_location} has no trusted certificate"
        )
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in found)


def _open_pkcs12(tls: TlsSettings, store: str, path: str, password: str, data: bytes) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise SettingError(
            tls.name(f"{store}.location"),
            f"{path} is not PEM, and PKCS12 files need the package cryptography: pip install 'moldau[security]'",
        ) from None
    try:
        return load_pkcs12(data, password.encode() or None)
    except ValueError:
        # The cause is not kept: it would say no more than this.
        raise SettingError(
            tls.name(f"{store}.location"),
            f"{path} cannot be read: it is neither PEM nor PKCS12, or {tls.name(f'{store}.password')} is wrong",
        ) from None


def _ordered(leaf: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """Return the chain from the own certificate upward: the order in the file is not defined, but TLS needs it."""
    chain = [leaf]
    rest = list(others)
    while issuer := next((one for one in rest if one.subject == chain[-1].issuer), None):
        rest.remove(issuer)
        chain.append(issuer)
    return chain


# -- files ---------------------------------------------------------------------------------------------------------


def _check_type(tls: TlsSettings, setting: str, declared: str) -> None:
    if declared and declared.upper() not in STORE_TYPES:
        raise SettingError(tls.name(setting), f"{declared!r} is not one of {', '.join(STORE_TYPES)}")


def _read(setting: str, path: str) -> bytes:
    try:
        data = read_bounded(path)
    except OSError as error:
        raise SettingError(setting, f"the file {path} cannot be read: {error.strerror or error}") from error
    if not data:
        raise SettingError(setting, f"the file {path} is empty")
    return data


def _refuse_java(tls: TlsSettings, store: str, path: str, data: bytes) -> None:
    kind = _JAVA_STORES.get(data[:4])
    if kind is not None:
        raise SettingError(
            tls.name(f"{store}.location"),
            f"{path} is a {kind} file, which only Java reads; convert it with: keytool -importkeystore "
            f"-srckeystore {path} -srcstoretype {kind} -destkeystore {splitext(path)[0]}.p12 "
            "-deststoretype PKCS12, and use the new file",
        )
