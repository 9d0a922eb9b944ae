"""Logs on a disk in memory that are cleaned as in a broker, with crashes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from posixpath import join
from typing import Any

from moldau.host.clock import SeededRandomness
from moldau.host.fs import FileSystem
from moldau.log.clean import compaction
from moldau.log.clean.cleanable_log import Resources, prepare, view_of
from moldau.log.clean.engine import SLOT_BYTES
from moldau.log.clean.job import CleaningFailed, Finished, Replacement, Report, decode_job, decode_report, encode_job
from moldau.log.clean.job import encode_report as encode
from moldau.log.clean.schedule import assess
from moldau.log.clean.swap import Swap
from moldau.log.config import LogConfig
from moldau.log.directory import LogDirectory
from moldau.log.log import Log
from moldau.records import (
    BatchRecord,
    ControlType,
    decode_batch,
    encode_batch,
    encode_marker,
    parse_marker,
    peek_header,
)
from moldau.testing.memory_disk import MemoryDisk
from moldau.wire.topic_partition import TopicPartition
from tests.unit.log.support import aborted_transactions

NOW = 1_700_000_000_000
DAY = 86_400_000
ROOT = "/data"
NAME = TopicPartition("topic", 0)
TOPIC_ID = bytes(range(16))
SEED = bytes(range(16))

COMPACTED = LogConfig(
    cleanup_policy="compact",
    segment_bytes=1200,
    index_interval_bytes=150,
    max_message_bytes=1200,
    min_cleanable_dirty_ratio=0.0,
    message_timestamp_after_max_ms=2**62,
    file_delete_delay_ms=0,
)

RESOURCES = Resources(dedupe_bytes=1 << 20, load_factor=0.9, read_bytes=4096, bytes_per_second=float("inf"))


class Died(BaseException):
    """The process was killed. It is not an Exception, so that no error handler catches it."""


class Mortal:
    """Calls to a disk in memory, by a process that dies before its n-th change of the disk."""

    CHANGES = frozenset({"pwritev", "fdatasync", "fsync", "ftruncate", "rename", "remove", "mkdir", "open"})

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.changes = 0
        self.dies_at: int | None = None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.disk, name)

        def call(*arguments: Any) -> Any:
            if name in self.CHANGES:
                if self.changes == self.dies_at:
                    raise Died
                self.changes += 1
            return method(*arguments)

        return call


class PersistentDirectory:
    """A data directory on a disk that outlives processes."""

    def __init__(self, config: LogConfig = COMPACTED) -> None:
        self.disk = MemoryDisk()
        self.config = config
        self.next_process_dies_at: int | None = None
        """The number of the change of the disk before which the next process dies."""
        self.mortal = Mortal(self.disk)
        self.fs = FileSystem(self.mortal, 16)
        self.fs.mkdir(ROOT, sync=True)
        self.log = Log.create(NAME, TOPIC_ID, LogDirectory(ROOT, self.fs, randomness=SeededRandomness(1)), config, NOW)
        flush(self.log)

    def restart(self, *, power_loss: int | None = None, recovery_point: int = 0) -> Log:
        """Start a new process on the files that the last one left; with a seed, after a power loss."""
        if power_loss is None:
            self.disk.kill_process()
        else:
            self.disk.lose_power(power_loss)
        self.mortal = Mortal(self.disk)
        self.mortal.dies_at = self.next_process_dies_at
        self.fs = FileSystem(self.mortal, 16)
        data_dir = LogDirectory(ROOT, self.fs, randomness=SeededRandomness(1))
        self.log = Log.load(NAME, data_dir, self.config, NOW, clean=False, recovery_point=recovery_point)
        flush(self.log)
        return self.log

    def files(self) -> list[str]:
        return self.fs.listdir(self.log.directory)


def flush(log: Log) -> None:
    job = log.flush_job()
    if job is not None:
        job.run()
        log.flush_done(job, NOW)


@dataclass
class Cleaned:
    """The result of a cleaning."""

    end_offset: int
    replacements: list[Replacement]
    taken: int
    failure: CleaningFailed | None = None


def clean(
    log: Log,
    *,
    now_ms: int = NOW,
    first_dirty: int | None = None,
    slots: int = 10_000,
    between: Callable[[], None] = lambda: None,
) -> Cleaned:
    """One cleaning from the decision to the swap, with the messages in between encoded and decoded."""
    dirt = assess(view_of(log, log.end_offset, first_dirty), log.config, now_ms)
    if dirt.upper_offset <= dirt.first_dirty_offset:
        return Cleaned(dirt.first_dirty_offset, [], 0)
    resources = RESOURCES._replace(dedupe_bytes=slots * SLOT_BYTES)
    job, segments = prepare(log, dirt, now_ms, resources)
    sizes = {source.base_offset: source.size for source in job.sources}
    outcome = Cleaned(dirt.first_dirty_offset, [], 0)

    def report(one: Report) -> None:
        received = decode_report(encode(one))
        assert received == one
        if isinstance(received, Replacement):
            outcome.replacements.append(received)
            between()
            swap = Swap(log, segments, sizes, received)
            if swap.decide():
                swap.sync()
                outcome.taken += swap.finish()
        elif isinstance(received, Finished):
            outcome.end_offset = received.end_offset
        else:
            outcome.failure = received

    assert decode_job(encode_job(job)) == job
    compaction.run(job, log.data_dir.fs, report, lambda count: None, SEED)
    return outcome


def with_settings(**settings: Any) -> LogConfig:
    return replace(COMPACTED, **settings)


# -- writing -----------------------------------------------------------------------------------------------------------


def put(log: Log, *entries: tuple[str, str | None], timestamp: int = NOW, **fields: Any) -> int:
    """Append one batch of keys and values, and return its base offset."""
    records = [
        BatchRecord(number, timestamp, key.encode(), None if value is None else value.encode())
        for number, (key, value) in enumerate(entries)
    ]
    return log.append(memoryview(encode_batch(records, **fields)), 0, NOW).first_offset


def end_transaction(log: Log, producer_id: int, *, commit: bool, epoch: int = 0, timestamp: int = NOW) -> int:
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    marker = encode_marker(
        kind, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=0, timestamp=timestamp
    )
    return log.append(memoryview(marker), 0, NOW, coordinator=True).first_offset


def complete(log: Log) -> None:
    """Complete the active segment, and flush everything."""
    log.roll(NOW)
    flush(log)


# -- reading -----------------------------------------------------------------------------------------------------------


def batches(log: Log, max_bytes: int = 700) -> list[bytes]:
    """All batches, as a consumer gets them that fetches from the start."""
    found: list[bytes] = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, max_bytes, log.end_offset)
        assert data is not None
        if not data:
            break  # a gap at the end, which compaction may leave
        at = 0
        while at < len(data):
            header = peek_header(data, at)
            found.append(bytes(data[at : at + header.size]))
            offset = header.last_offset + 1
            at += header.size
    return found


def records(log: Log) -> list[BatchRecord]:
    return [record for batch in batches(log) if not peek_header(batch).is_control for record in decode_batch(batch)]


def offsets(log: Log) -> list[int]:
    return [record.offset for record in records(log)]


def committed(log: Log) -> dict[bytes, bytes]:
    """The last value of each key, as a `read_committed` consumer sees them."""
    aborted = sorted(aborted_transactions(log, log.start_offset, log.end_offset), key=lambda one: one.first_offset)
    skipped: set[int] = set()
    last: dict[bytes, bytes] = {}
    for batch in batches(log):
        header = peek_header(batch)
        while aborted and aborted[0].first_offset <= header.last_offset:
            skipped.add(aborted.pop(0).producer_id)
        if header.is_control:
            if header.count and parse_marker(batch).type is ControlType.ABORT:
                skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            for record in decode_batch(batch):
                keep_last(last, record)
    return last


def keep_last(last: dict[bytes, bytes], record: BatchRecord) -> None:
    if record.key is None:
        return
    if record.value is None:
        last.pop(record.key, None)
    else:
        last[record.key] = record.value


def path(log: Log, file: str) -> str:
    return join(log.directory, file)
