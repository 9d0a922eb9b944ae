"""Connectors built as a worker builds them, and what their batches hold."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any, TypeVar

import pyarrow as pa

from moldau.connect.config_def import ConfigError
from moldau.connect.connector import Connector, Slice, SourceConnector, SourceOffsets
from moldau.connect.record_batch import ConnectBatch

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
