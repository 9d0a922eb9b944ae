"""Settings of a service's HTTP side: addresses, TLS, login, cross-origin access and limits.

Names are Kafka Connect's where it has one. `HttpSettings` are the checked values; nothing is bound or resolved here. No
address beyond loopback is allowed without a login: a client that creates connectors can read files and databases.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moldau.host.machine_names import full_host_name
from moldau.net.tls_settings import CLIENT_AUTH, PROTOCOLS, TlsSettings
from moldau.settings.setting import Setting, SettingError, SettingType, Value

LIST, STRING, INT, PASSWORD = SettingType.LIST, SettingType.STRING, SettingType.INT, SettingType.PASSWORD

LISTENERS: Final = "listeners"
PASSWORD_FILE: Final = "moldau.http.password.file"
TLS_PREFIX: Final = "listeners.https."
ALL_INTERFACES: Final = ("", "0.0.0.0", "::")
LOCAL_NAMES: Final = frozenset({"localhost"})
MAX_PORT: Final = 65535
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

_LISTENER = re.compile(r"(https?)://(?:\[([0-9A-Fa-f:.%\w]+)\]|([A-Za-z0-9_.-]*)):([0-9]{1,5})", re.IGNORECASE)


@dataclass(frozen=True)
class HttpAddress:
    """One address to listen on. An empty host stands for all interfaces."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. A name other than localhost may change, so it does not count."""
        if self.host in LOCAL_NAMES:
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True)
class HttpSettings:
    """The checked settings of a service's HTTP side."""

    addresses: tuple[HttpAddress, ...]
    allow_origins: tuple[str, ...] = ()
    """Origins of web pages that may use the service beside its own; `*` for all."""
    allow_methods: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    """Host names under which clients may address the service, beside IP addresses and this machine's names."""
    password_file: str = ""
    max_body_bytes: int = 8 * 1024 * 1024
    request_timeout_s: float = 120.0
    tls: TlsSettings | None = None
    own_login: bool = False
    """Whether the service itself asks for a login, for example with the credentials of the brokers' users."""

    @property
    def needs_login(self) -> bool:
        return bool(self.password_file) or self.own_login

    def check(self) -> None:
        """Raise SettingError if an address is open to other machines without a login."""
        certificates = self.tls is not None and self.tls.client_auth == "required"
        for address in self.addresses:
            open_to_all = not address.is_loopback and not self.needs_login
            if open_to_all and not (address.scheme == "https" and certificates):
                raise SettingError(
                    LISTENERS,
                    f"{address.url} can be reached from other machines, but no login is configured; set "
                    f"{PASSWORD_FILE} (create it with: moldau security http-user FILE NAME), or listen on 127.0.0.1",
                )
            if address.scheme == "https" and self.tls is None:
                raise SettingError(
                    LISTENERS, f"{address.url} needs a certificate; set {TLS_PREFIX}ssl.keystore.location"
                )


def parse_listener(text: str, setting: str = LISTENERS) -> HttpAddress:
    """Parse `http://HOST:PORT` or `https://HOST:PORT`. An IPv6 address is in brackets."""
    match = _LISTENER.fullmatch(text.strip())
    if match is None or int(match[4]) > MAX_PORT:
        raise SettingError(setting, f"{text!r} is not of the form http://HOST:PORT or https://HOST:PORT")
    return HttpAddress(match[1].lower(), match[2] or match[3], int(match[4]))


def _listeners(value: Value) -> str | None:
    assert isinstance(value, tuple)
    if not value:
        return "at least one address is needed, such as http://127.0.0.1:8083"
    for text in value:
        parse_listener(text)
    return None


def _methods(value: Value) -> str | None:
    assert isinstance(value, tuple)
    wrong = [method for method in value if method.upper() not in METHODS]
    return f"{wrong[0]!r} is not one of {', '.join(METHODS)}" if wrong else None


def http_declarations(port: int) -> Sequence[Setting]:
    """The HTTP settings of a service whose usual port is this one."""
    return (
        Setting(
            LISTENERS,
            LIST,
            (f"http://127.0.0.1:{port}",),
            "The addresses to listen on. An address that other machines can reach needs a login.",
            check=_listeners,
        ),
        Setting(
            "access.control.allow.origin",
            LIST,
            (),
            "Origins of web pages that may use the API, such as `https://console.example`; `*` for all. The pages of "
            "the service itself always may.",
        ),
        Setting(
            "access.control.allow.methods",
            LIST,
            (),
            "Methods that pages of other origins may use. Empty: GET, POST and HEAD.",
            check=_methods,
        ),
        Setting(
            PASSWORD_FILE,
            STRING,
            None,
            "The file with users and hashed passwords; with it every request needs a login (HTTP Basic). `moldau "
            "security http-user` writes it.",
        ),
        Setting(
            "moldau.http.allowed.hosts",
            LIST,
            (),
            "Host names under which clients address the service, beside IP addresses, this machine's names and the "
            "advertised one. Requests with other names are refused: a web page could have invented the name.",
        ),
        Setting("moldau.http.max.body.bytes", INT, 8 * 1024 * 1024, "The largest request body.", low=1),
        Setting(
            "moldau.http.request.timeout.ms",
            INT,
            120_000,
            "The time for one request, from its first byte to the last byte of the response.",
            low=1,
        ),
    )


_TLS_NAMES: Final = {
    "keystore.location": STRING,
    "keystore.type": STRING,
    "keystore.password": PASSWORD,
    "key.password": PASSWORD,
    "keystore.certificate.chain": PASSWORD,
    "keystore.key": PASSWORD,
    "truststore.location": STRING,
    "truststore.type": STRING,
    "truststore.password": PASSWORD,
    "truststore.certificates": PASSWORD,
    "client.auth": STRING,
    "enabled.protocols": LIST,
    "cipher.suites": LIST,
}


def tls_declarations() -> Sequence[Setting]:
    """`listeners.https.ssl.*`: the TLS settings of https listeners. Without one, `ssl.*` of the service counts."""
    return tuple(
        Setting(
            f"{TLS_PREFIX}ssl.{name}",
            kind,
            None,
            f"`ssl.{name}` of the https listeners; without it `ssl.{name}` counts.",
            check=_client_auth if name == "client.auth" else None,
        )
        for name, kind in _TLS_NAMES.items()
    )


def _client_auth(value: Value) -> str | None:
    return None if value is None or value in CLIENT_AUTH else f"{value!r} is not one of {', '.join(CLIENT_AUTH)}"


def http_settings(values: Mapping[str, Any], *, own_login: bool = False) -> HttpSettings:
    """The checked HTTP settings of a service, from the values of its setting table. Raises SettingError."""
    addresses = tuple(parse_listener(text) for text in values[LISTENERS])
    advertised = values.get("rest.advertised.host.name")
    found = HttpSettings(
        addresses,
        tuple(values["access.control.allow.origin"]),
        tuple(method.upper() for method in values["access.control.allow.methods"]),
        tuple(name.lower() for name in (*values["moldau.http.allowed.hosts"], *([advertised] if advertised else ()))),
        values[PASSWORD_FILE] or "",
        values["moldau.http.max.body.bytes"],
        values["moldau.http.request.timeout.ms"] / 1_000,
        tls_of(values) if any(one.scheme == "https" for one in addresses) else None,
        own_login,
    )
    found.check()
    return found


def tls_of(values: Mapping[str, Any]) -> TlsSettings:
    """The TLS settings of https listeners: `listeners.https.ssl.*`, and `ssl.*` for those that are not set."""

    def text(name: str) -> str:
        return values.get(f"{TLS_PREFIX}ssl.{name}") or values.get(f"ssl.{name}") or ""

    own = any(values.get(f"{TLS_PREFIX}ssl.{name}") for name in _TLS_NAMES)
    protocols = text("enabled.protocols") or PROTOCOLS
    return TlsSettings(
        keystore_location=text("keystore.location"),
        keystore_type=text("keystore.type"),
        keystore_password=text("keystore.password"),
        key_password=text("key.password"),
        keystore_certificate_chain=text("keystore.certificate.chain"),
        keystore_key=text("keystore.key"),
        truststore_location=text("truststore.location"),
        truststore_type=text("truststore.type"),
        truststore_password=text("truststore.password"),
        truststore_certificates=text("truststore.certificates"),
        client_auth=text("client.auth") or "none",
        enabled_protocols=tuple(protocols),
        cipher_suites=tuple(text("cipher.suites") or ()),
        prefix=TLS_PREFIX if own else "",
    )


def advertised_address(values: Mapping[str, Any], served: Iterable[HttpAddress]) -> HttpAddress:
    """The address under which other processes of the service reach this one, from the addresses that are served."""
    addresses = list(served)
    scheme = values["rest.advertised.listener"] or addresses[0].scheme
    chosen = next((one for one in addresses if one.scheme == scheme), None)
    if chosen is None:
        raise SettingError("rest.advertised.listener", f"there is no {scheme} listener in listeners")
    host = values["rest.advertised.host.name"] or chosen.host
    if host in ALL_INTERFACES:
        host = full_host_name()
    return HttpAddress(scheme, host, values["rest.advertised.port"] or chosen.port)
