"""Avro values in DataFrames: keys and values of records as columns of their schema, and columns as records.

Schemas are in a registry. Python workers decode and encode whole Arrow columns with native code; no row becomes a
Python object. The columns of a query are fixed when it is planned: they are those of the given schema, or of the latest
version of the subject at that moment. Records of other versions, also of versions that are registered while the query
runs, are resolved to these columns by Avro's rules. A query that is started again takes the latest version again.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from moldau.schemas.avro_columns.registry_columns import AvroColumns
from moldau.schemas.errors import SchemaError
from moldau.schemas.registry_client import RegistryClient
from moldau.schemas.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

PERMISSIVE: Final = "PERMISSIVE"
FAILFAST: Final = "FAILFAST"
RECORD_COLUMNS: Final = ("topic", "partition", "headers", "timestamp")
"""Columns of the sink that `to_moldau` leaves as they are."""
MAX_KEPT: Final = 64
"""Decoders and encoders that a Python worker keeps from one task to the next."""

PickledClient = bytes
"""A registry's client with its settings: Python workers make clients of their own from it, and keep them."""


def decoded_frame(
    frame: DataFrame,
    registry: RegistryClient | str | Mapping[str, Any],
    schemas: Mapping[str, str | Schema | None],
    subjects: Mapping[str, str | None],
    mode: str,
) -> DataFrame:
    """The frame with its columns `key` and `value` decoded, as far as a schema or subject is given for them."""
    if mode not in (PERMISSIVE, FAILFAST):
        raise ValueError(f"mode: expected {FAILFAST} or {PERMISSIVE}, got {mode!r}")
    decoded: dict[str, Any] = {}
    with _client(registry) as client:
        pickled = pickle.dumps(client)
        for part in ("key", "value"):
            schema = _chosen(client, schemas.get(part), subjects.get(part))
            if schema is not None and part in frame.columns:
                kind = spark_type(AvroColumns(client, schema).type)
                decoded[part] = _decoder(pickled, schema, kind, mode == FAILFAST)(frame[part])
    return frame.withColumns(decoded)


def to_moldau(
    frame: DataFrame,
    topic: str,
    *,
    registry: RegistryClient | str | Mapping[str, Any],
    schema: str | Schema | None = None,
    key: str | None = None,
    key_schema: str | Schema | None = None,
) -> DataFrame:
    """Return a frame for the sink of `format("moldau")`: its columns as Avro values with the schema id before the data.

    The fields of the schema are taken from the columns with their names. Without a schema, the latest version of
    TOPIC-value is written; a given one is registered there. `key` names the column of keys; with `key_schema` they are
    Avro too, otherwise they are left as they are. Columns that are called topic, partition, headers or timestamp, and
    are not fields of the schema, are passed on to the sink.

        rows = to_moldau(totals, "totals", registry="http://127.0.0.1:8081", schema=text, key="customer")
        rows.writeStream.format("moldau").option("topic", "totals")...
    """
    from pyspark.sql import functions as f

    with _client(registry) as client:
        pickled = pickle.dumps(client)
        values = AvroColumns(client, schema)
        names = [one.name for one in values.written_type(topic)]
        if key_schema is not None:
            AvroColumns(client, key_schema, is_key=True).written_type(topic)
    columns: list[Column] = [frame[one] for one in RECORD_COLUMNS if one in frame.columns and one not in names]
    if key is not None:
        cells = frame[key]
        columns.append(
            (cells if key_schema is None else _encoder(pickled, key_schema, topic, True)(cells)).alias("key")
        )
    struct = f.struct(*(frame[one] for one in names if one in frame.columns))
    columns.append(_encoder(pickled, schema, topic, False)(struct).alias("value"))
    return frame.select(*columns)


def _chosen(client: RegistryClient, schema: str | Schema | None, subject: str | None) -> Schema | None:
    if schema is not None:
        return Schema(schema) if isinstance(schema, str) else schema
    return None if subject is None else client.latest(subject).schema


def _client(registry: RegistryClient | str | Mapping[str, Any]) -> RegistryClient:
    """A client for the planning of a query. It has the settings of the given one, and is closed afterwards."""
    made = registry if isinstance(registry, RegistryClient) else RegistryClient(registry)
    copy: RegistryClient = pickle.loads(pickle.dumps(made))
    return copy


# -- in Spark's Python workers -----------------------------------------------------------------------------------------


@lru_cache(maxsize=MAX_KEPT)
def _columns(pickled: PickledClient, schema: Schema | None, is_key: bool) -> AvroColumns:
    return AvroColumns(pickle.loads(pickled), schema, is_key=is_key)


def _decoder(pickled: PickledClient, schema: Schema, kind: DataType, fails: bool) -> Any:
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # only in its .py, not its .pyi

    def decode(values: pa.Array) -> pa.Array:
        array, bad = _columns(pickled, schema, False).decode(values)
        if bad and fails:
            raise SchemaError(f"{len(bad)} of {len(values)} values cannot be read: {next(iter(bad.values()))}")
        return array.cast(spark_arrow_type(array.type))

    decode.__annotations__ = {"values": pa.Array, "return": pa.Array}
    return arrow_udf(decode, kind)


def _encoder(pickled: PickledClient, schema: str | Schema | None, topic: str, is_key: bool) -> Any:
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # only in its .py, not its .pyi
    from pyspark.sql.types import BinaryType

    given = Schema(schema) if isinstance(schema, str) else schema

    def encode(values: pa.Array) -> pa.Array:
        found, bad = _columns(pickled, given, is_key).encode(values, topic)
        if bad:
            raise SchemaError(f"{len(bad)} of {len(values)} rows cannot be written: {next(iter(bad.values()))}")
        return found

    encode.__annotations__ = {"values": pa.Array, "return": pa.Array}
    return arrow_udf(encode, BinaryType())


# -- types -------------------------------------------------------------------------------------------------------------


def spark_type(kind: pa.DataType) -> DataType:
    """Spark's type of decoded values."""
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(_nominal(spark_arrow_type(kind)))


def _nominal(kind: pa.DataType) -> pa.DataType:
    """The same types as `from_arrow_type` names them: it expects other units than Spark's workers send."""
    if pa.types.is_time64(kind):
        return pa.time64("us")
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _nominal(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(_nominal(kind.key_type), _nominal(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_nominal(kind.value_type))
    return kind


def spark_arrow_type(kind: pa.DataType) -> pa.DataType:
    """The Arrow type in which Spark takes decoded values: microseconds, bytes of any length, all of it nullable."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, spark_arrow_type(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(spark_arrow_type(kind.key_type), spark_arrow_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(spark_arrow_type(kind.value_type))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=kind.tz)
    if pa.types.is_time(kind):
        return pa.time64("ns")
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_decimal256(kind):
        raise SchemaError(f"Spark has no decimals with {kind.precision} digits")
    return kind
