"""Connectors for tests of the engine, found by entry points as those of any other package.

Each misbehaves while a file with the name of the misbehaviour is in its directory `faults`.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pyarrow as pa

from moldau.client.data_types import TopicPartition
from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType
from moldau.connect.connector import (
    Polled,
    PolledSourceConnector,
    RetriableError,
    SinkCommit,
    SinkConnector,
    SinkSlice,
    SinkTask,
    Slice,
    SourceConnector,
    SourceOffsets,
)
from moldau.connect.converters import Converter
from moldau.connect.errors import RowError
from moldau.connect.record_batch import ConnectBatch, ValueColumn, source_batch
from moldau.connect.schemas import Schema, SchemaType

TEXT = Schema(SchemaType.STRING, optional=True)
FAULTS = ConfigKey("faults", ConfigType.STRING, "Directory with the faults.", "")


class Faults:
    """What goes wrong now."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def _has(self, name: str) -> bool:
        return bool(self._directory) and os.path.exists(f"{self._directory}/{name}")

    def happen(self, place: str) -> None:
        if self._has(f"hang-{place}"):
            Path(self._directory, f"hung-{place}").touch()
            while not self._has("wake-up"):
                threading.Event().wait(0.05)
        if self._has(f"fail-{place}"):
            raise ValueError(f"broken {place}")
        if self._has(f"retry-{place}"):
            raise RetriableError(f"{place} is away")
        if self._has(f"crash-{place}"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._has(f"kill-{place}"):
            with open(f"{self._directory}/kills", "a") as kills:
                kills.write("x")
            jvm = next(one for one in psutil.Process().parents() if one.name() == "java")
            os.kill(jvm.pid, signal.SIGKILL)
            threading.Event().wait(3600)


class TextConverter(Converter):
    """UTF-8 text. Values that begin with `bad` are refused: as RowError, or, with `bad!`, as any error."""

    def to_batches(self, raw: pa.Array, topic: str) -> Iterator[ValueColumn]:
        texts = raw.cast(pa.string())
        bad = {row: "is bad" for row, text in enumerate(texts.to_pylist()) if text and text.startswith("bad:")}
        if bad:
            raise RowError(bad)
        for text in texts.to_pylist():
            if text and text.startswith("bad!"):
                raise ValueError(f"cannot read {text}")
        yield ValueColumn(texts, TEXT)

    def from_column(self, column: ValueColumn, topics: pa.Array) -> pa.Array:
        return column.array.cast(pa.string()).cast(pa.binary())


class CountingSource(SourceConnector):
    """Numbers from 0 up to `limit`, in some source partitions, `step` per batch."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            ConfigKey("topic", ConfigType.STRING, "Topic."),
            ConfigKey("partitions", ConfigType.INT, "Source partitions.", 1),
            ConfigKey("limit", ConfigType.INT, "Numbers per partition.", 100),
            ConfigKey("step", ConfigType.INT, "Numbers per slice.", 50),
            FAULTS,
        ]
    )

    def slices(self, offsets: SourceOffsets) -> list[Slice]:
        Faults(self.config["faults"]).happen("slices")
        found = []
        for part in range(self.config["partitions"]):
            partition = {"part": part}
            begin = (offsets[partition] or {"n": 0})["n"]
            end = min(begin + self.config["step"], self.config["limit"])
            if begin < end:
                found.append(Slice(partition, {"n": end}, {"n": begin}))
        return found

    def read(self, part: Slice) -> Iterator[ConnectBatch]:
        Faults(self.config["faults"]).happen("read")
        assert part.start is not None
        number, begin, end = part.partition["part"], part.start["n"], part.end["n"]
        values = pa.array([f"{number}:{n}" for n in range(begin, end)])
        keys = pa.array([str(number)] * (end - begin))
        yield source_batch(self.config["topic"], ValueColumn(values, TEXT), key=ValueColumn(keys, TEXT))


class TickingSource(PolledSourceConnector):
    """Numbers that are polled: `step` per poll, up to `limit`."""

    config_def = CountingSource.config_def
    poll_interval_s = 0.05

    def poll(self, offsets: SourceOffsets) -> Iterator[Polled]:
        Faults(self.config["faults"]).happen("poll")
        begin = (offsets[{"part": 0}] or {"n": 0})["n"]
        while begin < self.config["limit"]:
            end = min(begin + self.config["step"], self.config["limit"])
            values = ValueColumn(pa.array([f"0:{n}" for n in range(begin, end)]), TEXT)
            yield Polled(source_batch(self.config["topic"], values), [({"part": 0}, {"n": end})])
            begin = end


class FilesSink(SinkConnector):
    """One file per batch with its lines and offsets, renamed into place: exactly once."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            ConfigKey("directory", ConfigType.STRING, "Target."),
            ConfigKey("keeps.offsets", ConfigType.BOOLEAN, "Whether the target keeps offsets.", True),
            ConfigKey("password", ConfigType.PASSWORD, "Secret.", None),
            FAULTS,
        ]
    )

    def start(self) -> None:
        Faults(self.config["faults"]).happen("start")
        Path(self.config["directory"]).mkdir(exist_ok=True)

    def written_offsets(self) -> Mapping[TopicPartition, int] | None:
        if not self.config["keeps.offsets"]:
            return None
        found: dict[TopicPartition, int] = {}
        for batch in written_batches(self.config["directory"]):
            for topic, partition, end in batch["offsets"]:
                place = TopicPartition(topic, partition)
                found[place] = max(found.get(place, 0), end)
        return found

    def write(self, part: SinkSlice, batches: Iterator[ConnectBatch], task: SinkTask) -> Any:
        Faults(self.config["faults"]).happen("write")
        lines: list[Any] = []
        for batch in batches:
            values = batch.value.array.to_pylist()
            refused = pa.array([value is not None and value.startswith("refuse") for value in values])
            if any(refused.to_pylist()):
                assert task.reject is not None
                task.reject(batch, refused, ValueError("the target refuses this"))
            lines += [value for value in values if value is None or not value.startswith("refuse")]
        return lines

    def commit(self, commit: SinkCommit) -> None:
        Faults(self.config["faults"]).happen("commit")
        if self.config["password"] and os.path.exists(f"{self.config['faults']}/leak"):
            raise ValueError(f"cannot log in with {self.config['password']}")
        write_batch(self.config["directory"], commit.batch, commit.slices, commit.messages)


def write_batch(directory: str, batch: int, slices: Sequence[SinkSlice], messages: Sequence[Any]) -> None:
    content = {
        "offsets": [[one.partition.topic, one.partition.partition, one.end] for one in slices],
        "lines": [line for lines in messages for line in lines],
    }
    place = Path(directory, f"batch-{batch}.json")
    if place.exists():
        raise ValueError(f"batch {batch} was written before")
    temporary = place.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(content))
    temporary.rename(place)


def written_batches(directory: str) -> list[dict[str, Any]]:
    files = sorted(Path(directory).glob("batch-*.json"), key=lambda one: int(one.stem.split("-")[1]))
    return [json.loads(one.read_text()) for one in files]
