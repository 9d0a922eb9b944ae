"""Rows of the source: the schema, and the conversion of the client's Arrow batches to Spark's."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from moldau.client.errors import ConfigurationError

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

COLUMNS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", ArrayType(_HEADER)),
    ]
)

MICROSECONDS = pa.timestamp("us", tz="UTC")
CACHED_CONSTANTS = 8


def row_schema(*, headers: bool) -> StructType:
    """The columns of Spark's Kafka connector."""
    return StructType(COLUMNS.fields if headers else COLUMNS.fields[:-1])


def check_schema(schema: StructType) -> None:
    """Raise if a user's schema does more than leave out or reorder columns."""
    known = {field.name: field.dataType for field in COLUMNS.fields}
    for column in schema.fields:
        if known.get(column.name) != column.dataType:
            wanted = f"{column.name} {column.dataType.simpleString().upper()}"
            raise ConfigurationError(
                f"the schema asks for {wanted!r}, but the rows of a topic are "
                f"{', '.join(f'{name} {kind.simpleString().upper()}' for name, kind in known.items())}; select some "
                "of these columns, and cast or decode them afterwards"
            )


class RowMaker:
    """Converts the consumer's batches to one schema, without processing single rows."""

    def __init__(self, schema: StructType) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._names = schema.fieldNames()

    @property
    def headers(self) -> bool:
        return "headers" in self._names

    def make(self, batch: pa.RecordBatch, topic: str, partition: int) -> pa.RecordBatch:
        """Convert a batch; all its rows belong to this partition."""
        arrays = [self._column(name, batch, topic, partition) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, batch: pa.RecordBatch, topic: str, partition: int) -> pa.Array:
        match name:
            case "topic":
                return repeated(topic, batch.num_rows)
            case "partition":
                return repeated(partition, batch.num_rows)
            case "timestamp":
                return batch.column("timestamp").cast(MICROSECONDS)
            case "timestampType":
                return batch.column("timestamp_type")
            case "headers":
                return _headers(batch.column("headers"), self._schema.field("headers").type)
            case _:
                return batch.column(name)


def repeated(value: str | int, rows: int) -> pa.Array:
    """A column with one constant value: a slice of a longer cached array, because the next batch needs the same
    value."""
    return _constant(value, 1 << (rows - 1).bit_length() if rows else 1).slice(0, rows)


@lru_cache(maxsize=CACHED_CONSTANTS)
def _constant(value: str | int, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string() if isinstance(value, str) else pa.int32()), rows)


def _headers(column: Any, wanted: pa.DataType) -> pa.Array:
    """A record without headers gets null, as in Spark's Kafka connector. Inner fields get the names that Spark
    expects."""
    if column.offset or len(column.offsets) != len(column) + 1:
        column = pa.concat_arrays([column])
    structs = pa.StructArray.from_arrays(
        [column.values.field(0), column.values.field(1)], fields=list(wanted.value_type)
    )
    empty = pc.equal(pc.list_value_length(column), 0)
    return pa.ListArray.from_arrays(column.offsets, structs, type=wanted, mask=empty)
