"""Frames of relations: from the raw records of a topic to the columns of a declaration, and back."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from moldau.sql.declarations import Declaration
from moldau.sql.relation_names import quoted
from moldau.sql.tables.key_formats import decoded_key, encoded_key
from moldau.sql.tables.record_columns import DELETED, record_names
from moldau.sql.tables.value_formats import BAD, encoded_value, parsed_value

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BAD_RECORDS: Final = "bad_records"
"""The metric that counts records that do not parse."""

_PARSED: Final = "_moldau_parsed"
_RAW: Final = "_moldau_raw"
MAX_MILLIS: Final = 1 << 53
"""A larger number is not a time in milliseconds (it would be after the year 287000)."""


def observation_name(declaration: Declaration) -> str:
    """The name of the observed metrics of a relation in a query; their field is BAD_RECORDS."""
    return f"{BAD_RECORDS} of {declaration.name}"


def decoded(raw: DataFrame, declaration: Declaration, *, changes: bool = False) -> DataFrame:
    """The columns of the declaration, then the record columns. `raw` has the columns of the source, with headers.

    Records that do not parse are counted as BAD_RECORDS in the observed metrics of the query. `changes`: also the
    column DELETED, true for tombstones.
    """
    from pyspark.sql import functions as f

    parsed = parsed_value(declaration, f.col("value"))
    frame = raw
    if parsed.struct is not None:
        frame = raw.withColumn(_PARSED, parsed.struct)
        bad = f.col("value").isNotNull() & (f.col(_PARSED).isNull() | f.col(f"{_PARSED}.{BAD}").isNotNull())
        frame = frame.observe(observation_name(declaration), f.count_if(bad).alias(BAD_RECORDS))
    columns = decoded_key(declaration, f.col("key"))
    for column in declaration.value_columns:
        columns[column.name] = parsed.single if parsed.struct is None else f.col(_PARSED).getField(column.name)
    named = [columns[column.name].alias(column.name) for column in declaration.columns]
    own = _record_columns(declaration, columns)
    names = record_names(columns)
    if declaration.text:
        selected = [*named, *(own[name].alias(names[name]) for name in own)]
    else:
        # Without a declaration a star shows everything: what identifies the record first, its raw value last.
        order = ("timestamp", "partition", "offset", "headers", "value") if named else tuple(own)[1:]
        selected = [own["key"].alias(names["key"]), *named, *(own[name].alias(names[name]) for name in order)]
    if changes:
        selected.append(f.col("value").isNull().alias(DELETED))
    return frame.select(*selected)


def raw_columns(declaration: Declaration, columns: Collection[str]) -> set[str]:
    """The columns of the source that these columns of the declaration's frame are made of. The value is always one:
    what does not parse is counted."""
    used = {name.lower() for name in columns}
    own = record_names(column.name for column in declaration.columns)
    raw = {"value"} | {name for name, shown in own.items() if shown in used}
    if any(column.name.lower() in used for column in declaration.key_columns) or DELETED in used:
        raw.add("key")
    if any(column.is_key and column.name == declaration.timestamp for column in declaration.columns):
        raw.add("key")
    return raw


def _record_columns(declaration: Declaration, columns: dict[str, Column]) -> dict[str, Column]:
    from pyspark.sql import functions as f

    return {
        "key": f.col("key").cast("string"),
        "value": f.col("value").cast("string"),
        "timestamp": _event_time(declaration, columns),
        "partition": f.col("partition"),
        "offset": f.col("offset"),
        "headers": f.col("headers"),
    }


def _event_time(declaration: Declaration, columns: dict[str, Column]) -> Column:
    from pyspark.sql import functions as f

    column = next((one for one in declaration.columns if one.name == declaration.timestamp), None)
    if column is None:
        return f.col("timestamp")
    value, kind = columns[column.name], column.type.lower()
    if kind in ("bigint", "long", "int", "integer"):
        return f.when(f.abs(value) < MAX_MILLIS, f.timestamp_millis(value))
    if kind == "string":
        pattern = declaration.options.get("timestamp_format")
        return value.try_cast("timestamp") if pattern is None else f.try_to_timestamp(value, f.lit(pattern))
    return value.try_cast("timestamp")


def latest_by_key(raw: DataFrame) -> DataFrame:
    """The last record of each key and partition, without keys whose last record is a tombstone."""
    from pyspark.sql import functions as f

    rest = [name for name in raw.columns if name not in ("key", "partition")]
    last = f.max_by(f.struct(*rest), "offset").alias(_RAW)
    grouped = raw.where(f.col("key").isNotNull()).groupBy("key", "partition").agg(last)
    return grouped.where(f.col(f"{_RAW}.value").isNotNull()).select("key", "partition", f"{_RAW}.*")


def encoded(frame: DataFrame, declaration: Declaration) -> DataFrame:
    """The columns that the sink writes: key, value, and timestamp if the declaration names the event time.

    Columns are found by name, in any case, and cast to their declared types; those that the frame lacks are null. A row
    whose column DELETED is true becomes a tombstone; a frame without this column has none.
    """
    from pyspark.sql import functions as f

    frame = _fitted(frame, declaration)
    value = encoded_value(declaration)
    if DELETED in frame.columns:
        value = f.when(f.coalesce(f.col(DELETED), f.lit(False)), f.lit(None)).otherwise(value)
    selected = [encoded_key(declaration).alias("key"), value.alias("value")]
    if declaration.timestamp is not None:
        columns = {column.name: f.col(quoted(column.name)) for column in declaration.columns}
        selected.append(_event_time(declaration, columns).alias("timestamp"))
    return frame.select(*selected)


def _fitted(frame: DataFrame, declaration: Declaration) -> DataFrame:
    """The frame with exactly the declared columns, and DELETED if it has it."""
    from pyspark.sql import functions as f

    by_lower = {name.lower(): name for name in frame.columns}
    fitted = []
    for column in declaration.columns:
        name = by_lower.get(column.name.lower())
        value = f.lit(None) if name is None else f.col(quoted(name))
        fitted.append(value.cast(column.type).alias(column.name))
    if DELETED in frame.columns:
        fitted.append(f.col(DELETED))
    return frame.select(*fitted)
