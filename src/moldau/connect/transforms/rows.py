"""Rows of a batch divided by a condition, and divided batches merged again.

A transform with a predicate changes some rows of a batch. Where the changed rows still have the schema of the others,
all rows become one batch again; two schemaless objects have one schema if the types of their common fields agree.
Otherwise the batch is cut wherever the schema changes from one row to the next, which keeps the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.errors import RowError
from moldau.connect.record_batch import ConnectBatch, HeaderColumn, ValueColumn


def runs(mask: pa.BooleanArray) -> Iterator[tuple[int, int, bool]]:
    """The runs of equal values: first row, number of rows, value."""
    values = mask.to_numpy(zero_copy_only=False)
    if not len(values):
        return
    edges = np.flatnonzero(np.diff(values)) + 1
    starts = [0, *edges.tolist()]
    for start, end in zip(starts, [*edges.tolist(), len(values)], strict=True):
        yield start, end - start, bool(values[start])


def each_run(
    batch: ConnectBatch, mask: pa.BooleanArray, function: Callable[[ConnectBatch, bool], list[ConnectBatch]]
) -> list[ConnectBatch]:
    """Call the function with every run of rows; row numbers of its errors are those of the whole batch."""
    found: list[ConnectBatch] = []
    for start, length, which in runs(mask):
        try:
            found.extend(function(batch.slice(start, length), which))
        except RowError as error:
            raise RowError({start + row: reason for row, reason in error.reasons.items()}, error.stage) from error
    return found


def interleaved(chosen: ConnectBatch, others: ConnectBatch, mask: pa.BooleanArray) -> list[ConnectBatch]:
    """The rows of two batches in the order of `mask`: true takes the next row of `chosen`, false of `others`."""
    merged = _merged(chosen, others, mask)
    if merged is not None:
        return [merged]
    batches = []
    taken = {True: 0, False: 0}
    for _, length, which in runs(mask):
        batches.append((chosen if which else others).slice(taken[which], length))
        taken[which] += length
    return batches


def _merged(chosen: ConnectBatch, others: ConnectBatch, mask: pa.BooleanArray) -> ConnectBatch | None:
    """One batch of both, or None if their schemas differ."""
    key = common_column(chosen.key, others.key)
    value = common_column(chosen.value, others.value)
    headers = _common_headers(chosen, others)
    if key is None or value is None or headers is None:
        return None
    if (chosen.origin is None) != (others.origin is None):
        return None
    values = mask.to_numpy(zero_copy_only=False)
    order = np.empty(len(values), np.int64)
    order[values] = np.arange(chosen.num_rows)
    order[~values] = chosen.num_rows + np.arange(others.num_rows)
    rows = pa.array(order)
    origin = None
    if chosen.origin is not None and others.origin is not None:
        origin = pa.Table.from_batches([chosen.origin, others.origin]).combine_chunks().to_batches()[0].take(rows)
    return ConnectBatch(
        pa.concat_arrays([chosen.topic, others.topic]).take(rows),
        replace(key, array=key.array.take(rows)),
        replace(value, array=value.array.take(rows)),
        pa.concat_arrays([chosen.timestamp, others.timestamp]).take(rows),
        pa.concat_arrays([chosen.partition, others.partition]).take(rows),
        tuple(
            HeaderColumn(
                one.name,
                replace(one.values, array=one.values.array.take(rows)),
                None if one.present is None else one.present.take(rows),
            )
            for one in headers
        ),
        origin,
    )


def common_column(first: ValueColumn, second: ValueColumn) -> ValueColumn | None:
    """Both columns in one, if they have one schema."""
    if first.schema != second.schema:
        return None
    kind = common_type(first.array.type, second.array.type)
    if kind is None:
        return None
    return ValueColumn(pa.concat_arrays([fitted(first.array, kind), fitted(second.array, kind)]), first.schema)


def fitted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array with this type. The same type is not cast: Arrow refuses null rows that have required children."""
    return array if array.type.equals(kind) else array.cast(kind)


def _common_headers(chosen: ConnectBatch, others: ConnectBatch) -> list[HeaderColumn] | None:
    """The headers of both, if one is the beginning of the other: a transform appends headers or removes some."""
    longer, shorter = chosen.headers, others.headers
    if len(longer) < len(shorter):
        longer, shorter = shorter, longer
    position, found = 0, []
    for one in longer:
        match = None
        if position < len(shorter) and shorter[position].name == one.name:
            match = shorter[position]
            position += 1
        mine, theirs = (one, match) if longer is chosen.headers else (match, one)
        column = _common_header(one.name, mine, chosen.num_rows, theirs, others.num_rows)
        if column is None:
            return None
        found.append(column)
    return found if position == len(shorter) else None


def _common_header(
    name: str, first: HeaderColumn | None, rows: int, second: HeaderColumn | None, more_rows: int
) -> HeaderColumn | None:
    present = pa.concat_arrays([_present(first, rows), _present(second, more_rows)])
    kind = (first or second).values  # type: ignore[union-attr]
    empty = ValueColumn(pa.nulls(0, kind.array.type), kind.schema)
    mine = first.values if first is not None else replace(empty, array=pa.nulls(rows, kind.array.type))
    theirs = second.values if second is not None else replace(empty, array=pa.nulls(more_rows, kind.array.type))
    column = common_column(mine, theirs)
    if column is None:
        return None
    return HeaderColumn(name, column, None if pc.all(present).as_py() else present)


def _present(header: HeaderColumn | None, rows: int) -> pa.BooleanArray:
    if header is None:
        return pa.repeat(pa.scalar(False), rows)
    return pa.repeat(pa.scalar(True), rows) if header.present is None else header.present


def common_type(first: pa.DataType, second: pa.DataType) -> pa.DataType | None:
    """The type that holds values of both types unchanged; None if there is none. Only null and objects are widened."""
    if first.equals(second):
        return first
    if pa.types.is_null(first) or pa.types.is_null(second):
        return second if pa.types.is_null(first) else first
    if pa.types.is_struct(first) and pa.types.is_struct(second):
        fields = {one.name: one.type for one in first}
        for one in second:
            kind = common_type(fields[one.name], one.type) if one.name in fields else one.type
            if kind is None:
                return None
            fields[one.name] = kind
        return pa.struct(list(fields.items()))
    if pa.types.is_list(first) and pa.types.is_list(second):
        element = common_type(first.value_type, second.value_type)
        return None if element is None else pa.list_(element)
    return None
