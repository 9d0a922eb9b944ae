"""Settings of the database source, with the names of Confluent's JDBC source connector."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance, between, one_of
from moldau.connect.connectors.databases.connection_settings import CONNECTION, DATABASE
from moldau.connect.connectors.databases.dialect import NumericMapping

MODE: Final = "Mode"
CONNECTOR: Final = "Connector"

BULK: Final = "bulk"
TIMESTAMP: Final = "timestamp"
INCREMENTING: Final = "incrementing"
BOTH: Final = "timestamp+incrementing"

_DEFAULT_BATCH_ROWS: Final = 10_000


def _check_patterns(name: str, value: Any) -> str | None:
    for pattern in value or ():
        try:
            re.compile(pattern)
        except re.error as error:
            return f"Invalid value {pattern} for configuration {name}: not a regular expression: {error}"
    return None


SOURCE: Final = CONNECTION + ConfigDef(
    [
        ConfigKey(
            "table.whitelist",
            ConfigType.LIST,
            "The tables to read, by name or SCHEMA.NAME. Not together with table.blacklist, the lists of patterns or "
            "query.",
            [],
            group=DATABASE,
        ),
        ConfigKey(
            "table.blacklist", ConfigType.LIST, "Tables not to read, by name or SCHEMA.NAME.", [], group=DATABASE
        ),
        ConfigKey(
            "table.include.list",
            ConfigType.LIST,
            "Regular expressions; a table is read if one of them matches its name or SCHEMA.NAME.",
            [],
            validator=_check_patterns,
            group=DATABASE,
        ),
        ConfigKey(
            "table.exclude.list",
            ConfigType.LIST,
            "Regular expressions; a table is not read if one of them matches its name or SCHEMA.NAME.",
            [],
            validator=_check_patterns,
            group=DATABASE,
        ),
        ConfigKey(
            "schema.pattern", ConfigType.STRING, "Only tables of schemas like this (SQL's LIKE).", None, group=DATABASE
        ),
        ConfigKey("table.types", ConfigType.LIST, "TABLE, VIEW or both.", ["TABLE"], Importance.LOW, group=CONNECTOR),
        ConfigKey(
            "mode",
            ConfigType.STRING,
            "bulk: all rows at every poll. incrementing: rows with a larger id than before. timestamp: rows that were "
            "changed since. timestamp+incrementing: both, which tells rows of the same time apart.",
            importance=Importance.HIGH,
            validator=one_of(BULK, TIMESTAMP, INCREMENTING, BOTH),
            recommended=(BULK, TIMESTAMP, INCREMENTING, BOTH),
            group=MODE,
        ),
        ConfigKey(
            "incrementing.column.name",
            ConfigType.STRING,
            "The column whose values only grow. Empty: the column that the database numbers itself.",
            "",
            group=MODE,
        ),
        ConfigKey(
            "incrementing.initial",
            ConfigType.LONG,
            "Without stored offset, rows with a larger value than this are read.",
            -1,
            Importance.LOW,
            group=MODE,
        ),
        ConfigKey(
            "incrementing.delay.interval.ms",
            ConfigType.LONG,
            "Mode incrementing: an id is read this long after it was first seen. Set it to the duration of your "
            "longest transaction, if transactions that run at the same time insert rows: a smaller id that is "
            "committed after a larger one was read would be lost.",
            0,
            validator=between(0),
            group=MODE,
        ),
        ConfigKey(
            "timestamp.column.name",
            ConfigType.LIST,
            "The column with the time of the last change. Of several, the first that is not null counts.",
            [],
            group=MODE,
        ),
        ConfigKey(
            "timestamp.initial",
            ConfigType.LONG,
            "Without stored offset, rows changed after this time are read (milliseconds since 1970; -1: now).",
            None,
            Importance.LOW,
            group=MODE,
        ),
        ConfigKey(
            "timestamp.delay.interval.ms",
            ConfigType.LONG,
            "Rows are read this long after their time: transactions commit later than that.",
            0,
            validator=between(0),
            group=MODE,
        ),
        ConfigKey(
            "timestamp.granularity",
            ConfigType.STRING,
            "Points in time are Connect's Timestamp, with milliseconds.",
            "connect_logical",
            Importance.LOW,
            one_of("connect_logical"),
            group=CONNECTOR,
        ),
        ConfigKey(
            "validate.non.null",
            ConfigType.BOOLEAN,
            "Refuse incrementing and timestamp columns that may be null: such rows would never be read.",
            True,
            Importance.LOW,
            group=MODE,
        ),
        ConfigKey(
            "query",
            ConfigType.STRING,
            "A query that is read instead of tables. With modes other than bulk, conditions are put around it.",
            "",
            group=MODE,
        ),
        ConfigKey(
            "query.suffix",
            ConfigType.STRING,
            "Text that ends every statement, for example a limit.",
            "",
            Importance.LOW,
            group=MODE,
        ),
        ConfigKey(
            "numeric.mapping",
            ConfigType.STRING,
            "How NUMERIC columns appear. none: as Decimal. precision_only: integers, where there are no digits after "
            "the point. best_fit: integers, and doubles where 18 digits are enough. best_fit_eager_double: always "
            "doubles, where there are digits after the point.",
            "none",
            Importance.LOW,
            one_of(*(one.value for one in NumericMapping)),
            group=DATABASE,
        ),
        ConfigKey(
            "topic.prefix",
            ConfigType.STRING,
            "Before the name of the table, the name of its topic. With query, the whole name.",
            importance=Importance.HIGH,
            group=CONNECTOR,
        ),
        ConfigKey(
            "poll.interval.ms",
            ConfigType.INT,
            "The pause between two looks for new rows.",
            5000,
            Importance.HIGH,
            between(1),
            group=CONNECTOR,
        ),
        ConfigKey(
            "table.poll.interval.ms",
            ConfigType.LONG,
            "The pause between two looks for new tables.",
            60_000,
            Importance.LOW,
            between(1),
            group=CONNECTOR,
        ),
        ConfigKey(
            "batch.max.rows",
            ConfigType.INT,
            "The most rows of one batch.",
            _DEFAULT_BATCH_ROWS,
            Importance.LOW,
            between(1),
            group=CONNECTOR,
        ),
    ]
)


def problems(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Settings that do not go together. No connection is opened."""
    found: dict[str, list[str]] = {}
    mode = config["mode"]
    selections = [name for name in ("table.whitelist", "table.blacklist", "query") if config[name]]
    if len(selections) > 1:
        found.setdefault(selections[1], []).append(f"{selections[1]} cannot be used together with {selections[0]}")
    if config["query"] and (config["table.include.list"] or config["table.exclude.list"]):
        found.setdefault("query", []).append("query cannot be used together with lists of tables")
    if mode in (TIMESTAMP, BOTH) and not config["timestamp.column.name"]:
        found.setdefault("timestamp.column.name", []).append(f"mode {mode} needs timestamp.column.name")
    if mode in (INCREMENTING, BOTH) and config["query"] and not config["incrementing.column.name"]:
        found.setdefault("incrementing.column.name", []).append("a query has no automatic id; name the column")
    unknown = [kind for kind in config["table.types"] if kind.upper() not in ("TABLE", "VIEW")]
    if unknown:
        found.setdefault("table.types", []).append(f"unknown type {unknown[0]}; TABLE and VIEW are known")
    return found
