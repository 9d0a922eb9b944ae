"""StringConverter and ByteArrayConverter: values as text, and bytes as they are."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.converters.base import TYPE_SETTINGS, Converter
from moldau.connect.converters.value_text import TO_STRING, text_of
from moldau.connect.errors import RowError
from moldau.connect.record_batch import ValueColumn
from moldau.connect.schemas import Schema, SchemaType

_STRING: Final = Schema(SchemaType.STRING, optional=True)
_BYTES: Final = Schema(SchemaType.BYTES, optional=True)

_JAVA_NAMES: Final = {"UTF8": "utf-8", "LATIN1": "iso-8859-1", "UTF-16": "utf-16"}


def _known_encoding(name: str, value: Any) -> str | None:
    try:
        codecs.lookup(_JAVA_NAMES.get(str(value).upper(), str(value)))
    except (LookupError, ValueError):
        return f"Invalid value {value} for configuration {name}: unknown encoding"
    return None


def all_rows(array: pa.Array, reason: str) -> dict[int, str]:
    """The reason for every row that has a value."""
    return {row: reason for row, valid in enumerate(array.is_valid().to_pylist()) if valid}


class StringConverter(Converter):
    """Strings. Values of other types are written as their texts in Java."""

    config_def = TYPE_SETTINGS + ConfigDef(
        [
            ConfigKey(
                "converter.encoding",
                ConfigType.STRING,
                "The name of the character set with which strings are read from bytes and written to bytes.",
                default="UTF-8",
                importance=Importance.HIGH,
                validator=_known_encoding,
                width="MEDIUM",
                display_name="Encoding",
            )
        ]
    )

    def __init__(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        super().__init__(config, is_key=is_key)
        name = str(self.config["converter.encoding"])
        self.encoding = codecs.lookup(_JAVA_NAMES.get(name.upper(), name)).name

    def to_batches(self, raw: pa.Array, topic: str) -> Iterator[ValueColumn]:
        return iter([ValueColumn(self._decoded(raw), _STRING)])

    def _decoded(self, raw: pa.Array) -> pa.Array:
        if self.encoding == "utf-8":
            try:
                return raw.cast(pa.string())
            except pa.ArrowInvalid:  # bytes that are not UTF-8 become U+FFFD, as in Java
                pass
        texts = [None if one is None else one.decode(self.encoding, "replace") for one in raw.to_pylist()]
        return pa.array(texts, pa.string())

    def from_column(self, column: ValueColumn, topics: pa.Array) -> pa.Array:
        texts = text_of(column.array, column.schema, TO_STRING)
        if self.encoding == "utf-8":
            return texts.cast(pa.binary())
        encoded = [None if one is None else one.encode(self.encoding, "replace") for one in texts.to_pylist()]
        return pa.array(encoded, pa.binary())


class ByteArrayConverter(Converter):
    """Bytes, unchanged."""

    def to_batches(self, raw: pa.Array, topic: str) -> Iterator[ValueColumn]:
        return iter([ValueColumn(raw.cast(pa.binary()), _BYTES)])

    def from_column(self, column: ValueColumn, topics: pa.Array) -> pa.Array:
        kind = column.array.type
        if pa.types.is_null(kind):
            return column.array.cast(pa.binary())
        if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)):
            reason = f"ByteArrayConverter writes bytes only, not {kind}; choose another converter"
            raise RowError(all_rows(column.array, reason), self.stage)
        return column.array.cast(pa.binary())
