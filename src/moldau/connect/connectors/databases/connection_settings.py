"""Settings of the connection, which source and sink share, and their checks against the database itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moldau.client.errors import MoldauError
from moldau.connect.config_def import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance, between, one_of
from moldau.connect.connector import RetriableError
from moldau.connect.connectors.databases.dialect import DatabaseSession, Dialect, dialect_of
from moldau.connect.connectors.databases.jdbc_url import address_of, parse_url

DATABASE: Final = "Database"

DIALECTS: Final = (
    "",
    "SqliteDatabaseDialect",
    "PostgreSqlDatabaseDialect",
    "MySqlDatabaseDialect",
    "MariaDbDatabaseDialect",
)


def _check_url(name: str, value: Any) -> str | None:
    try:
        parse_url(value)
    except ConfigError as error:
        return f"Invalid value for configuration {name}: {error}"
    return None


def check_zone(name: str, value: Any) -> str | None:
    """Refuse a time zone that does not exist."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError):
        return f"Invalid time zone identifier: {value}"
    return None


CONNECTION: Final = ConfigDef(
    [
        ConfigKey(
            "connection.url",
            ConfigType.STRING,
            "JDBC URL of the database: jdbc:sqlite:PATH, jdbc:postgresql://HOST:PORT/DATABASE, "
            "jdbc:mariadb://HOST:PORT/DATABASE or jdbc:mysql://HOST:PORT/DATABASE.",
            importance=Importance.HIGH,
            validator=_check_url,
            group=DATABASE,
        ),
        ConfigKey("connection.user", ConfigType.STRING, "The user.", None, Importance.HIGH, group=DATABASE),
        ConfigKey("connection.password", ConfigType.PASSWORD, "The password.", None, Importance.HIGH, group=DATABASE),
        ConfigKey(
            "connection.attempts",
            ConfigType.INT,
            "How often a connection is tried before an attempt of the connector fails. The engine then tries again "
            "with growing pauses.",
            1,
            Importance.LOW,
            between(1),
            group=DATABASE,
        ),
        ConfigKey(
            "connection.backoff.ms",
            ConfigType.LONG,
            "The pause between two such tries.",
            1000,
            Importance.LOW,
            between(0),
            group=DATABASE,
        ),
        ConfigKey(
            "dialect.name",
            ConfigType.STRING,
            "Follows from connection.url; accepted so that existing configurations work.",
            "",
            Importance.LOW,
            one_of(*DIALECTS),
            group=DATABASE,
        ),
        ConfigKey(
            "db.timezone",
            ConfigType.STRING,
            "The time zone of columns with date and time but without time zone.",
            "UTC",
            validator=check_zone,
            group=DATABASE,
        ),
    ]
)


def dialect_for(config: Mapping[str, Any]) -> Dialect:
    return dialect_of(address_of(config))


def open_session(dialect: Dialect, config: Mapping[str, Any]) -> DatabaseSession:
    """A connection, tried connection.attempts times."""
    import time

    attempts = int(config.get("connection.attempts", 1))
    for attempt in range(attempts):
        try:
            return dialect.open()
        except RetriableError:
            if attempt + 1 == attempts:
                raise
            time.sleep(int(config.get("connection.backoff.ms", 1000)) / 1000)
    raise AssertionError("connection.attempts is at least 1")


def check_login(config: Mapping[str, Any], dialect: Dialect) -> dict[str, list[str]]:
    """The problem of connecting, if there is one, for validation."""
    try:
        dialect.open().close()
    except (MoldauError, ImportError) as error:
        return {"connection.url": [str(error)]}
    return {}
