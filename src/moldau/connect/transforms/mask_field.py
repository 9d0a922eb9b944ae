"""MaskField: fields of keys or values replaced by the empty value of their type, or by a given one.

Without a schema, a field that an object does not have becomes null, as in Kafka. Bytes and structs cannot be masked,
and a replacement is for numbers and text only.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.transforms.base import PartTransform
from moldau.connect.transforms.objects import FieldColumn, fail, filled, objects
from moldau.connect.transforms.settings import REPLACE_NULL, REPLACE_NULL_KEY, empty_list_refused

_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _not_blank(name: str, value: Any) -> str | None:
    return f"Invalid value {value} for configuration {name}: String must be non-empty" if value == "" else None


class MaskField(PartTransform):
    """Hides the values of fields."""

    config_def = ConfigDef(
        [
            ConfigKey(
                "fields",
                ConfigType.LIST,
                "Names of the fields to mask.",
                importance=Importance.HIGH,
                validator=empty_list_refused,
            ),
            ConfigKey(
                "replacement",
                ConfigType.STRING,
                "Value for all masked fields, which must be numbers or text.",
                None,
                Importance.LOW,
                _not_blank,
            ),
            REPLACE_NULL_KEY,
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.names = list(dict.fromkeys(config["fields"]))
        self.replacement: str | None = config["replacement"]

    def change(self, column: ValueColumn, batch: ConnectBatch) -> ValueColumn:
        found = objects(column, "mask fields", nulls=False)
        if found.schema is None:
            for name in self.names:
                found = found.with_null(name)
        found = found.with_defaults(self.config[REPLACE_NULL])
        for name in self.names:
            if name in found.fields:
                found = found.with_field(name, self._masked(found.fields[name]))
        return found.column()

    def _masked(self, one: FieldColumn) -> FieldColumn:
        array = one.array
        valid = array.is_valid()
        if pa.types.is_null(array.type) or not pc.any(valid).as_py():
            return one
        value = self._empty(array, one) if self.replacement is None else self._replacement(array, self.replacement)
        if value is None:
            if self.replacement is None and one.schema is None and pa.types.is_struct(array.type):
                return replace(one, array=_empty_objects(array))
            what = "" if self.replacement is None else " with custom replacement"
            fail(valid, f"Cannot mask value of type: {array.type}{what}", len(array))
            return one
        if pa.types.is_nested(array.type):
            return replace(one, array=filled(array, valid, value))
        return replace(one, array=pc.if_else(valid, value, pa.scalar(None, array.type)))

    @staticmethod
    def _empty(array: pa.Array, one: FieldColumn) -> pa.Scalar | None:
        kind = array.type
        if pa.types.is_struct(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return None
        if pa.types.is_nested(kind):
            return pa.scalar([], kind)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return pa.scalar("", kind)
        if pa.types.is_timestamp(kind):
            return pa.scalar(_EPOCH if kind.tz else _EPOCH.replace(tzinfo=None), kind)
        if pa.types.is_date(kind):
            return pa.scalar(_EPOCH.date(), kind)
        if pa.types.is_time(kind):
            return pa.scalar(_EPOCH.time(), kind)
        return pa.scalar(Decimal(0) if pa.types.is_decimal(kind) else 0).cast(kind)

    @staticmethod
    def _replacement(array: pa.Array, text: str) -> pa.Scalar | None:
        kind = array.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return pa.scalar(text, kind)
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            return None
        if not _NUMBER.fullmatch(text):
            fail(array.is_valid(), f"Unable to convert {text} to number", len(array))
            return None
        number = Decimal(text)
        if pa.types.is_floating(kind):
            return pa.scalar(float(number), kind)
        if pa.types.is_decimal(kind):
            return pa.scalar(number).cast(kind)
        bits = kind.bit_width
        low = int(number) & (2**bits - 1)
        return pa.scalar(low - 2**bits if low >= 2 ** (bits - 1) else low, kind)


def _empty_objects(array: pa.StructArray) -> pa.StructArray:
    bits = array.is_valid().buffers()[1]
    return pa.StructArray.from_buffers(pa.struct([]), len(array), [bits], children=[])


class MaskFieldKey(MaskField):
    part = "key"


class MaskFieldValue(MaskField):
    part = "value"
