"""Columns of the sink: maps the columns of a DataFrame to the parts of a record, and checks their types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from moldau.client.errors import ConfigurationError

VALUE: Final = "value"
TOPIC: Final = "topic"


class Columns(NamedTuple):
    """The names of the DataFrame's columns for each part of a record. The option `topic` overrides a column `topic`."""

    key: str | None
    topic: str | None
    partition: str | None
    headers: str | None
    timestamp: str | None


def _is(*kinds: type[DataType]) -> Callable[[DataType], bool]:
    return lambda data_type: isinstance(data_type, kinds)


def _is_headers(data_type: DataType) -> bool:
    """`array<struct<key: string, value: binary>>`, the type that the source returns with `includeHeaders`."""
    if not isinstance(data_type, ArrayType) or not isinstance(data_type.elementType, StructType):
        return False
    fields = [(field.name.lower(), type(field.dataType)) for field in data_type.elementType.fields]
    return fields == [("key", StringType), ("value", BinaryType)]


_ALLOWED: Final[dict[str, tuple[str, Callable[[DataType], bool]]]] = {
    "key": ("string or binary", _is(StringType, BinaryType)),
    VALUE: ("string or binary", _is(StringType, BinaryType)),
    TOPIC: ("string", _is(StringType)),
    "partition": ("int", _is(IntegerType)),
    "headers": ("array<struct<key: string, value: binary>>", _is_headers),
    "timestamp": ("timestamp", _is(TimestampType)),
}


def check(schema: StructType, topic: str | None) -> Columns:
    """The columns to write. `topic` is the option, which overrides a column with that name."""
    found: dict[str, str] = {}
    for field in schema.fields:
        name = field.name.lower()
        if name not in _ALLOWED:
            raise ConfigurationError(
                f"column {field.name!r} cannot be written to a topic; the columns are {', '.join(_ALLOWED)}. Select "
                "those, for example with selectExpr('CAST(id AS STRING) AS key', 'to_json(struct(*)) AS value')"
            )
        if name in found:
            raise ConfigurationError(f"columns {found[name]!r} and {field.name!r} are both the {name} of a record")
        types, right = _ALLOWED[name]
        if not right(field.dataType):
            raise ConfigurationError(
                f"column {field.name!r} has the type {field.dataType.simpleString()}; CAST it to {types}"
            )
        found[name] = field.name
    if VALUE not in found:
        raise ConfigurationError(
            f"there is no column {VALUE!r} to write; the columns are {', '.join(schema.names) or 'none'}"
        )
    if topic is None and TOPIC not in found:
        raise ConfigurationError("no topic to write to: set the option topic, or add a column topic")
    return Columns(
        key=found.get("key"),
        topic=None if topic is not None else found[TOPIC],
        partition=found.get("partition"),
        headers=found.get("headers"),
        timestamp=found.get("timestamp"),
    )
