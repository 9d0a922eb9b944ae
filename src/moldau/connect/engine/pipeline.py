"""Conversion and transformation of records, from topic bytes to batches for a sink, and for a source back.

Both directions work on columns. Bad rows are found and handled by `tolerance.py`, stage by stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect import json_columns
from moldau.connect.converters import converter, header_converter
from moldau.connect.converters.base import Converter
from moldau.connect.converters.json_converter import JsonConverter
from moldau.connect.engine.pipeline_spec import PipelineSpec
from moldau.connect.engine.run_settings import ConverterSpecs
from moldau.connect.engine.tolerance import ErrorHandler, in_stage, qualified_name
from moldau.connect.errors import RowError, Stage
from moldau.connect.record_batch import ConnectBatch, HeaderColumn, ValueColumn
from moldau.connect.transforms import Chain, chain

HEADERS_TYPE: Final = pa.list_(
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
)
MILLISECONDS: Final = pa.timestamp("ms", tz="UTC")
RECORD_COLUMNS: Final = ("key", "value", "topic", "partition", "headers", "timestamp")
MAX_KEPT: Final = 8
"""Pipelines that a Python worker of Spark keeps between tasks: creating converters and transforms costs more than a
small batch."""


class RecordPipeline:
    """The converters and transforms of one connector."""

    def __init__(self, spec: PipelineSpec) -> None:
        self.spec = spec
        names = spec.converters
        self._key = converter(names.key.class_name, {**names.key.config}, is_key=True)
        self._value = converter(names.value.class_name, {**names.value.config}, is_key=False)
        self._header = header_converter(names.header.class_name, {**names.header.config})
        self._chain: Chain = chain(spec.config)

    @property
    def json_only(self) -> bool | None:
        """Whether rows are only written as JSON: with schemas (True) or without (False). None: more is done to them."""
        key, value = self._key, self._value
        if self._chain.steps or not (isinstance(key, JsonConverter) and isinstance(value, JsonConverter)):
            return None
        same = key.is_plain and value.is_plain and key.with_schemas is value.with_schemas
        return value.with_schemas if same else None

    # -- topic to sink ------------------------------------------------------------------------------------------------

    def from_topic(self, raw: pa.RecordBatch, errors: ErrorHandler) -> Iterator[ConnectBatch]:
        """The batches for a sink, of records of one partition with the columns of Spark's source."""
        for batch in errors.apply(self._decoded, raw, Stage.VALUE_CONVERTER, self.spec.converters.value.class_name):
            yield from self.transformed(batch, errors)

    def _decoded(self, raw: pa.RecordBatch) -> list[ConnectBatch]:
        topic = raw.column("topic")[0].as_py()
        names = self.spec.converters
        keys = in_stage(
            Stage.KEY_CONVERTER,
            names.key.class_name,
            lambda: list(self._key.to_batches(raw.column("key"), topic)),
        )
        values = in_stage(
            Stage.VALUE_CONVERTER,
            names.value.class_name,
            lambda: list(self._value.to_batches(raw.column("value"), topic)),
        )
        headers = self._decoded_headers(raw, topic)
        pieces = [_Pieces.adjacent(keys), _Pieces.adjacent(values), *(pieces for _, pieces, _ in headers)]
        cuts = sorted({cut for piece in pieces for cut in piece.cuts} | {0, raw.num_rows})
        timestamps = raw.column("timestamp").cast(MILLISECONDS).cast(pa.int64())
        found = []
        for first, last in pairwise(cuts):
            rows = last - first
            found.append(
                ConnectBatch(
                    raw.column("topic").slice(first, rows),
                    pieces[0].between(first, last),
                    pieces[1].between(first, last),
                    timestamps.slice(first, rows),
                    raw.column("partition").slice(first, rows),
                    tuple(_header_between(name, piece, present, first, last) for name, piece, present in headers),
                    raw.slice(first, rows),
                )
            )
        return found

    def _decoded_headers(self, raw: pa.RecordBatch, topic: str) -> list[tuple[str, _Pieces, Any]]:
        """Each header name, and each further header of the same name in a record, with its values and its rows."""
        found = []
        name_of = self.spec.converters.header.class_name
        for name, rows, values in header_columns(raw.column("headers")):
            columns = in_stage(
                Stage.HEADER_CONVERTER,
                name_of,
                lambda name=name, rows=rows, values=values: self._header_values(name, rows, values, topic),  # type: ignore[misc]
            )
            present = np.zeros(raw.num_rows, dtype=bool)
            present[rows] = True
            found.append((name, _Pieces.scattered(list(columns), rows, raw.num_rows), present))
        return found

    def _header_values(self, name: str, rows: Any, values: pa.Array, topic: str) -> list[ValueColumn]:
        """The values of one header. The converter counts the values; the rows of the batch are among them."""
        try:
            return list(self._header.to_batches(values, topic, name))
        except RowError as error:
            raise RowError({int(rows[at]): reason for at, reason in error.reasons.items()}) from None

    # -- both ---------------------------------------------------------------------------------------------------------

    def transformed(self, batch: ConnectBatch, errors: ErrorHandler) -> list[ConnectBatch]:
        """The batch after all transforms."""
        batches = _of_one_type(batch) if self._chain.steps else [batch]
        for step in self._chain.steps:
            name = qualified_name(type(step.transform))
            batches = [
                changed
                for one in batches
                for changed in errors.apply(step.apply, one, Stage.TRANSFORMATION, name)
                if changed.num_rows
            ]
        return batches

    # -- source to topic ----------------------------------------------------------------------------------------------

    def to_topic(self, batch: ConnectBatch, errors: ErrorHandler) -> Iterator[pa.RecordBatch]:
        """The records of a source's batch, with the columns that the producer takes."""
        class_name = self.spec.converters.value.class_name
        for one in self.transformed(batch, errors):
            yield from errors.apply(self._encoded, one, Stage.VALUE_CONVERTER, class_name)

    def _encoded(self, batch: ConnectBatch) -> list[pa.RecordBatch]:
        names = self.spec.converters
        (key,) = in_stage(
            Stage.KEY_CONVERTER, names.key.class_name, lambda: [_bytes(self._key, batch.key, batch.topic)]
        )
        (value,) = in_stage(
            Stage.VALUE_CONVERTER, names.value.class_name, lambda: [_bytes(self._value, batch.value, batch.topic)]
        )
        (headers,) = in_stage(Stage.HEADER_CONVERTER, names.header.class_name, lambda: [self._encoded_headers(batch)])
        timestamp = batch.timestamp.cast(pa.int64()).cast(MILLISECONDS)
        columns = [key, value, batch.topic.cast(pa.string()), batch.partition.cast(pa.int32()), headers, timestamp]
        return [pa.RecordBatch.from_arrays(columns, names=list(RECORD_COLUMNS))]

    def _encoded_headers(self, batch: ConnectBatch) -> pa.Array:
        if not batch.headers:
            return pa.nulls(batch.num_rows, HEADERS_TYPE)
        columns = []
        for one in batch.headers:
            values = self._header.from_column(one.values, batch.topic, one.name)
            columns.append((one.name, values.cast(pa.binary()), one.present))
        return header_lists(columns, batch.num_rows)


def _bytes(by: Converter, column: ValueColumn, topics: pa.Array) -> pa.Array:
    return column.array if column.encoded else by.from_column(column, topics)


def _of_one_type(batch: ConnectBatch) -> list[ConnectBatch]:
    """Batches in which every schemaless field has an Arrow type that transforms can work on."""
    columns = [
        json_columns.without_json_text(one.array) if one.schema is None else [one.array]
        for one in (batch.key, batch.value)
    ]
    if all(len(runs) == 1 for runs in columns):
        return [batch]
    keys, values = (_Pieces.adjacent([ValueColumn(run) for run in runs]) for runs in columns)
    cuts = sorted({*keys.cuts, *values.cuts, batch.num_rows})
    return [
        replace(
            batch.slice(first, last - first),
            key=keys.between(first, last) if len(columns[0]) > 1 else batch.key.slice(first, last - first),
            value=values.between(first, last) if len(columns[1]) > 1 else batch.value.slice(first, last - first),
        )
        for first, last in pairwise(cuts)
    ]


_kept: dict[tuple[str, str], RecordPipeline] = {}


def pipeline_for(spec: PipelineSpec) -> RecordPipeline:
    """The pipeline of a connector, kept from the last task of this worker if its configuration is the same."""
    key = (spec.connector, repr((sorted(spec.config.items(), key=str), _texts(spec.converters))))
    found = _kept.pop(key, None)
    if found is None:
        while len(_kept) >= MAX_KEPT:
            _kept.pop(next(iter(_kept)))
        found = RecordPipeline(spec)
    _kept[key] = found
    return found


def _texts(specs: ConverterSpecs) -> list[Any]:
    return [(one.class_name, sorted(one.config.items(), key=str)) for one in (specs.key, specs.value, specs.header)]


# -- columns in pieces ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pieces:
    """A column whose schema changes at some rows."""

    starts: list[int]
    columns: list[ValueColumn]
    rows: int

    @property
    def cuts(self) -> list[int]:
        return self.starts

    @classmethod
    def adjacent(cls, columns: Any) -> _Pieces:
        starts, rows = [], 0
        kept = [column for column in columns if len(column)]
        for column in kept:
            starts.append(rows)
            rows += len(column)
        return cls(starts, kept, rows)

    @classmethod
    def scattered(cls, columns: list[ValueColumn], rows: Any, total: int) -> _Pieces:
        """A column that has values only in some rows, in pieces over those rows; null elsewhere."""
        starts, spread, taken = [], [], 0
        kept = [column for column in columns if len(column)]
        for index, column in enumerate(kept):
            own = rows[taken : taken + len(column)]
            taken += len(column)
            first = 0 if index == 0 else int(own[0])
            last = total if index == len(kept) - 1 else int(rows[taken])
            places = np.full(last - first, -1, dtype=np.int64)
            places[own - first] = np.arange(len(column))
            indexes = pa.array(places, mask=places < 0)
            starts.append(first)
            spread.append(ValueColumn(column.array.take(indexes), column.schema))
        return cls(starts, spread, total)

    def between(self, first: int, last: int) -> ValueColumn:
        """The rows of one piece."""
        index = int(np.searchsorted(self.starts, first, side="right")) - 1
        return self.columns[index].slice(first - self.starts[index], last - first)


def _header_between(name: str, pieces: _Pieces, present: Any, first: int, last: int) -> HeaderColumn:
    own = present[first:last]
    return HeaderColumn(name, pieces.between(first, last), None if own.all() else pa.array(own))


# -- headers ----------------------------------------------------------------------------------------------------------


def header_columns(headers: pa.Array) -> list[tuple[str, Any, pa.Array]]:
    """Headers by name: for each name, and each further header of that name in a record, the rows and their values."""
    if headers.null_count == len(headers) or not len(headers):
        return []
    lists = cast(Any, headers)
    rows = pc.list_parent_indices(lists).to_numpy()
    flat = pc.list_flatten(lists)
    names = np.array(flat.field(0).to_pylist(), dtype=object)
    values = flat.field(1)
    seen: dict[tuple[int, str], int] = {}
    places: dict[tuple[str, int], list[int]] = {}
    for index, (row, name) in enumerate(zip(rows.tolist(), names.tolist(), strict=True)):
        again = seen.get((row, name), 0)
        seen[row, name] = again + 1
        places.setdefault((name, again), []).append(index)
    return [
        (name, rows[np.array(found)], values.take(pa.array(found)).cast(pa.binary()))
        for (name, _), found in places.items()
    ]


def header_lists(columns: list[tuple[str, pa.Array, Any]], rows: int) -> pa.Array:
    """The headers of each row, in the order of the columns; null where a row has none."""
    present = np.ones((rows, len(columns)), dtype=bool)
    for index, (_, _, mask) in enumerate(columns):
        if mask is not None:
            present[:, index] = mask.fill_null(False).to_numpy(zero_copy_only=False)
    row, column = np.nonzero(present)
    values = pa.concat_arrays([one for _, one, _ in columns]).take(pa.array(column * rows + row))
    names = pa.array([name for name, _, _ in columns], pa.string()).take(pa.array(column))
    offsets = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(present.sum(axis=1), out=offsets[1:])
    structs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=HEADERS_TYPE, mask=pa.array(~present.any(axis=1)))
