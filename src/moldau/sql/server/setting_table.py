"""Declarations of the settings of an SQL server. Names are Kafka's where it has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.client.settings import ADMIN
from moldau.client.settings.security import SECURITY_SETTINGS
from moldau.service.client_setting_names import FOR_CLIENTS
from moldau.service.http_settings import http_declarations, tls_declarations
from moldau.settings.setting import Setting, SettingType, Value
from moldau.settings.table import SettingTable
from moldau.sql.session_settings import SERVICE_ID

INT, STRING = SettingType.INT, SettingType.STRING

DEFAULT_PORT: Final = 8088
DEFAULT_SERVICE: Final = "default"
DEFAULT_STATE_DIR: Final = "moldau-sql-state"


def _service(value: Value) -> str | None:
    return None if SERVICE_ID.fullmatch(str(value)) else f"{value!r} is not 1 to 64 letters, digits, _ or -"


def _directory(value: Value) -> str | None:
    return None if str(value).strip() else "the path of a directory is needed"


GROUP: Final = (
    Setting(
        "service.id",
        STRING,
        DEFAULT_SERVICE,
        "Servers with the same id form a group: one of them runs the queries, the others stand by. A query belongs to "
        "the id that `SET service.id` named in the session that created it, or to `default`.",
        check=_service,
    ),
    Setting(
        "state.dir",
        STRING,
        DEFAULT_STATE_DIR,
        "The directory of the checkpoints and indexes of queries. All servers of a group must see the same one.",
        check=_directory,
    ),
    Setting("session.timeout.ms", INT, 10_000, "A server that is silent for this long is replaced.", low=1),
    Setting("heartbeat.interval.ms", INT, 3_000, "The time between two heartbeats of a server.", low=1),
    Setting("rebalance.timeout.ms", INT, 60_000, "The time in which all servers must have joined a rebalance.", low=1),
)

QUERIES: Final = (
    Setting("moldau.sql.restart.pause.ms", INT, 1_000, "The first pause after a failure; it doubles each time.", low=1),
    Setting("moldau.sql.restart.max.pause.ms", INT, 60_000, "The longest pause after a failure.", low=1),
    Setting(
        "moldau.sql.restart.max.failures",
        INT,
        6,
        "A query that fails so often in a row is FAILED; RESUME tries it again.",
        low=1,
    ),
    Setting("moldau.sql.report.interval.ms", INT, 2_000, "The time between two reports on a query.", low=100),
)

STATEMENTS: Final = (
    Setting("moldau.sql.max.statements", INT, 8, "Requests with statements that run at the same time.", low=1),
    Setting("moldau.sql.max.streams", INT, 20, "Requests with EMIT CHANGES or PRINT that run at the same time.", low=1),
    Setting("moldau.sql.max.rows", INT, 1_000_000, "Rows of the answer to one bounded query (POST /query).", low=1),
    Setting(
        "moldau.sql.statement.max.rows", INT, 10_000, "Rows of one result in the answer to POST /statements.", low=1
    ),
    Setting(
        "moldau.sql.statement.timeout.ms",
        INT,
        110_000,
        "The time for the statements of one request; smaller than moldau.http.request.timeout.ms.",
        low=1,
    ),
)

REST: Final = (
    *http_declarations(DEFAULT_PORT),
    Setting("rest.advertised.host.name", STRING, None, "The host under which other servers reach this one."),
    Setting("rest.advertised.port", INT, None, "The port for the same.", low=1, high=65535),
    Setting(
        "rest.advertised.listener",
        STRING,
        None,
        "The listener that other servers use: http or https. Empty: the first one.",
        check=lambda value: None if value in (None, "", "http", "https") else f"{value!r} is neither http nor https",
    ),
    Setting(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients of https listeners must have a certificate: `required`, `requested` or `none`.",
        choices=("none", "requested", "required"),
    ),
)

SECTIONS: Final[Mapping[str, Sequence[Setting]]] = {
    "Brokers": [ADMIN[name] for name in FOR_CLIENTS],
    "Group": GROUP,
    "Queries": QUERIES,
    "Statements": STATEMENTS,
    "REST API": REST,
    "TLS of the REST API": tls_declarations(),
    "TLS and login at the brokers": SECURITY_SETTINGS,
}

SQL_SERVER: Final = SettingTable("SQL server", SECTIONS)
"""All settings of a server that have a fixed name."""
