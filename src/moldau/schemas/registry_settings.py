"""Settings of the registry's client, with the names and defaults of Confluent's Java client.

`schema.registry.` may stand before every name (`schema.registry.ssl.truststore.location`), as in the settings of Java's
serializers. A few names of confluent-kafka are accepted too: `url`, `ssl.ca.location`, `cache.latest.ttl.sec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from moldau.host.reference_files import resolve_references
from moldau.host.secret_files import read_bounded
from moldau.net.tls_settings import PROTOCOLS, TlsSettings
from moldau.settings.setting import Setting, SettingError, SettingType
from moldau.settings.table import SettingTable

PREFIX: Final = "schema.registry."
OTHER_NAMES: Final = {"ssl.ca.location": "ssl.truststore.location", "cache.latest.ttl.sec": "latest.cache.ttl.sec"}
"""Names of confluent-kafka's client, and ours."""

INT, STRING, LIST, PASSWORD = SettingType.INT, SettingType.STRING, SettingType.LIST, SettingType.PASSWORD

REGISTRY_CLIENT = SettingTable(
    "registry client",
    {
        "Requests": (
            Setting("url", LIST, (), "Addresses of the registry; the next one is asked if one does not answer."),
            Setting("max.retries", INT, 3, "How often a request is repeated that no registry could answer.", low=0),
            Setting("retries.wait.ms", INT, 1000, "Longest wait before the first repetition.", low=0),
            Setting("retries.max.wait.ms", INT, 20_000, "Longest wait before any repetition.", low=0),
            Setting("http.connect.timeout.ms", INT, 60_000, "Time limit of a connection attempt.", low=1),
            Setting("http.read.timeout.ms", INT, 60_000, "Time limit of an answer.", low=1),
            Setting("proxy.host", STRING, "", "Host of an HTTP proxy."),
            Setting("proxy.port", INT, -1, "Port of the HTTP proxy.", low=1, high=65535, extra_value=-1),
        ),
        "Caches": (
            Setting(
                "latest.cache.ttl.sec",
                INT,
                60,
                "How long the latest version of a subject is cached; -1 is for ever (Confluent's default).",
                low=0,
                extra_value=-1,
            ),
            Setting("max.schemas.per.subject", INT, 1000, "Schemas in each cache.", low=1),
        ),
        "Login": (
            Setting(
                "basic.auth.credentials.source",
                STRING,
                "URL",
                "Where user and password are: in the URL, or in basic.auth.user.info.",
                choices=("URL", "USER_INFO"),
            ),
            Setting("basic.auth.user.info", PASSWORD, "", "User and password, as user:password."),
            Setting(
                "bearer.auth.credentials.source",
                STRING,
                "STATIC_TOKEN",
                "Where the token is: in bearer.auth.token.",
                choices=("STATIC_TOKEN",),
            ),
            Setting("bearer.auth.token", PASSWORD, "", "A token, which is sent instead of user and password."),
            Setting("bearer.auth.logical.cluster", STRING, "", "Sent with the token as target-sr-cluster."),
            Setting("bearer.auth.identity.pool.id", STRING, "", "Sent with the token as Confluent-Identity-Pool-Id."),
        ),
        "TLS": (
            Setting("ssl.truststore.location", STRING, "", "File with the trusted certificates, in PEM or PKCS12."),
            Setting("ssl.truststore.type", STRING, "JKS", "Accepted for Kafka; the content of the file decides."),
            Setting("ssl.truststore.password", PASSWORD, "", "Password of a PKCS12 trust store."),
            Setting("ssl.truststore.certificates", PASSWORD, "", "Trusted certificates in PEM, instead of a file."),
            Setting("ssl.keystore.location", STRING, "", "File with the client's key and certificates."),
            Setting("ssl.keystore.type", STRING, "JKS", "Accepted for Kafka; the content of the file decides."),
            Setting("ssl.keystore.password", PASSWORD, "", "Password of a PKCS12 key store."),
            Setting("ssl.key.password", PASSWORD, "", "Password of an encrypted private key in PEM."),
            Setting("ssl.keystore.key", PASSWORD, "", "The private key in PEM, instead of a file."),
            Setting("ssl.keystore.certificate.chain", PASSWORD, "", "The client's certificates in PEM."),
            Setting("ssl.certificate.location", STRING, "", "File with the client's certificates in PEM."),
            Setting("ssl.key.location", STRING, "", "File with the client's private key in PEM."),
            Setting(
                "ssl.endpoint.identification.algorithm",
                STRING,
                "https",
                "Whether the host name must be in the certificate; an empty value switches the check off.",
            ),
            Setting("ssl.enabled.protocols", LIST, PROTOCOLS, "Versions of TLS.", choices=PROTOCOLS),
            Setting("ssl.cipher.suites", LIST, (), "Cipher suites; empty is OpenSSL's choice."),
        ),
    },
)


class RegistrySettings(NamedTuple):
    """The checked settings of one client."""

    urls: tuple[str, ...]
    """Without user and password."""
    login: tuple[str, str] | None
    token: str
    token_headers: dict[str, str]
    max_retries: int
    retry_wait_s: float
    retry_max_wait_s: float
    connect_timeout_s: float
    read_timeout_s: float
    proxy: str | None
    latest_ttl_s: float
    """Infinite for the setting -1."""
    cached_schemas: int
    tls: TlsSettings

    def __repr__(self) -> str:
        return f"RegistrySettings(urls={self.urls!r})"


def registry_settings(given: Mapping[str, Any], *, resolve: bool = True) -> RegistrySettings:
    """The settings of a client, from text or Python values. Raises SettingError for the first wrong one.

    `resolve` replaces `${env:NAME}` and `${file:/path}`.
    """
    values: dict[str, Any] = {setting.name: setting.default for setting in REGISTRY_CLIENT}
    texts = {_plain_name(name): _text(value) for name, value in given.items() if value is not None}
    values.update(REGISTRY_CLIENT.parse(resolve_references(texts) if resolve else texts))
    urls, login = _addresses(values["url"])
    if values["basic.auth.user.info"]:
        user, colon, password = values["basic.auth.user.info"].partition(":")
        if not colon:
            raise SettingError("basic.auth.user.info", "is not of the form user:password")
        login = (user, password)
    elif values["basic.auth.credentials.source"] == "USER_INFO":
        raise SettingError("basic.auth.user.info", "is not set, but basic.auth.credentials.source is USER_INFO")
    ttl: int = values["latest.cache.ttl.sec"]
    return RegistrySettings(
        urls,
        login,
        values["bearer.auth.token"],
        _token_headers(values),
        values["max.retries"],
        values["retries.wait.ms"] / 1000,
        values["retries.max.wait.ms"] / 1000,
        values["http.connect.timeout.ms"] / 1000,
        values["http.read.timeout.ms"] / 1000,
        _proxy(values),
        float("inf") if ttl < 0 else ttl,
        values["max.schemas.per.subject"],
        _tls(values),
    )


def _plain_name(name: str) -> str:
    plain = name.removeprefix(PREFIX)
    return OTHER_NAMES.get(plain, plain)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _addresses(given: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    if not given:
        raise SettingError("schema.registry.url", "is missing; give the registry's address: http://127.0.0.1:8081")
    login = None
    urls: list[str] = []
    for one in given:
        parts = _url_parts(one)
        if parts is None:
            # Without the text: a password may be in it.
            raise SettingError("schema.registry.url", f"address {len(urls) + 1} is not of the form http://host:8081")
        if parts.username and login is None:
            login = (unquote(parts.username), unquote(parts.password or ""))
        place = parts.netloc.rpartition("@")[2]
        urls.append(f"{parts.scheme}://{place}{parts.path.rstrip('/')}")
    return tuple(urls), login


def _url_parts(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the port
        return None
    return parts if valid else None


def _token_headers(values: Mapping[str, Any]) -> dict[str, str]:
    if not values["bearer.auth.token"]:
        return {}
    given = {
        "target-sr-cluster": values["bearer.auth.logical.cluster"],
        "confluent-identity-pool-id": values["bearer.auth.identity.pool.id"],
    }
    return {name: value for name, value in given.items() if value}


def _proxy(values: Mapping[str, Any]) -> str | None:
    host, port = values["proxy.host"], values["proxy.port"]
    if bool(host) != (port > 0):
        raise SettingError("proxy.host" if port > 0 else "proxy.port", "is missing: set both or neither")
    return f"http://{host}:{port}" if host else None


def _tls(values: Mapping[str, Any]) -> TlsSettings:
    chain, key = values["ssl.keystore.certificate.chain"], values["ssl.keystore.key"]
    if values["ssl.certificate.location"] or values["ssl.key.location"]:
        chain = _file("ssl.certificate.location", values["ssl.certificate.location"])
        # As in confluent-kafka, the file with the certificate may have the key too.
        key = _file("ssl.key.location", values["ssl.key.location"] or values["ssl.certificate.location"])
    return TlsSettings(
        keystore_location=values["ssl.keystore.location"],
        keystore_type=values["ssl.keystore.type"],
        keystore_password=values["ssl.keystore.password"],
        key_password=values["ssl.key.password"],
        keystore_certificate_chain=chain,
        keystore_key=key,
        truststore_location=values["ssl.truststore.location"],
        truststore_type=values["ssl.truststore.type"],
        truststore_password=values["ssl.truststore.password"],
        truststore_certificates=values["ssl.truststore.certificates"],
        enabled_protocols=values["ssl.enabled.protocols"],
        cipher_suites=values["ssl.cipher.suites"],
        endpoint_identification_algorithm=values["ssl.endpoint.identification.algorithm"],
        prefix=PREFIX,
    )


def _file(name: str, path: str) -> str:
    try:
        return read_bounded(path).decode()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not PEM"
        raise SettingError(name, f"the file {path} cannot be read: {reason}") from None
