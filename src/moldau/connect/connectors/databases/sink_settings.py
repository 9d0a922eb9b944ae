"""Settings of the database sink, with the names of Confluent's JDBC sink connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance, between, one_of
from moldau.connect.connectors.databases.connection_settings import CONNECTION
from moldau.connect.connectors.databases.dialect import InsertMode

WRITES: Final = "Writes"
MAPPING: Final = "Data Mapping"
DDL: Final = "DDL Support"
RETRIES: Final = "Retries"

PK_NONE: Final = "none"
PK_KAFKA: Final = "kafka"
PK_KEY: Final = "record_key"
PK_VALUE: Final = "record_value"

KAFKA_FIELDS: Final = ("__connect_topic", "__connect_partition", "__connect_offset")
OFFSETS_TABLE: Final = "moldau_connect_offsets"

SINK: Final = CONNECTION + ConfigDef(
    [
        ConfigKey(
            "insert.mode",
            ConfigType.STRING,
            "insert: new rows only. upsert: insert, or replace the row with the same key. update: existing rows only.",
            "insert",
            Importance.HIGH,
            one_of(*(one.value for one in InsertMode)),
            group=WRITES,
        ),
        ConfigKey(
            "batch.size",
            ConfigType.INT,
            "The most records of one transaction in the database.",
            3000,
            validator=between(1),
            group=WRITES,
        ),
        ConfigKey(
            "delete.enabled",
            ConfigType.BOOLEAN,
            "A record without value deletes the row of its key. Needs pk.mode=record_key.",
            False,
            group=WRITES,
        ),
        ConfigKey(
            "offsets.table.name",
            ConfigType.STRING,
            "The table in the database that keeps the offsets of what was written, in the same transaction as the "
            "rows: that makes the sink exactly once. Empty: none; records may then be written twice after a failure, "
            "which insert.mode=upsert makes harmless.",
            OFFSETS_TABLE,
            group=WRITES,
        ),
        ConfigKey(
            "table.name.format",
            ConfigType.STRING,
            "The name of the table, with ${topic} for the topic. A dot separates schema and name.",
            "${topic}",
            group=MAPPING,
        ),
        ConfigKey(
            "pk.mode",
            ConfigType.STRING,
            "The primary key. none; kafka: topic, partition and offset; record_key: the key or its fields; "
            "record_value: fields of the value.",
            PK_NONE,
            Importance.HIGH,
            one_of(PK_NONE, PK_KAFKA, PK_KEY, PK_VALUE),
            group=MAPPING,
        ),
        ConfigKey(
            "pk.fields",
            ConfigType.LIST,
            "The names of the key's columns. Empty: all fields of the key or value; for kafka "
            f"{', '.join(KAFKA_FIELDS)}.",
            [],
            group=MAPPING,
        ),
        ConfigKey(
            "fields.whitelist",
            ConfigType.LIST,
            "The fields of the value that are written. Empty: all.",
            [],
            group=MAPPING,
        ),
        ConfigKey(
            "auto.create",
            ConfigType.BOOLEAN,
            "Create a missing table from the schema of the records.",
            False,
            group=DDL,
        ),
        ConfigKey(
            "auto.evolve", ConfigType.BOOLEAN, "Add missing columns from the schema of the records.", False, group=DDL
        ),
        ConfigKey(
            "quote.sql.identifiers",
            ConfigType.STRING,
            "Names are always in quotes.",
            "ALWAYS",
            group=DDL,
            validator=lambda name, value: (
                None
                if str(value).upper() == "ALWAYS"
                else f"Invalid value {value} for configuration {name}: only ALWAYS"
            ),
        ),
        ConfigKey(
            "max.retries",
            ConfigType.INT,
            "How often a transaction that the database ended in favour of another one is repeated at once. After other "
            "errors the engine repeats the whole batch with growing pauses.",
            10,
            validator=between(0),
            group=RETRIES,
        ),
        ConfigKey(
            "retry.backoff.ms",
            ConfigType.INT,
            "The pause before such a repetition.",
            3000,
            validator=between(0),
            group=RETRIES,
        ),
    ]
)


def problems(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Settings that do not go together. No connection is opened."""
    found: dict[str, list[str]] = {}
    mode, key = config["insert.mode"], config["pk.mode"]
    if mode != InsertMode.INSERT.value and key == PK_NONE:
        found.setdefault("pk.mode", []).append(f"insert.mode={mode} needs a primary key: set pk.mode")
    if config["delete.enabled"] and key != PK_KEY:
        found.setdefault("delete.enabled", []).append("Deletes are only supported for pk.mode record_key")
    if key == PK_KAFKA and config["pk.fields"] and len(config["pk.fields"]) != len(KAFKA_FIELDS):
        found.setdefault("pk.fields", []).append("pk.mode=kafka needs three names: for topic, partition and offset")
    if "${topic}" not in config["table.name.format"] and not config["table.name.format"].strip():
        found.setdefault("table.name.format", []).append("table.name.format must name a table")
    return found
