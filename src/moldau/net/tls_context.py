"""TLS contexts of listeners and clients: `ssl.SSLContext` from the values of Kafka's `ssl.*` settings.

A context is a snapshot: a changed file has an effect only in a new context. Building one reads files and decrypts keys,
so call it in a thread where a loop runs.

A private key never reaches the file system in plain text: `ssl` takes a key only from a file, so the key is passed in
memory (memfd), or in a file that only this user can read and that is removed at once.
"""

from __future__ import annotations

import ssl

from moldau.host.secret_files import private_file
from moldau.net.tls_alerts import AlertingContext
from moldau.net.tls_settings import CLIENT_AUTH, HTTPS, PROTOCOLS, TlsSettings
from moldau.net.tls_stores import KeyMaterial, read_key, read_trust
from moldau.settings.setting import SettingError

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

TLS_1_3_SUITES = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""The suites of TLS 1.3 that OpenSSL uses. Python can only switch all of them on or off."""


def server_context(tls: TlsSettings) -> ssl.SSLContext:
    """Return the context of a listener. Raises SettingError."""
    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    _use_protocols(context, tls)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    key = read_key(tls)
    if key is None:
        raise SettingError(
            tls.name("keystore.location"),
            f"is not set, but a TLS listener needs a key and a certificate; set it, or {tls.name('keystore.key')} and "
            f"{tls.name('keystore.certificate.chain')}",
        )
    _use_key(context, key)
    if tls.client_auth not in CLIENT_AUTH:
        raise SettingError(tls.name("client.auth"), f"{tls.client_auth!r} is not one of {', '.join(CLIENT_AUTH)}")
    trusted = read_trust(tls)
    if trusted is not None:
        _use_trust(context, tls, trusted)
    elif tls.client_auth != "none":
        # Kafka would accept the certificates of all public authorities here, which is never what was meant.
        raise SettingError(
            tls.name("truststore.location"),
            f"is not set, but {tls.name('client.auth')}={tls.client_auth} needs the authorities of the clients' "
            f"certificates; set it, or {tls.name('truststore.certificates')}",
        )
    context.verify_mode = _VERIFY[tls.client_auth]
    return context


def client_context(tls: TlsSettings) -> ssl.SSLContext:
    """Return the context of a client. Raises SettingError.

    The certificate of the server is always verified: against the trust store, or against the authorities of the
    operating system. The host name is verified unless `ssl.endpoint.identification.algorithm` is empty.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _use_protocols(context, tls)
    algorithm = tls.endpoint_identification_algorithm.lower()
    if algorithm not in ("", HTTPS):
        raise SettingError(
            tls.name("endpoint.identification.algorithm"),
            f"{tls.endpoint_identification_algorithm!r} is not known: use https, or an empty value for no check",
        )
    context.check_hostname = algorithm == HTTPS
    trusted = read_trust(tls)
    if trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _use_trust(context, tls, trusted)
    key = read_key(tls)
    if key is not None:
        _use_key(context, key)
    return context


# -- versions and ciphers ------------------------------------------------------------------------------------------


def _use_protocols(context: ssl.SSLContext, tls: TlsSettings) -> None:
    setting = tls.name("enabled.protocols")
    for protocol in tls.enabled_protocols:
        if protocol not in PROTOCOLS:
            raise SettingError(setting, f"{protocol!r} is not one of {', '.join(PROTOCOLS)}; older versions are unsafe")
    if not tls.enabled_protocols:
        raise SettingError(setting, f"is empty; name at least one of {', '.join(PROTOCOLS)}")
    versions = set(tls.enabled_protocols)
    if tls.cipher_suites:
        versions &= _use_ciphers(context, tls)
        if not versions:
            raise SettingError(tls.name("cipher.suites"), f"has no suite for {', '.join(tls.enabled_protocols)}")
    context.minimum_version = _VERSIONS[min(versions)]
    context.maximum_version = _VERSIONS[max(versions)]


def _use_ciphers(context: ssl.SSLContext, tls: TlsSettings) -> set[str]:
    """Allow only the given cipher suites, and return the versions of TLS that have one of them."""
    setting = tls.name("cipher.suites")
    newest = TLS_1_3_SUITES.intersection(tls.cipher_suites)
    if newest and newest != TLS_1_3_SUITES and "TLSv1.3" in tls.enabled_protocols:
        missing = ", ".join(sorted(TLS_1_3_SUITES - newest))
        raise SettingError(
            setting,
            f"the suites of TLS 1.3 can only be used together; add {missing}, or remove TLSv1.3 from "
            f"{tls.name('enabled.protocols')}",
        )
    older = [suite for suite in tls.cipher_suites if suite not in TLS_1_3_SUITES]
    for suite in older:
        try:
            context.set_ciphers(openssl_name(suite))
        except ssl.SSLError:
            raise SettingError(setting, f"OpenSSL does not know the cipher suite {suite!r}") from None
    if older:
        context.set_ciphers(":".join(map(openssl_name, older)))
    return ({"TLSv1.3"} if newest else set()) | ({"TLSv1.2"} if older else set())


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher suite with Java's name. Other names are returned as they are.

    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384.
    """
    if "_WITH_" not in suite:
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = (
        cipher.replace("AES_", "AES").replace("_CBC_", "_").replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    )
    return f"{'' if exchange == 'RSA' else exchange + '-'}{cipher}".replace("_", "-")


# -- keys and certificates -----------------------------------------------------------------------------------------


def _use_key(context: ssl.SSLContext, key: KeyMaterial) -> None:
    with private_file(key.pem) as path:
        try:
            context.load_cert_chain(path, password=key.password)
        except ssl.SSLError as error:
            raise SettingError(key.source, _key_problem(error, key)) from None
        except ValueError:  # a password of more than 1,024 bytes
            raise SettingError(key.source, "the password of the private key is too long") from None


def _key_problem(error: ssl.SSLError, key: KeyMaterial) -> str:
    reason = error.reason or str(error)
    if reason == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the first certificate; the own certificate must come first"
    if key.password:
        return f"the private key cannot be decrypted, or is damaged ({reason}); check the password of the key"
    return f"the private key or its certificate cannot be used ({reason})"


def _use_trust(context: ssl.SSLContext, tls: TlsSettings, trusted: str) -> None:
    setting = tls.name("truststore.location" if tls.truststore_location else "truststore.certificates")
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        raise SettingError(setting, f"a certificate cannot be read ({error.reason or error})") from None
    # Trust every certificate in the store, also one that is not of a root authority, as Java does.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
