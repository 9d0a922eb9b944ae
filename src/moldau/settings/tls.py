"""Broker settings for TLS: keys, certificates, trusted authorities, and who must show a certificate.

They are part of the table in `broker.py`, and every one may be set for a single listener (`listener_overrides.py`).
"""

from __future__ import annotations

from typing import Final

from moldau.settings.setting import Scope, Setting, SettingType, Value

LIST, STRING, PASSWORD = SettingType.LIST, SettingType.STRING, SettingType.PASSWORD
DYNAMIC = Scope.BROKER_DYNAMIC

STORE_TYPES: Final = ("PEM", "PKCS12", "JKS")
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
CLIENT_AUTH: Final = ("required", "requested", "none")


def _enabled_versions(value: Value) -> str | None:
    assert isinstance(value, tuple)
    if not value:
        return f"at least one of {', '.join(TLS_VERSIONS)} is needed"
    for version in value:
        if version not in TLS_VERSIONS:
            return f"{version!r} is not one of {', '.join(TLS_VERSIONS)}; earlier versions are not secure"
    return None


def _store_type(value: Value) -> str | None:
    if isinstance(value, str) and value.upper() not in STORE_TYPES:
        return f"{value!r} is not one of {', '.join(STORE_TYPES)}"
    return None


TLS: Final = (
    Setting("ssl.keystore.location", STRING, None, "The file with the broker's key and certificates.", scope=DYNAMIC),
    Setting(
        "ssl.keystore.type",
        STRING,
        "JKS",
        "The format of `ssl.keystore.location`: PEM or PKCS12. A JKS file must be converted first.",
        scope=DYNAMIC,
        check=_store_type,
    ),
    Setting("ssl.keystore.password", PASSWORD, None, "The password of `ssl.keystore.location`.", scope=DYNAMIC),
    Setting("ssl.key.password", PASSWORD, None, "The password of the private key.", scope=DYNAMIC),
    Setting(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "The broker's certificates as PEM text, instead of a file.",
        scope=DYNAMIC,
    ),
    Setting("ssl.keystore.key", PASSWORD, None, "The private key as PEM text, instead of a file.", scope=DYNAMIC),
    Setting("ssl.truststore.location", STRING, None, "The file with the authorities that are trusted.", scope=DYNAMIC),
    Setting(
        "ssl.truststore.type",
        STRING,
        "JKS",
        "The format of `ssl.truststore.location`: PEM or PKCS12. A JKS file must be converted first.",
        scope=DYNAMIC,
        check=_store_type,
    ),
    Setting("ssl.truststore.password", PASSWORD, None, "The password of `ssl.truststore.location`.", scope=DYNAMIC),
    Setting(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        "The trusted authorities as PEM text, instead of a file.",
        scope=DYNAMIC,
    ),
    Setting(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether a client must (`required`) or may (`requested`) show a certificate. A SASL_SSL listener needs this "
        "setting for itself (`listener.name.NAME.ssl.client.auth`), as in Kafka.",
        scope=DYNAMIC,
        choices=CLIENT_AUTH,
    ),
    Setting(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        "Rules that make the name of a principal from the name in a client's certificate. The first rule that matches "
        "counts: `RULE:pattern/replacement/` with `L` or `U` at its end for lower or upper case, or `DEFAULT` for the "
        "whole name.",
    ),
    Setting(
        "ssl.enabled.protocols",
        LIST,
        TLS_VERSIONS,
        "The versions of TLS that are accepted.",
        scope=DYNAMIC,
        check=_enabled_versions,
    ),
    Setting(
        "ssl.cipher.suites",
        LIST,
        (),
        "The cipher suites that are accepted, by their names in TLS or in OpenSSL. Empty: the defaults of OpenSSL.",
        scope=DYNAMIC,
    ),
    Setting(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "How a broker checks the host name of another broker: `https`, or empty for no check.",
        scope=DYNAMIC,
    ),
)
