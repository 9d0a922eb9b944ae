"""TimestampConverter: times of keys or values between Unix numbers, text, Date, Time and Timestamp.

All in UTC. Text follows a pattern of Java's SimpleDateFormat (`date_patterns.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.config_def import NO_DEFAULT, ConfigDef, ConfigError, ConfigKey, ConfigType, Importance, one_of
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.schemas import DATE, TIME, TIMESTAMP, Schema, SchemaType
from moldau.connect.transforms.base import PartTransform
from moldau.connect.transforms.date_patterns import DAY_MS, DatePattern, floored
from moldau.connect.transforms.objects import (
    FieldColumn,
    ObjectColumn,
    default_scalar,
    fail,
    is_object,
    objects,
)
from moldau.connect.transforms.settings import REPLACE_NULL, REPLACE_NULL_KEY, text

_PURPOSE: Final = "converting timestamp formats"
_INT64: Final = np.iinfo(np.int64)
_LAST_DAY: Final = 2**31 - 1
_TARGETS: Final = {
    "string": Schema(SchemaType.STRING),
    "unix": Schema(SchemaType.INT64),
    "Date": Schema(SchemaType.INT32, name=DATE, version=1),
    "Time": Schema(SchemaType.INT32, name=TIME, version=1),
    "Timestamp": Schema(SchemaType.INT64, name=TIMESTAMP, version=1),
}
_PRECISIONS: Final = {"nanoseconds": 1_000_000, "microseconds": 1000, "milliseconds": 1, "seconds": -1000}
"""Units per millisecond; negative: milliseconds per unit."""


def _date_pattern(name: str, value: Any) -> str | None:
    if not value.strip():
        return None
    try:
        DatePattern(value)
    except ConfigError as error:
        return f"Invalid value {value} for configuration {name}: {error}"
    return None


class TimestampConverter(PartTransform):
    """Converts a field, or the whole key or value, to another form of time."""

    config_def = ConfigDef(
        [
            text("field", "Field with the time; empty: the whole key or value.", "", Importance.HIGH),
            ConfigKey(
                "target.type",
                ConfigType.STRING,
                "The wanted form: string, unix, Date, Time or Timestamp.",
                NO_DEFAULT,
                Importance.HIGH,
                one_of(*_TARGETS),
                recommended=tuple(_TARGETS),
            ),
            ConfigKey(
                "format",
                ConfigType.STRING,
                "Pattern of Java's SimpleDateFormat, for text that is read or written.",
                "",
                validator=_date_pattern,
            ),
            ConfigKey(
                "unix.precision",
                ConfigType.STRING,
                "Unit of Unix numbers that are read or written. Parts of a millisecond are lost.",
                "milliseconds",
                Importance.LOW,
                one_of(*_PRECISIONS),
                recommended=tuple(_PRECISIONS),
            ),
            REPLACE_NULL_KEY,
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.field: str = config["field"]
        self.target: str = config["target.type"]
        self.factor = _PRECISIONS[config["unix.precision"]]
        self.pattern = DatePattern(config["format"]) if config["format"].strip() else None
        if self.target == "string" and self.pattern is None:
            raise ConfigError("TimestampConverter requires format option to be specified when using string timestamps")

    def change(self, column: ValueColumn, batch: ConnectBatch) -> ValueColumn:
        if column.schema is None:
            return self._without_schema(column)
        if not self.field:
            schema = replace(_TARGETS[self.target], optional=column.schema.optional)
            return ValueColumn(self._converted(column.array, column.schema), schema)
        if not is_object(column):
            fail(None, f"Only Struct objects supported for [{_PURPOSE}]", len(column))
        return self._with_schema(objects(column, _PURPOSE, nulls=True)).column()

    def _with_schema(self, found: ObjectColumn) -> ObjectColumn:
        assert found.schema is not None
        filled = found.with_defaults(self.config[REPLACE_NULL])
        schema = replace(found.schema, default=None)
        one = filled.fields.get(self.field)
        if one is not None and one.schema is not None:
            target = replace(_TARGETS[self.target], optional=one.schema.optional)
            filled = filled.with_field(
                self.field, FieldColumn(self._converted(one.array, one.schema, found.valid), target)
            )
        if found.schema.default is not None:
            default = pa.repeat(default_scalar(found.schema), 1)
            bare = ObjectColumn.of(ValueColumn(default, replace(found.schema, default=None)))
            schema = replace(schema, default=self._with_schema(bare).column().array[0].as_py())
        return replace(filled, schema=schema)

    def _without_schema(self, column: ValueColumn) -> ValueColumn:
        if not self.field:
            return ValueColumn(self._converted(column.array, None))
        found = objects(column, _PURPOSE, nulls=True)
        if not is_object(column):
            return column
        found = found.with_null(self.field)
        one = found.fields[self.field]
        return found.with_field(self.field, replace(one, array=self._converted(one.array, None))).column()

    def _converted(self, array: pa.Array, schema: Schema | None, rows: pa.BooleanArray | None = None) -> pa.Array:
        """`rows`: those that a schema of a wrong type is an error for, also with null; None: all."""
        times = self._milliseconds(array, schema, rows)
        if self.target == "string":
            assert self.pattern is not None
            return self.pattern.format(times)
        if self.target == "unix":
            return _scaled(times, self.factor)
        if self.target == "Timestamp":
            return times.cast(pa.timestamp("ms", tz="UTC"))
        days = floored(times, DAY_MS)
        if self.target == "Date":
            far = pc.fill_null(pc.greater(pc.abs(days), _LAST_DAY), False)
            fail(
                far, "TimestampConverter cannot make a Date of a time that is more than 2^31 days from 1970", len(array)
            )
            return days.cast(pa.int32()).cast(pa.date32())
        return pc.subtract(times, pc.multiply(days, DAY_MS)).cast(pa.int32()).cast(pa.time32("ms"))

    def _milliseconds(self, array: pa.Array, schema: Schema | None, rows: pa.BooleanArray | None) -> pa.Array:
        """Times in milliseconds since 1970; other types raise RowError."""
        kind = array.type
        if pa.types.is_null(kind):
            return array.cast(pa.int64())
        if pa.types.is_timestamp(kind):
            return array.cast(pa.timestamp("ms", tz=kind.tz), safe=False).cast(pa.int64())
        if pa.types.is_date(kind):
            return array.cast(pa.timestamp("ms")).cast(pa.int64())
        if pa.types.is_time32(kind):
            return array.cast(pa.time32("ms")).cast(pa.int32()).cast(pa.int64())
        if pa.types.is_int64(kind):
            return _scaled(array, -self.factor if abs(self.factor) > 1 else 1)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return self._parsed(array.cast(pa.string()))
        name = schema.type.value if schema is not None else str(kind)
        bad = rows if schema is not None else array.is_valid()
        fail(bad, f"TimestampConverter does not support {name} as timestamps", len(array))
        return pa.nulls(len(array), pa.int64())

    def _parsed(self, texts: pa.Array) -> pa.Array:
        if self.pattern is None:
            fail(texts.is_valid(), "TimestampConverter needs the setting format to read text", len(texts))
            return pa.nulls(len(texts), pa.int64())
        times, bad = self.pattern.parse(texts)
        fail(bad, f"Could not parse timestamp: value does not match pattern ({self.pattern.pattern})", len(texts))
        return times


def _scaled(times: pa.Array, factor: int) -> pa.Array:
    """Times multiplied by a factor, at the bounds of 64 bits where they are too large; negative: divided."""
    if factor == 1:
        return times
    if factor < 0:
        return pc.divide(times, -factor)
    highest, lowest = _INT64.max // factor, -(_INT64.max // factor)
    scaled = pc.multiply(times, factor)
    scaled = pc.if_else(pc.greater(times, highest), pa.scalar(_INT64.max, pa.int64()), scaled)
    return pc.if_else(pc.less(times, lowest), pa.scalar(_INT64.min, pa.int64()), scaled)


class TimestampConverterKey(TimestampConverter):
    part = "key"


class TimestampConverterValue(TimestampConverter):
    part = "value"
