"""DataFrame helper that decodes the bytes of records into columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from moldau.schemas.registry_client import RegistryClient


def from_moldau(
    frame: DataFrame,
    schema: DataType | str | None = None,
    *,
    key: DataType | str | None = None,
    options: Mapping[str, str] | None = None,
    registry: RegistryClient | str | Mapping[str, Any] | None = None,
    subject: str | None = None,
    key_subject: str | None = None,
) -> DataFrame:
    """Return the frame with `key` and `value` decoded, and all other columns unchanged.

    Without a schema they become strings. With one (a StructType, or DDL such as "id LONG, amount DOUBLE") JSON becomes
    a struct, and `select("value.*")` turns its fields into columns. A value that is not such JSON becomes null, unless
    `options={"mode": "FAILFAST"}`. The options are those of Spark's `from_json`.

        orders = from_moldau(spark.readStream.format("moldau")...load(), "id LONG, amount DOUBLE")
        orders.select("timestamp", "value.*")

    With a registry they are Avro: `schema` and `key` are then Avro schemas, or `subject` and `key_subject` name
    subjects whose latest versions are taken. The columns do not change while a query runs; records of other versions
    are resolved to them. A value that cannot be read ends the query, unless `options={"mode": "PERMISSIVE"}`: then it
    is null. A column without schema and subject stays as it is.

        orders = from_moldau(frame, registry="http://127.0.0.1:8081", subject="orders-value")
    """
    if registry is not None:
        from moldau.spark.avro_frames import FAILFAST, decoded_frame

        schemas: dict[str, Any] = {"key": key, "value": schema}
        subjects = {"key": key_subject, "value": subject}
        return decoded_frame(frame, registry, schemas, subjects, dict(options or {}).get("mode", FAILFAST))
    decoded = {}
    for name, wanted in (("key", key), ("value", schema)):
        if name in frame.columns:
            decoded[name] = _decoded(name, wanted, options)
    return frame.withColumns(decoded)


def _decoded(name: str, schema: DataType | str | None, options: Mapping[str, str] | None) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    text = f.col(name).cast("string")
    if schema is None:
        return text
    parsed_as = schema if isinstance(schema, StructType | str) else str(schema.simpleString())
    return f.from_json(text, parsed_as, dict(options or {}))
