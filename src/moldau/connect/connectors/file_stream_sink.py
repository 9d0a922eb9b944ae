"""Values of records as lines of one file: Kafka's FileStreamSink.

A line is the text of a value, as `StringConverter` writes it; a null value is the line `null`. The file is appended to.

Kafka's connector writes at least once. This one writes exactly once, as long as nobody else writes or truncates the
file: the commit log (`sink_commit_log.py`, in `_moldau/CONNECTOR` beside the file) has the position at which the bytes
of a batch begin. They are written at that position, so that a second writing of the same batch, by a process that
continues after a crash or by one that slept, changes nothing.

Not done: standard output (a worker has none that anyone reads).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.client.data_types import TopicPartition
from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.connector import SinkCommit, SinkConnector, SinkSlice, SinkTask
from moldau.connect.connectors.file_formats import STRING_CONVERTER, joined
from moldau.connect.connectors.file_store import FileStore, LocalStore, disk_errors
from moldau.connect.connectors.sink_commit_log import CommitLog, StagedFile
from moldau.connect.converters import converter
from moldau.connect.record_batch import ConnectBatch

SWEEP_INTERVAL: Final = 20
NEW_FILE_MODE: Final = 0o666


class FileStreamSink(SinkConnector):
    """Lines of one local file."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [ConfigKey("file", ConfigType.STRING, "The file to append to.", None, Importance.HIGH)]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.path: str = config["file"]
        self._log: CommitLog | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_log": None}

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        if not config["file"]:
            return {"file": ["Name a file: the standard output of a worker is not written"]}
        if os.path.isdir(config["file"]):
            return {"file": [f"{config['file']} is a directory"]}
        return {}

    def _store(self) -> LocalStore:
        return LocalStore(os.path.dirname(os.path.abspath(self.path)))

    def start(self) -> None:
        self._log = CommitLog(self._store(), self.name, write_in_place)
        with disk_errors(self.path):
            self._log.start()

    def change_offsets(self, offsets: Mapping[TopicPartition, int | None] | None) -> None:
        CommitLog(self._store(), self.name, write_in_place).change_offsets(offsets)

    def written_offsets(self) -> Mapping[TopicPartition, int]:
        return self._started().finished().offsets

    def write(self, part: SinkSlice, batches: Iterator[ConnectBatch], task: SinkTask) -> tuple[str, int]:
        store = self._store()
        attempt = f"{task.batch}-{task.task}-{task.attempt}-{uuid.uuid4().hex[:8]}"
        staged = f"{CommitLog(store, self.name).staged_directory}/{attempt}/lines"
        text = converter(STRING_CONVERTER, {}, is_key=False)
        size = 0
        with disk_errors(self.path), store.open_output(staged) as file:
            for batch in batches:
                lines = pc.fill_null(text.from_column(batch.value, batch.topic), pa.scalar(b"null", pa.binary()))
                size += file.write(joined(lines, b"\n"))
        return staged, size

    def commit(self, commit: SinkCommit) -> None:
        log = self._started()
        with disk_errors(self.path):
            reached = log.finished().offsets
        if all(reached.get(part.partition, -1) >= part.end for part in commit.slices):
            return  # An attempt to commit this batch had failed after its record was written.
        try:
            position = os.path.getsize(self.path)
        except FileNotFoundError:
            position = 0
        files = []
        for staged, size in commit.messages:
            if size:
                files.append(StagedFile(staged, os.path.basename(self.path), position, size))
                position += size
        with disk_errors(self.path):
            log.commit(commit.batch, {part.partition: part.end for part in commit.slices}, files)
        if commit.batch % SWEEP_INTERVAL == 0:
            log.sweep(commit.batch)

    def _started(self) -> CommitLog:
        if self._log is None:
            self.start()
        assert self._log is not None
        return self._log


def write_in_place(store: FileStore, one: StagedFile) -> None:
    """Write staged bytes at their position of the file, and remove them. Done again, it changes nothing."""
    assert one.position is not None
    assert isinstance(store, LocalStore)
    try:
        data = memoryview(store.read(one.staged))
    except FileNotFoundError:
        return  # Another process has written them.
    file = os.open(os.path.join(store.root, one.final), os.O_WRONLY | os.O_CREAT, NEW_FILE_MODE)
    try:
        position = one.position
        while data:
            count = os.pwrite(file, data, position)
            position, data = position + count, data[count:]
        os.fsync(file)
    finally:
        os.close(file)
    store.delete(one.staged)
