"""Conversion of the values of databases to the Arrow types of Connect schemas, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.connectors.databases.dialect import Column
from moldau.connect.errors import DataError
from moldau.connect.schemas import arrow_type

_ZERO_DATES: Final = ("0000-00-00", "0000-00-00 00:00:00")


def fitted(array: pa.Array, column: Column, zone: str) -> pa.Array:
    """A column as it came from the database, with the type of its schema. DataError names the column."""
    target = arrow_type(column.schema)
    if array.type.equals(target):
        return array
    try:
        return _cast(array, target, zone)
    except (pa.ArrowException, ValueError) as error:
        raise DataError(
            f"column {column.name} ({column.declared}) has a value that does not fit {target}: {error}. "
            "Convert it in a query (setting query), or choose another numeric.mapping"
        ) from None


def _cast(array: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_timestamp(target):
        return milliseconds(_moments(array, zone), target)
    if pa.types.is_time(target):
        if pa.types.is_string(array.type):
            array = pc.binary_join_element_wise("1970-01-01", array, " ").cast(pa.timestamp("us"))
        return array.cast(pa.time64("us")).cast(target, safe=False)
    if pa.types.is_date(target) and pa.types.is_string(array.type):
        return pc.utf8_slice_codeunits(array, 0, 10).cast(target)
    if pa.types.is_date(target) and pa.types.is_integer(array.type):
        return array.cast(pa.timestamp("ms")).cast(target, safe=False)
    return array.cast(target)


def _moments(array: pa.Array, zone: str) -> pa.Array:
    """Texts, numbers and timestamps without zone as points in time."""
    if pa.types.is_integer(array.type):
        return array.cast(pa.timestamp("ms", tz="UTC"))
    if pa.types.is_string(array.type):
        try:
            array = array.cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            return array.cast(pa.timestamp("us", tz="UTC"))
    if array.type.tz is None:
        return pc.assume_timezone(array, zone, ambiguous="earliest", nonexistent="latest")
    return array


def milliseconds(moments: pa.Array, target: pa.DataType) -> pa.Array:
    """Timestamps cut to milliseconds; before 1970 they are cut downwards, too."""
    if len(moments) and moments.null_count < len(moments) and moments.type.unit != "ms":
        least = pc.min(moments.cast(pa.int64())).as_py()
        if least < 0:
            moments = pc.floor_temporal(moments, unit="millisecond")
    return moments.cast(target, safe=False)


def columns_of_rows(rows: Sequence[tuple[Any, ...]], columns: Sequence[Column], zone: str) -> pa.RecordBatch:
    """Rows of a driver without Arrow as a record batch."""
    found = zip(*rows, strict=True) if rows else [()] * len(columns)
    arrays = [_column_of_values(values, column, zone) for values, column in zip(found, columns, strict=True)]
    return record_batch(arrays, columns)


def record_batch(arrays: Sequence[pa.Array], columns: Sequence[Column]) -> pa.RecordBatch:
    fields = [pa.field(one.name, arrow_type(one.schema), one.nullable) for one in columns]
    return pa.RecordBatch.from_arrays(list(arrays), schema=pa.schema(fields))


def _column_of_values(values: Sequence[Any], column: Column, zone: str) -> pa.Array:
    target = arrow_type(column.schema)
    try:
        if pa.types.is_temporal(target):
            return fitted(_temporal(values), column, zone)
        if pa.types.is_decimal(target):
            return fitted(pa.array([None if one is None else str(one) for one in values], pa.string()), column, zone)
        if pa.types.is_boolean(target):
            return pa.array([None if one is None else bool(one) for one in values], target)
        if pa.types.is_integer(target) or pa.types.is_floating(target):
            first = next((one for one in values if one is not None), None)
            if isinstance(first, str):  # a NUMERIC that numeric.mapping makes a number
                return pa.array(values, pa.string()).cast(target)
        return pa.array(values, target)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise DataError(
            f"column {column.name} is declared {column.declared or 'without a type'} but has another value: {error}. "
            "Convert it in a query (setting query)"
        ) from None


def _temporal(values: Sequence[Any]) -> pa.Array:
    """Texts, or numbers as SQLite may have them (milliseconds since 1970)."""
    if any(isinstance(one, int) for one in values):
        return pa.array(values, pa.int64())
    return pa.array([None if one in _ZERO_DATES else one for one in values], pa.string())
