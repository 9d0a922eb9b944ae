"""Sink of partitioned files, exactly once: `FileSink`, and Confluent's S3 and HDFS sinks.

Tasks write staged files in the hidden directory of the commit log (`sink_commit_log.py`); `commit` publishes them with
the offsets. A file has records of one Kafka partition, of one directory and of one schema: a record with another schema
begins a new file. Its name is `TOPIC+PARTITION+OFFSET.EXTENSION`, with the offset of its first record, so that no two
files of different records can have the same name.

Guarantee: a reader finds every record in exactly one file, and no file that is not complete. Files of one micro-batch
appear one after another. A commit record decides; it is written before the first file appears, and a process that was
replaced cannot write it. Records wait until there are `flush.size` of a Kafka partition (counted by offsets), but not
longer than `rotate.schedule.interval.ms`.

Not done: `schema.compatibility` other than NONE; HDFS itself (`hdfs://`).
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.client.data_types import TopicPartition
from moldau.connect.config_def import ConfigDef
from moldau.connect.connector import SinkCommit, SinkConnector, SinkSlice, SinkTask
from moldau.connect.connectors.file_formats import FORMATS, FormatOptions, FormatWriter
from moldau.connect.connectors.file_sink_settings import (
    FILE_SETTINGS,
    HDFS_SETTINGS,
    S3_SETTINGS,
    FileSinkPlan,
    hdfs_target,
    plan_of,
    s3_target,
)
from moldau.connect.connectors.file_store import FileStore, disk_errors, open_store
from moldau.connect.connectors.sink_commit_log import CommitLog, StagedFile
from moldau.connect.connectors.sink_partitioners import escaped
from moldau.connect.errors import DataError
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.schemas import Schema

MAX_OPEN_FILES: Final = 200
"""Files that a task writes at once; the one that was opened first is closed when another one is needed."""
SWEEP_INTERVAL: Final = 20
"""Commits between two looks for files of dead attempts."""


class FileSink(SinkConnector):
    """Files in a directory or an object store."""

    config_def: ClassVar[ConfigDef] = FILE_SETTINGS

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.plan = self._plan(config)
        self._log: CommitLog | None = None
        self._waiting: dict[TopicPartition, tuple[int, float]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Tasks open the store themselves: connections do not survive the way to another process."""
        return {**self.__dict__, "_log": None}

    @classmethod
    def _target(cls, config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Where to write: a path or URL, and options of fsspec."""
        return config["path"], config["storage.options"] or {}

    @classmethod
    def _plan(cls, config: Mapping[str, Any]) -> FileSinkPlan:
        plan, problems = plan_of(config, *cls._target(config))
        assert plan is not None, problems
        return plan

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        return plan_of(config, *cls._target(config))[1]

    # -- driver --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._log = self._new_log()
        with disk_errors(self.plan.url):
            self._log.start()

    def _new_log(self) -> CommitLog:
        return CommitLog(self._store(), self.name)

    def _prepare(self, files: Sequence[StagedFile]) -> None:
        """Refuse files that cannot be published: called before the commit is decided."""

    def change_offsets(self, offsets: Mapping[TopicPartition, int | None] | None) -> None:
        self._new_log().change_offsets(offsets)

    def written_offsets(self) -> Mapping[TopicPartition, int]:
        return self._started().finished().offsets

    def due(self, pending: Sequence[SinkSlice]) -> Sequence[SinkSlice]:
        now = time.monotonic()
        found = []
        for part in pending:
            start, since = self._waiting.get(part.partition, (-1, now))
            if start != part.start:
                self._waiting[part.partition] = (part.start, since := now)
            size = part.end - part.start
            overdue = self.plan.schedule_ms >= 0 and (now - since) * 1000 >= self.plan.schedule_ms
            taken = size if overdue else size // self.plan.flush_size * self.plan.flush_size
            if taken:
                found.append(SinkSlice(part.partition, part.start, part.start + taken))
        return found

    def commit(self, commit: SinkCommit) -> None:
        log = self._started()
        with disk_errors(self.plan.url):
            reached = log.finished().offsets
        offsets: dict[TopicPartition, int] = {}
        for part in commit.slices:
            offsets[part.partition] = max(part.end, offsets.get(part.partition, 0))
        if all(reached.get(part.partition, -1) >= part.end for part in commit.slices):
            return  # An attempt to commit this batch had failed after its record was written.
        for part in commit.slices:
            if part.start < reached.get(part.partition, 0):
                raise DataError(
                    f"records of {part.partition.topic}-{part.partition.partition} from offset {part.start} are to be "
                    f"written, but the target has them up to {reached[part.partition]}: restart the connector"
                )
        files = [StagedFile(*one) for message in commit.messages for one in message or ()]
        with disk_errors(self.plan.url):
            self._prepare(files)
            log.commit(commit.batch, offsets, files)
        if commit.batch % SWEEP_INTERVAL == 0:
            log.sweep(commit.batch)

    def _started(self) -> CommitLog:
        if self._log is None:
            self.start()
        assert self._log is not None
        return self._log

    def _store(self) -> FileStore:
        return open_store(self.plan.url, self.plan.options)

    # -- task ----------------------------------------------------------------------------------------------------------

    def write(self, part: SinkSlice, batches: Iterator[ConnectBatch], task: SinkTask) -> list[tuple[Any, ...]]:
        store = self._store()
        attempt = f"{task.batch}-{task.task}-{task.attempt}-{uuid.uuid4().hex[:8]}"
        staged = f"{CommitLog(store, self.name).staged_directory}/{attempt}"
        files = self._task_files(store, part, staged)
        try:
            with disk_errors(self.plan.url):
                for batch in batches:
                    files.add(batch)
                return [tuple(one) for one in files.closed()]
        except Exception:
            files.abandon()
            raise

    def _task_files(self, store: FileStore, part: SinkSlice, staged: str) -> TaskFiles:
        return TaskFiles(self.plan, store, part, staged)


class S3Sink(FileSink):
    """Confluent's S3 sink."""

    config_def: ClassVar[ConfigDef] = S3_SETTINGS

    @classmethod
    def _target(cls, config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        return s3_target(config)


class HdfsSink(FileSink):
    """Confluent's HDFS sinks, on a local (mounted) path or an object store."""

    config_def: ClassVar[ConfigDef] = HDFS_SETTINGS

    @classmethod
    def _target(cls, config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        return hdfs_target(config)


class TaskFiles:
    """The files that one task writes."""

    def __init__(self, plan: FileSinkPlan, store: FileStore, part: SinkSlice, staged: str) -> None:
        self._plan = plan
        self._store = store
        self._part = part
        self._staged = staged
        self._count = 0
        self._open: dict[str, OpenFile] = {}
        self._closed: list[StagedFile] = []

    def add(self, batch: ConnectBatch) -> None:
        if batch.value.array.null_count:
            batch = self._without_nulls(batch)
        if not batch.num_rows:
            return
        for directory, rows in self._by_directory(batch):
            while rows.num_rows:
                file = self._file(directory, rows)
                count = file.room(rows)
                file.write(rows.slice(0, count))
                rows = rows.slice(count, rows.num_rows - count)
                if file.full:
                    self._close(directory)

    def closed(self) -> list[StagedFile]:
        for directory in list(self._open):
            self._close(directory)
        return self._closed

    def abandon(self) -> None:
        """Remove what was written: the task has failed."""
        for one in self._open.values():
            with contextlib.suppress(Exception):
                one.file.close()
        with contextlib.suppress(Exception):
            self._store.delete_tree(self._staged)

    def _without_nulls(self, batch: ConnectBatch) -> ConnectBatch:
        if self._plan.null_values == "fail":
            offset = batch.filter(batch.value.array.is_null()).origin.column("offset")[0].as_py()  # type: ignore[union-attr]
            where = f"{self._part.partition.topic}-{self._part.partition.partition} at offset {offset}"
            raise DataError(
                f"the record of {where} has no value; behavior.on.null.values=ignore leaves such records out"
            )
        return batch.filter(batch.value.array.is_valid())

    def _by_directory(self, batch: ConnectBatch) -> Iterator[tuple[str, ConnectBatch]]:
        below = self._plan.partitioner.directories(batch, self._part.partition)
        encoded = pc.dictionary_encode(pc.binary_join_element_wise(batch.topic.cast(pa.string()), below, "\0"))
        for index, path in enumerate(encoded.dictionary.to_pylist()):
            rows = batch
            if len(encoded.dictionary) > 1:
                rows = batch.filter(pc.equal(encoded.indices, pa.scalar(index, pa.int32())))
            topic, _, directory = path.partition("\0")
            yield f"{_safe(topic)}/{directory}".rstrip("/"), rows

    def _file(self, directory: str, rows: ConnectBatch) -> OpenFile:
        file = self._open.get(directory)
        if file is not None and not file.takes(rows.value):
            self._close(directory)
            file = None
        if file is None:
            if len(self._open) >= MAX_OPEN_FILES:
                self._close(next(iter(self._open)))
            file = self._open[directory] = self._new_file(directory, rows)
        return file

    def _name(self, directory: str, extension: str) -> str:
        self._count += 1
        return f"{self._staged}/{self._count}{extension}"

    def _new_file(self, directory: str, rows: ConnectBatch) -> OpenFile:
        form = FORMATS[self._plan.format]
        name = self._name(directory, form.extension)
        options = FormatOptions(self._plan.codec, self._plan.separator)
        return OpenFile(name, self._store.open_output(name), form.open, options, self._plan, rows)

    def _close(self, directory: str) -> None:
        file = self._open.pop(directory)
        file.writer.close()
        self._closed.append(self._finished(directory, file))

    def _finished(self, directory: str, file: OpenFile) -> StagedFile:
        """What the commit has to know of a file."""
        plan, source = self._plan, self._part.partition
        offsets = [file.first_offset, file.last_offset] if plan.end_offset_in_name else [file.first_offset]
        padded = [f"{offset:0{plan.offset_width}d}" for offset in offsets]
        name = plan.delimiter.join([source.topic, str(source.partition), *padded])
        extension = FORMATS[plan.format].file_extension(plan.codec)
        return StagedFile(file.path, f"{directory}/{name}{extension}", None, file.rows)


def _safe(topic: str) -> str:
    """The topic as a directory: a transform may have given it any name."""
    name = escaped(topic)
    return name.replace(".", "%2E") if name in (".", "..") else name


class OpenFile:
    """One staged file."""

    def __init__(
        self,
        path: str,
        file: IO[bytes],
        open_writer: Callable[[IO[bytes], FormatOptions], FormatWriter],
        options: FormatOptions,
        plan: FileSinkPlan,
        rows: ConnectBatch,
    ) -> None:
        self.path = path
        self.file = file
        self.writer = open_writer(file, options)
        self.rows = 0
        self._plan = plan
        self._schema: Schema | None = rows.value.schema
        self._type: pa.DataType = rows.value.array.type
        assert rows.origin is not None
        self.first_offset: int = rows.origin.column("offset")[0].as_py()
        self.last_offset = self.first_offset
        self._first_time: int = rows.timestamp[0].as_py() or 0
        self._out_of_time = False

    @property
    def full(self) -> bool:
        return self.rows >= self._plan.flush_size or self._out_of_time

    def takes(self, value: ValueColumn) -> bool:
        """Whether these values can be in this file."""
        if self._schema is not None or value.schema is not None:
            return self._schema == value.schema
        if self._plan.format != "parquet":
            return self._plan.format not in ("avro", "csv") or self._type == value.array.type
        try:
            fields = (
                pa.schema([pa.field("value", kind) for kind in (self._type,)]),
                pa.schema([pa.field("value", value.array.type)]),
            )
            self._type = pa.unify_schemas(list(fields), promote_options="permissive").field(0).type
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return False
        return True

    def room(self, rows: ConnectBatch) -> int:
        """How many of the rows belong into this file: one at least."""
        count = min(rows.num_rows, self._plan.flush_size - self.rows)
        if self._plan.rotate_ms > 0:
            late = pc.greater_equal(rows.timestamp.slice(0, count), pa.scalar(self._first_time + self._plan.rotate_ms))
            first = pc.index(late, pa.scalar(True)).as_py()
            if first >= 0:
                self._out_of_time = True
                count = first
        return int(count)

    def write(self, rows: ConnectBatch) -> None:
        if rows.num_rows:
            assert rows.origin is not None
            self.writer.write(rows.value, rows.topic)
            self.rows += rows.num_rows
            self.last_offset = rows.origin.column("offset")[rows.num_rows - 1].as_py()
