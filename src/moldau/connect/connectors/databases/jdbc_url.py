"""Database addresses: JDBC URLs as Confluent's connectors take them.

    jdbc:sqlite:/data/shop.db
    jdbc:postgresql://host:5432/shop?sslmode=require&currentSchema=sales
    jdbc:mariadb://host:3306/shop          jdbc:mysql://host:3306/shop

A parameter without meaning here is an error that names it: it may have been set for safety.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.connect.config_def import ConfigError

DEFAULT_PORTS: Final = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
MARIADB: Final = ("mysql", "mariadb")

POSTGRESQL_PARAMETERS: Final = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "options": "options",
    "targetServerType": "target_session_attrs",
}
"""JDBC's names, and libpq's."""

MARIADB_PARAMETERS: Final = ("sslMode", "useSSL", "requireSSL", "serverSslCert", "connectTimeout", "socketTimeout")

WITHOUT_EFFECT: Final = frozenset(
    {
        "useUnicode",
        "characterEncoding",
        "rewriteBatchedStatements",
        "reWriteBatchedInserts",
        "useServerPrepStmts",
        "cachePrepStmts",
        "useCursorFetch",
        "defaultRowFetchSize",
        "defaultFetchSize",
        "prepareThreshold",
        "tcpKeepAlive",
        "stringtype",
        "allowPublicKeyRetrieval",
        "zeroDateTimeBehavior",
        "autoReconnect",
        "useLegacyDatetimeCode",
        "nullCatalogMeansCurrent",
    }
)
"""Parameters of the JDBC drivers that set what is so here anyway, or how a driver works inside."""

_TARGETS: Final = {"any": "any", "primary": "read-write", "secondary": "standby", "preferSecondary": "prefer-standby"}


@dataclass(frozen=True)
class DatabaseAddress:
    """Where a database is and who logs in. Its `repr` has no password."""

    kind: str
    """sqlite, postgresql, mysql or mariadb."""
    database: str
    """The name of the database; the path of SQLite's file."""
    hosts: tuple[tuple[str, int], ...] = ()
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    schema: str | None = None
    """PostgreSQL's currentSchema."""

    @property
    def shown(self) -> str:
        """The address for messages, without user, password and parameters."""
        if not self.hosts:
            return f"{self.kind}:{self.database}"
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        return f"{self.kind}://{hosts}/{self.database}"


def parse_url(url: str, user: str | None = None, password: str | None = None) -> DatabaseAddress:
    """The address of a JDBC URL. ConfigError says what is wrong, and never shows the URL's parameters."""
    shown = url.partition("?")[0]
    if not url.startswith("jdbc:"):
        raise ConfigError(
            f"connection.url {shown} is not a JDBC URL; write for example jdbc:postgresql://127.0.0.1:5432/shop"
        )
    kind, colon, rest = url[len("jdbc:") :].partition(":")
    if not colon or kind not in ("sqlite", *DEFAULT_PORTS):
        raise ConfigError(
            f"connection.url {shown} is of a database that is not supported; supported are jdbc:sqlite:, "
            "jdbc:postgresql:, jdbc:mysql: and jdbc:mariadb:"
        )
    if kind == "sqlite":
        return _sqlite(rest, shown)
    return _server(kind, rest, shown, user, password)


def _sqlite(rest: str, shown: str) -> DatabaseAddress:
    path = rest.removeprefix("file:") if rest.startswith("file:") else rest
    path, _, parameters = path.partition("?")
    if parameters:
        raise ConfigError(f"connection.url {shown} has parameters; for SQLite none are supported, remove them")
    if not path or path == ":memory:":
        raise ConfigError(f"connection.url {shown} names no file; write jdbc:sqlite:/path/to/file.db")
    return DatabaseAddress("sqlite", path)


def _server(kind: str, rest: str, shown: str, user: str | None, password: str | None) -> DatabaseAddress:
    from urllib.parse import parse_qsl, unquote

    location, _, query = rest.partition("?")
    if location.startswith("//"):
        authority, _, name = location[2:].partition("/")
    else:
        authority, name = "localhost", location
    if "@" in authority:
        raise ConfigError("connection.url has a login before its host; use connection.user and connection.password")
    given = dict(parse_qsl(query, keep_blank_values=True))
    user = user or given.pop("user", None)
    password = password if password is not None else given.get("password")
    given.pop("password", None)
    given.pop("user", None)
    schema = given.pop("currentSchema", None)
    if kind != "postgresql" and schema is not None:
        raise ConfigError(f"connection.url {shown} has the parameter currentSchema, which only PostgreSQL knows")
    database = unquote(name) or (user or "")
    if not database:
        raise ConfigError(f"connection.url {shown} names no database; write jdbc:{kind}://{authority}/DATABASE")
    hosts = tuple(_host(kind, one, shown) for one in (authority or "localhost").split(","))
    if kind in MARIADB and len(hosts) > 1:
        raise ConfigError(f"connection.url {shown} names several hosts; for {kind} only one is supported")
    return DatabaseAddress(kind, database, hosts, user, password, _parameters(kind, given), schema)


def _host(kind: str, text: str, shown: str) -> tuple[str, int]:
    host, port = text, ""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif ":" in text:
        host, _, port = text.partition(":")
    try:
        return host, int(port) if port else DEFAULT_PORTS[kind]
    except ValueError:
        raise ConfigError(f"connection.url {shown} has a port that is not a number: {port}") from None


def _parameters(kind: str, given: Mapping[str, str]) -> dict[str, str]:
    known: dict[str, str] = {}
    for name, value in given.items():
        if name in WITHOUT_EFFECT:
            continue
        if kind == "postgresql" and name in POSTGRESQL_PARAMETERS:
            known[POSTGRESQL_PARAMETERS[name]] = _TARGETS.get(value, value) if name == "targetServerType" else value
        elif kind in MARIADB and name in MARIADB_PARAMETERS:
            known[name] = value
        else:
            names = POSTGRESQL_PARAMETERS if kind == "postgresql" else MARIADB_PARAMETERS
            raise ConfigError(
                f"connection.url has the parameter {name}, which has no meaning here; remove it. "
                f"Known are: user, password, {', '.join(names)}"
            )
    return known


def address_of(config: Mapping[str, Any]) -> DatabaseAddress:
    """The address of a connector's settings."""
    return parse_url(config["connection.url"], config.get("connection.user"), config.get("connection.password"))
