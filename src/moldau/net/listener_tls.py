"""TLS settings of a listener: the values in force, with their full names for error messages."""

from __future__ import annotations

from moldau.net.tls_settings import TlsSettings
from moldau.settings.listener_overrides import PREFIX, ListenerSettings


def listener_tls(settings: ListenerSettings) -> TlsSettings:
    """The values of `ssl.*` for one listener. Inter-broker clients of that listener use the same ones."""
    return TlsSettings(
        keystore_location=settings["ssl.keystore.location"] or "",
        keystore_type=settings["ssl.keystore.type"] or "",
        keystore_password=settings["ssl.keystore.password"] or "",
        key_password=settings["ssl.key.password"] or "",
        keystore_certificate_chain=settings["ssl.keystore.certificate.chain"] or "",
        keystore_key=settings["ssl.keystore.key"] or "",
        truststore_location=settings["ssl.truststore.location"] or "",
        truststore_type=settings["ssl.truststore.type"] or "",
        truststore_password=settings["ssl.truststore.password"] or "",
        truststore_certificates=settings["ssl.truststore.certificates"] or "",
        client_auth=settings["ssl.client.auth"],
        enabled_protocols=settings["ssl.enabled.protocols"],
        cipher_suites=settings["ssl.cipher.suites"],
        endpoint_identification_algorithm=settings["ssl.endpoint.identification.algorithm"] or "",
        prefix=f"{PREFIX}{settings.listener.lower()}.",
    )
