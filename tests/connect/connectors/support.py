"""Connectors as a worker creates them, drivers that call them as the engine does, and what their batches hold."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from moldau.client.data_types import TopicPartition
from moldau.connect.config_def import ConfigError
from moldau.connect.connector import (
    Connector,
    SinkCommit,
    SinkConnector,
    SinkSlice,
    SinkTask,
    Slice,
    SourceConnector,
    SourceOffsets,
)
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.schemas import schema_of

C = TypeVar("C", bound=Connector)


def created(kind: type[C], **settings: Any) -> C:
    """A connector with settings as text; the dots of their names are written as underscores."""
    return created_from(kind, {name.replace("_", "."): value for name, value in settings.items()})


def created_from(kind: type[C], settings: dict[str, Any]) -> C:
    texts = {name: str(value) for name, value in settings.items()}
    parsed = kind.config_def.parse(texts)
    problems = [problem for found in kind.check(parsed).values() for problem in found]
    if problems:
        raise ConfigError("; ".join(problems))
    return kind({"name": "test", **texts, **parsed})


def copied(connector: C) -> C:
    """The connector as a Spark task gets it."""
    copy: C = pickle.loads(pickle.dumps(connector))
    return copy


def values(batches: Iterable[ConnectBatch]) -> list[Any]:
    return [value for batch in batches for value in batch.value.array.to_pylist()]


def keys(batches: Iterable[ConnectBatch]) -> list[Any]:
    return [key for batch in batches for key in batch.key.array.to_pylist()]


class Reader:
    """A driver of one source: reads all slices and keeps the offsets, as the engine does."""

    def __init__(self, connector: SourceConnector, offsets: dict[str, tuple[Any, Any]] | None = None) -> None:
        self.connector = connector
        self.offsets = offsets if offsets is not None else {}
        self.slices: list[Slice] = []

    def stored(self) -> SourceOffsets:
        return SourceOffsets(self.offsets.values())

    def step(self) -> list[ConnectBatch]:
        """Reads what there is now, each slice twice: both must give the same rows."""
        batches: list[ConnectBatch] = []
        self.slices = self.connector.slices(self.stored())
        for part in self.slices:
            rows, again = (list(copied(self.connector).read(copied_slice(part))) for _ in range(2))
            assert values(rows) == values(again)
            batches += rows
            self.offsets[repr(sorted(part.partition.items()))] = (part.partition, part.end)
        return batches

    def rows(self) -> list[Any]:
        return values(self.step())


def copied_slice(part: Slice) -> Slice:
    copy: Slice = pickle.loads(pickle.dumps(part))
    return copy


def arrow_types(batch: ConnectBatch) -> dict[str, pa.DataType]:
    return {one.name: one.type for one in batch.value.array.type}


# -- sinks -------------------------------------------------------------------------------------------------------------


def sink_batch(
    source: TopicPartition,
    first: int,
    value: ValueColumn,
    *,
    times: list[int] | None = None,
    topic: str | None = None,
    key: ValueColumn | None = None,
) -> ConnectBatch:
    """Records of a topic partition as the engine gives them to a sink."""
    rows = len(value)
    timestamps = pa.array(times if times is not None else [1_767_225_600_000] * rows, pa.int64())
    offsets = pa.array(range(first, first + rows), pa.int64())
    partitions = pa.repeat(pa.scalar(source.partition, pa.int32()), rows)
    topics = pa.repeat(pa.scalar(topic or source.topic), rows)
    origin = pa.record_batch({"topic": topics, "partition": partitions, "offset": offsets, "timestamp": timestamps})
    return ConnectBatch(
        topics, key if key is not None else ValueColumn.nothing(rows), value, timestamps, partitions, (), origin
    )


def typed(rows: list[Any], kind: pa.DataType) -> ValueColumn:
    return ValueColumn(pa.array(rows, kind), schema_of(kind, optional=False))


NUMBER = pa.struct([pa.field("n", pa.int64(), nullable=False), pa.field("name", pa.string())])


def numbers(first: int, last: int) -> ValueColumn:
    return typed([{"n": n, "name": f"row {n}"} for n in range(first, last)], NUMBER)


class Writer:
    """A driver of one sink over partitions of topics that hold numbers: writes and commits as the engine does."""

    def __init__(self, connector: SinkConnector, ends: dict[TopicPartition, int]) -> None:
        self.connector = connector
        self.ends = ends
        self.batch = 0
        connector.start()

    def pending(self) -> list[SinkSlice]:
        written = self.connector.written_offsets() or {}
        return [SinkSlice(one, written.get(one, 0), end) for one, end in self.ends.items() if written.get(one, 0) < end]

    def written(self, slices: Sequence[SinkSlice] | None = None) -> SinkCommit:
        """The tasks of a batch have run."""
        self.batch += 1
        parts = list(self.connector.due(self.pending()) if slices is None else slices)
        messages = []
        for index, part in enumerate(parts):
            batches = iter([sink_batch(part.partition, part.start, numbers(part.start, part.end))])
            messages.append(copied(self.connector).write(part, batches, SinkTask("test", self.batch, index, 0)))
        return SinkCommit("test", self.batch, parts, messages)

    def step(self) -> bool:
        commit = self.written()
        if commit.slices:
            self.connector.commit(commit)
        return bool(commit.slices)
