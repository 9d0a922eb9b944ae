"""Directories of a file sink's records: by Kafka partition, by fields, or by time.

A partitioner gives each row of a batch its directory below the directory of the topic. Values of fields are escaped as
Hive does it (`%2F` for `/`), so that no record can name a place outside of the target.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from moldau.client.data_types import TopicPartition
from moldau.connect.connectors.path_format import PathFormat
from moldau.connect.errors import DataError
from moldau.connect.record_batch import ConnectBatch

NULL_DIRECTORY: Final = "__HIVE_DEFAULT_PARTITION__"
"""What Hive and Spark write, and read as null."""
MAX_DIRECTORIES: Final = 10_000
"""Directories of one batch: more is a mistake in the settings, such as a partition by an id."""

_UNSAFE: Final = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{}\[\]^]")


class DirectoryChoice(Protocol):
    def directories(self, batch: ConnectBatch, source: TopicPartition) -> pa.Array:
        """The directory of each row, as strings; an empty one is the directory of the topic itself."""
        ...


def escaped(text: str) -> str:
    """A text as a part of a path."""
    return _UNSAFE.sub(lambda match: f"%{ord(match.group()):02X}", text)


@dataclass(frozen=True)
class TopicOnly:
    """All files of a topic in one directory."""

    def directories(self, batch: ConnectBatch, source: TopicPartition) -> pa.Array:
        return pa.repeat(pa.scalar(""), batch.num_rows)


@dataclass(frozen=True)
class ByKafkaPartition:
    """`partition=3`, the default of Confluent's sinks."""

    def directories(self, batch: ConnectBatch, source: TopicPartition) -> pa.Array:
        return pa.repeat(pa.scalar(f"partition={source.partition}"), batch.num_rows)


@dataclass(frozen=True)
class ByField:
    """`country=CZ/city=Praha`, by fields of the value; a name with dots is a field of a struct."""

    fields: Sequence[str]
    with_name: bool = True

    def directories(self, batch: ConnectBatch, source: TopicPartition) -> pa.Array:
        parts = [self._part(field, field_of(batch.value.array, field)) for field in self.fields]
        return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "/")

    def _part(self, field: str, column: pa.Array) -> pa.Array:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        if len(encoded.dictionary) > MAX_DIRECTORIES:
            raise DataError(
                f"field {field} has more than {MAX_DIRECTORIES} values in one batch: partition by another field"
            )
        prefix = f"{escaped(field)}=" if self.with_name else ""
        texts = [prefix + (NULL_DIRECTORY if one is None else _text(one)) for one in encoded.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(encoded.indices)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        raise DataError("a field of type struct, array or map cannot be a directory: name a field inside of it")
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return escaped(str(value)) or NULL_DIRECTORY


def field_of(column: pa.Array, path: str) -> pa.Array:
    """A field of a struct column, by its name with dots."""
    for name in path.split("."):
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            raise DataError(f"the record has no field {path}; it has the type {column.type}")
        column = pc.struct_field(column, name)
    return column


@dataclass(frozen=True)
class ByTime:
    """`year=2026/month=01`, by the time of the record, of one of its fields, or of writing."""

    pattern: str
    timezone: str
    duration_ms: int
    extractor: str
    field: str = "timestamp"

    def directories(self, batch: ConnectBatch, source: TopicPartition) -> pa.Array:
        path_format = PathFormat(self.pattern)
        times = self._times(batch)
        if times.null_count:
            raise DataError(
                f"record without a time at {source.topic}-{source.partition}: timestamp.extractor, {self.extractor}"
            )
        local = pc.local_timestamp(times.cast(pa.timestamp("ms", tz=self.timezone))).cast(pa.int64())
        step = max(path_format.step_ms, self.duration_ms)
        encoded = pc.dictionary_encode(floored(local, step))
        if len(encoded.dictionary) > MAX_DIRECTORIES:
            raise DataError(f"the times of one batch need more than {MAX_DIRECTORIES} directories of {self.pattern}")
        names = [path_format.directory(one) for one in encoded.dictionary.to_pylist()]
        return pa.array(names, pa.string()).take(encoded.indices)

    def _times(self, batch: ConnectBatch) -> pa.Array:
        """Milliseconds since 1970."""
        if self.extractor == "wallclock":
            return pa.repeat(pa.scalar(int(time.time() * 1000), pa.int64()), batch.num_rows)
        if self.extractor == "record":
            return batch.timestamp
        column = field_of(batch.value.array, self.field)
        if pa.types.is_integer(column.type):
            return column.cast(pa.int64())
        try:
            return column.cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        except pa.ArrowException:
            pass
        try:
            return column.cast(pa.timestamp("ms")).cast(pa.int64())
        except pa.ArrowException as error:
            raise DataError(f"field {self.field} is no time: {error}") from error


def floored(numbers: pa.Array, step: int) -> pa.Array:
    """Multiples of a step, not greater than the numbers, which may be negative."""
    divisor = pa.scalar(step, pa.int64())
    quotient = pc.divide(numbers, divisor)
    below = pc.less(numbers, pc.multiply(quotient, divisor))
    return pc.multiply(pc.subtract(quotient, below.cast(pa.int64())), divisor)
