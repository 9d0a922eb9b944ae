"""Connector classes: what a connector of one's own implements.

A connector is created with its settings, in the driver and again in every Spark task (Spark copies it: its attributes
must be picklable, connections are opened where they are used). The driver calls the short methods often, in a thread
with a deadline; the work is done by `read` and `write` in Spark tasks.

Classes are found by the entry point group `moldau.connectors`: the name is the connector's class name in
`connector.class`, with further names of the same class for the names that Kafka Connect's users know.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import pyarrow as pa

from moldau import __version__
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError
from moldau.connect.config_def import ConfigDef
from moldau.connect.record_batch import ConnectBatch

Offset = Mapping[str, Any]
"""A source partition or a source offset: a small JSON object whose meaning the connector defines."""


class RetriableError(MoldauError):
    """An error that may go away by itself, such as a database that restarts: the engine tries again with back-off."""


class TakenOverError(MoldauError):
    """Another process has taken over the connector: `SinkConnector.commit` raises it, and has published nothing."""


class SourceOffsets:
    """The stored offsets of one source connector, by source partition."""

    def __init__(self, stored: Iterable[tuple[Offset, Offset]] = ()) -> None:
        self._stored = {partition_key(partition): (dict(partition), dict(offset)) for partition, offset in stored}

    def __getitem__(self, partition: Offset) -> Offset | None:
        found = self._stored.get(partition_key(partition))
        return None if found is None else found[1]

    def __iter__(self) -> Iterator[tuple[Offset, Offset]]:
        return iter(self._stored.values())

    def __len__(self) -> int:
        return len(self._stored)


def partition_key(partition: Offset) -> str:
    """The text that identifies a source partition, whatever the order of its fields."""
    return json.dumps(partition, sort_keys=True, separators=(",", ":"))


class Connector(ABC):
    """What sources and sinks share."""

    config_def: ClassVar[ConfigDef]
    """The connector's own settings. Those that all connectors have (name, tasks.max, converters …) are not in it."""
    open_prefixes: ClassVar[tuple[str, ...]] = ()
    """Further settings of the connector, by the beginnings of their names: validation accepts them unchecked."""
    version: ClassVar[str] = __version__

    def __init__(self, config: Mapping[str, Any]) -> None:
        """`config` has every setting of `config_def` with its value, and all other settings as text."""
        self.config = config
        self.name: str = config["name"]
        self.max_tasks: int = int(config.get("tasks.max", 1))

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        """Problems that concern several settings, or the world outside (no such file), by the name of a setting.

        Called by validation, with parsed values, when every single setting is right.
        """
        return {}

    @classmethod
    def check_offsets(
        cls, config: Mapping[str, Any], offsets: Sequence[tuple[Offset | None, Offset | None]]
    ) -> str | None:
        """What is wrong with source partitions and offsets that a user wants to store, or None.

        An offset of None removes the offset of its partition. The connector is stopped.
        """
        return None

    def close(self) -> None:  # noqa: B027 - most connectors have nothing to free
        """Free what the driver's methods have opened."""


@dataclass(frozen=True)
class Slice:
    """A part of a source that one Spark task reads: from an offset to an offset, of one source partition."""

    partition: Offset
    end: Offset
    """The offset to store when the rows of this slice are in their topics."""
    start: Offset | None = None
    detail: Any = None
    """Whatever `read` needs to know. Picklable."""


class SourceConnector(Connector):
    """A source that can read the same slice again with the same result: files, growing tables, generated data."""

    @abstractmethod
    def slices(self, offsets: SourceOffsets) -> list[Slice]:
        """What there is to read now, after these offsets. Empty: nothing new.

        Short, and called about once per second: the driver runs no Spark job while it is empty. Slices of different
        source partitions are read in parallel, by up to `tasks.max` tasks; those of one source partition are in order.
        """

    @abstractmethod
    def read(self, part: Slice) -> Iterator[ConnectBatch]:
        """The rows of a slice, in a Spark task. Every call with the same slice yields the same rows."""


@dataclass(frozen=True)
class Polled:
    """Rows of a polled source with the offsets that are reached after them."""

    batch: ConnectBatch
    offsets: Sequence[tuple[Offset, Offset]] = ()
    more: Sequence[ConnectBatch] = ()
    """Further batches of the same transaction, where rows of several schemas share one offset."""


class PolledSourceConnector(Connector):
    """A source that cannot read the same rows twice: HTTP, tables that change, change capture.

    The worker polls it, transforms and converts the rows, and writes rows and offsets in one transaction. No Spark job
    is between: a second reader of the same rows would see others.
    """

    poll_interval_s: float = 1.0

    def accept_json(self, *, schemas: bool) -> None:
        """Called before the first `poll` if keys and values will only be written as JSON, with or without schemas.

        A connector whose rows are such JSON from the beginning may then yield them as they are, in columns with
        `encoded=True`: they are neither parsed nor written again.
        """

    @abstractmethod
    def poll(self, offsets: SourceOffsets) -> Iterator[Polled]:
        """The rows that are new since these offsets. Called again after it ended and `poll_interval_s` passed.

        The generator continues after a `yield` when what it yielded is stored; it is closed if that failed.
        """


@dataclass(frozen=True)
class SinkSlice:
    """The records that one Spark task of a sink writes: offsets of one topic partition, `end` excluded."""

    partition: TopicPartition
    start: int
    end: int


@dataclass(frozen=True)
class SinkTask:
    """Identity of a sink's task attempt, for names that must not collide."""

    connector: str
    batch: int
    """Number of the micro-batch; it grows with every batch of the connector, also over restarts."""
    task: int
    attempt: int
    reject: Callable[[ConnectBatch, pa.BooleanArray, Exception], None] | None = field(default=None, compare=False)
    """For rows that the target refuses (`reject(batch, rows, error)`, where `rows` is true for the refused ones): with
    errors.tolerance=all they become dead letters and `write` goes on without them; otherwise this raises. None in
    tests that call `write` themselves."""


@dataclass(frozen=True)
class SinkCommit:
    """Everything that the driver needs to make a micro-batch visible."""

    connector: str
    batch: int
    slices: Sequence[SinkSlice]
    messages: Sequence[Any] = field(default_factory=list)
    """What `write` returned, in the order of `slices`."""


class SinkConnector(Connector):
    """A sink. `write` runs in Spark tasks; `commit` in the driver makes their work visible."""

    def start(self) -> None:
        """Prepare the target before the first batch of this process, in the driver: create directories or tables,
        finish a commit that another process has begun."""

    def written_offsets(self) -> Mapping[TopicPartition, int] | None:
        """The next offset of each partition according to the target itself, if it keeps them with the data.

        It is asked after `start`. Where it answers, records before these offsets are never written again, which makes
        the sink exactly once; None: the committed offsets of the group `connect-NAME` count alone.
        """
        return None

    def change_offsets(self, offsets: Mapping[TopicPartition, int | None] | None) -> None:
        """Follow a change of the offsets by the user, where the target keeps them; the connector is stopped.

        None for a partition: its offset is removed; None for all: everything is read again from the beginning. Called
        instead of `start`, after earlier processes are fenced, and before the offsets of the group are changed.
        """
        if type(self).written_offsets is not SinkConnector.written_offsets:
            raise MoldauError(
                f"the target of connector {self.name} keeps its own offsets, and {type(self).__name__} cannot change "
                "them there: they would win over the offsets of the group. Create a connector with another name instead"
            )

    def due(self, pending: Sequence[SinkSlice]) -> Sequence[SinkSlice]:
        """Of the records that are not written yet (one slice per partition), the part to write now; the rest waits.

        Called about once per second in the driver. A slice may be left out, or end earlier: a sink of files collects
        enough records for a file, and does not wait longer than its settings say. By default everything is due.
        """
        return pending

    @abstractmethod
    def write(self, part: SinkSlice, batches: Iterator[ConnectBatch], task: SinkTask) -> Any:
        """Write the records of a slice, in a Spark task; return a picklable message for `commit`.

        An attempt may die at any time and be repeated: what it wrote must not be visible yet, or be idempotent.
        """

    def commit(self, commit: SinkCommit) -> None:
        """Make all work of a micro-batch visible, in the driver, with the offsets of its slices where the target keeps
        them. Raises if another process has taken over. Offsets of the group are committed after it returns."""


PARTITION_TOPIC: Final = "kafka_topic"
PARTITION_INDEX: Final = "kafka_partition"
PARTITION_OFFSET: Final = "kafka_offset"
"""The names that Kafka Connect's REST API gives a sink's partitions and offsets."""
