"""JsonConverter: JSON with the schema in each message, with one schema from the settings, or without schemas.

With `schemas.enable` a message is an envelope, `{"schema": …, "payload": …}`. Adjacent rows with the same schema text
become one column; the text is parsed once. Without it, values are schemaless.

Differences from Kafka's JsonConverter: a null row is always written as a record without value (Kafka writes an envelope
with a null payload if there is a schema), and a record without value belongs to the column of its neighbours. For JSON
that is no envelope, or values of the wrong type, see json_columns.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from moldau.connect import json_columns, json_reference, json_schemas
from moldau.connect.config_def import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance, between
from moldau.connect.converters.base import TYPE_SETTINGS, Converter
from moldau.connect.errors import DataError, RowError
from moldau.connect.record_batch import ValueColumn
from moldau.connect.schemas import Schema


def _decimal_format(name: str, value: Any) -> str | None:
    if str(value).upper() in ("BASE64", "NUMERIC"):
        return None
    return f"Invalid value {value} for configuration {name}: String must be one of (case insensitive): BASE64, NUMERIC"


class JsonConverter(Converter):
    """JSON as Kafka Connect writes it."""

    config_def = TYPE_SETTINGS + ConfigDef(
        [
            ConfigKey(
                "schemas.enable",
                ConfigType.BOOLEAN,
                "Whether each message holds its schema beside its value.",
                default=True,
                importance=Importance.HIGH,
                group="Schemas",
                order=0,
                width="MEDIUM",
                display_name="Enable Schemas",
            ),
            ConfigKey(
                "schemas.cache.size",
                ConfigType.INT,
                "How many schemas the converter keeps in memory at most.",
                default=1000,
                importance=Importance.HIGH,
                validator=between(0),
                group="Schemas",
                order=1,
                width="MEDIUM",
                display_name="Schema Cache Size",
            ),
            ConfigKey(
                "schema.content",
                ConfigType.STRING,
                "A schema in JSON for all messages. The messages are then values without envelope.",
                default=None,
                importance=Importance.HIGH,
                group="Schemas",
                order=2,
                width="MEDIUM",
                display_name="Schema Content",
            ),
            ConfigKey(
                "decimal.format",
                ConfigType.STRING,
                "The format of decimals: BASE64 or NUMERIC. The values are case insensitive. Both are read.",
                default="BASE64",
                importance=Importance.LOW,
                validator=_decimal_format,
                group="Serialization",
                order=0,
                width="MEDIUM",
                display_name="Decimal Format",
            ),
            ConfigKey(
                "replace.null.with.default",
                ConfigType.BOOLEAN,
                "Whether a null value of a field that has a default value is replaced by it.",
                default=True,
                importance=Importance.LOW,
                group="Serialization",
                order=1,
                width="MEDIUM",
                display_name="Replace null with default",
            ),
        ]
    )

    def __init__(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        super().__init__(config, is_key=is_key)
        self.with_schemas: bool = self.config["schemas.enable"]
        self.numeric_decimals = str(self.config["decimal.format"]).upper() == "NUMERIC"
        self.replace_null: bool = self.config["replace.null.with.default"]
        self.given_schema = _given_schema(self.config["schema.content"]) if self.with_schemas else None
        cached = lru_cache(self.config["schemas.cache.size"])
        self._schema = cached(_schema_of_text)
        self._prefix = cached(self._new_prefix)

    @property
    def is_plain(self) -> bool:
        """Whether only `schemas.enable` decides how values are written."""
        return self.given_schema is None and not self.numeric_decimals and self.replace_null

    # -- reading -------------------------------------------------------------------------------------------------------

    def to_batches(self, raw: pa.Array, topic: str) -> Iterator[ValueColumn]:
        try:
            if not self.with_schemas:
                return iter([ValueColumn(one) for one in json_columns.decode(raw)])
            if self.given_schema is not None:
                found = json_columns.decode_as(raw, self.given_schema, replace_null=self.replace_null)
                return iter([ValueColumn(found, self.given_schema)])
            return iter(self._of_envelopes(raw))
        except RowError as error:
            raise RowError(error.reasons, self.stage) from None

    def _of_envelopes(self, raw: pa.Array) -> list[ValueColumn]:
        payloads, runs, no_envelopes = json_columns.split_envelopes(raw)
        columns: list[ValueColumn] = []
        reasons: dict[int, str] = {}
        ends = [first for first, _ in runs[1:]] + [len(raw)]
        for (first, text), end in zip(runs, ends, strict=False):  # without any run there is one end too many
            part = payloads.slice(first, end - first)
            try:
                columns += self._of_run(part, self._schema(text))
            except RowError as error:
                reasons |= {first + row: reason for row, reason in error.reasons.items()}
            except DataError as error:
                reasons |= {first + row: str(error) for row, one in enumerate(part.is_valid().to_pylist()) if one}
        reasons |= no_envelopes
        if reasons:
            raise RowError(reasons)
        return columns or [ValueColumn.nothing(len(raw))]

    def _of_run(self, payloads: pa.Array, schema: Schema | None) -> list[ValueColumn]:
        if schema is None:
            return [ValueColumn(one) for one in json_columns.decode(payloads)]
        return [ValueColumn(json_columns.decode_as(payloads, schema, replace_null=self.replace_null), schema)]

    # -- writing -------------------------------------------------------------------------------------------------------

    def from_column(self, column: ValueColumn, topics: pa.Array) -> pa.Array:
        prefix = self._prefix(column.schema) if self.with_schemas else b""
        try:
            return json_columns.encode(
                column.array,
                column.schema,
                numeric_decimals=self.numeric_decimals,
                replace_null=self.replace_null,
                prefix=prefix,
                suffix=b"}" if prefix else b"",
            )
        except RowError as error:
            raise RowError(error.reasons, self.stage) from None

    def _new_prefix(self, schema: Schema | None) -> bytes:
        """The text of an envelope before its payload."""
        found = None if schema is None else json_schemas.to_json(schema, numeric_decimals=self.numeric_decimals)
        return b'{"schema":' + json_reference.dumps(found).encode() + b',"payload":'


def _schema_of_text(text: bytes) -> Schema | None:
    return json_schemas.from_json(json_reference.parse(text, decimals=True))


def _given_schema(text: str | None) -> Schema | None:
    if not text:
        return None
    try:
        return json_schemas.from_json(json.loads(text))
    except (ValueError, DataError) as error:
        raise ConfigError(f"Invalid value for configuration schema.content: {error}") from error
