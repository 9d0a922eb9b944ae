"""Batches, logs on a disk in memory, and reading of whole logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from posixpath import join
from typing import Any, ParamSpec, TypeVar

from moldau.host.clock import SeededRandomness
from moldau.host.threads import Threads
from moldau.log.aborted import AbortedTxn
from moldau.log.config import LogConfig
from moldau.log.directory import LogDirectory
from moldau.log.dirs import LogDirs
from moldau.log.log import Log
from moldau.records import BatchRecord, Codec, decode_batch, encode_batch, peek_header
from moldau.testing.faulty_fs import FaultyFileSystem
from moldau.wire.topic_partition import TopicPartition

NOW = 1_700_000_000_000
ROOT = "/data"
NAME = TopicPartition("topic", 0)
TOPIC_ID = bytes(range(16))

P = ParamSpec("P")
T = TypeVar("T")


def batch(
    count: int = 1,
    *,
    timestamp: int = NOW,
    step: int = 1,
    value: bytes = b"value",
    key: bytes | None = b"key",
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    transactional: bool = False,
) -> memoryview:
    """A batch as a producer sends it, in writable memory."""
    return memoryview(
        encode_batch(
            [BatchRecord(number, timestamp + number * step, key, value) for number in range(count)],
            codec=codec,
            producer_id=producer_id,
            producer_epoch=epoch if producer_id >= 0 else -1,
            base_sequence=sequence if producer_id >= 0 else -1,
            transactional=transactional,
        )
    )


def new_log(fs: FaultyFileSystem | None = None, config: LogConfig | None = None, name: TopicPartition = NAME) -> Log:
    """A new log in its own directory, without checkpoint files."""
    fs = fs if fs is not None else FaultyFileSystem()
    fs.mkdir(ROOT, sync=True)
    data_dir = LogDirectory(ROOT, fs, randomness=SeededRandomness(1))
    return Log.create(name, TOPIC_ID, data_dir, config if config is not None else LogConfig(), NOW)


def reload(
    log: Log, *, clean: bool = False, recovery_point: int = 0, fs: FaultyFileSystem | None = None, start_offset: int = 0
) -> Log:
    """The log as a new process finds it."""
    fs = fs if fs is not None else file_system(log).after_kill()
    data_dir = LogDirectory(ROOT, fs, randomness=SeededRandomness(1))
    return Log.load(
        log.name, data_dir, log.config, NOW, clean=clean, recovery_point=recovery_point, start_offset=start_offset
    )


def file_system(log: Log) -> FaultyFileSystem:
    assert isinstance(log.data_dir.fs, FaultyFileSystem)
    return log.data_dir.fs


def append_all(log: Log, times: int, **fields: Any) -> None:
    for _ in range(times):
        log.append(batch(**fields), 0, NOW)


def flush(log: Log, now_ms: int = NOW) -> None:
    """Flush the log as the broker does with a thread."""
    job = log.flush_job()
    if job is not None:
        job.run()
        log.flush_done(job, now_ms)


def read_all(log: Log, max_bytes: int = 1000) -> list[BatchRecord]:
    """Every record, as a consumer gets them that fetches from the start."""
    records: list[BatchRecord] = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, max_bytes, log.end_offset)
        assert data is not None
        found = split(data)
        assert found, f"nothing at {offset} of {log}"
        for one in found:
            records += [record for record in decode_batch(one) if record.offset >= offset]
            offset = peek_header(one).last_offset + 1
    return records


def offsets(log: Log) -> list[int]:
    return [record.offset for record in read_all(log)]


def split(data: memoryview) -> list[bytes]:
    """The batches in the read bytes; all must be complete."""
    found: list[bytes] = []
    at = 0
    while at < len(data):
        size = peek_header(data, at).size
        assert at + size <= len(data), "a batch is incomplete"
        found.append(bytes(data[at : at + size]))
        at += size
    return found


def log_files(log: Log) -> list[str]:
    return log.data_dir.fs.listdir(log.directory)


def path(log: Log, file: str) -> str:
    return join(log.directory, file)


class FixedClock:
    """A clock that stands still until it is set."""

    def __init__(self, now_ms: int = NOW) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


class InlineThreads(Threads):
    """Runs each job at once, in place, so that the order is always the same."""

    async def run(self, lane: str, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return fn(*args, **kwargs)


def with_threads(scenario: Callable[[Threads], Coroutine[Any, Any, T]]) -> T:
    """Run a scenario to its end, with jobs run in place of threads."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(scenario(InlineThreads()))
    finally:
        loop.close()


def open_dirs(
    fs: FaultyFileSystem,
    config: LogConfig | None = None,
    paths: tuple[str, ...] = (ROOT,),
    clock: FixedClock | None = None,
) -> LogDirs:
    """Data directories, locked and loaded."""
    dirs = LogDirs(list(paths), fs, clock if clock is not None else FixedClock(), SeededRandomness(1))
    dirs.open()
    dirs.remember_cluster("cluster")
    settings = config if config is not None else LogConfig()
    with_threads(lambda threads: dirs.load(threads, lambda _: settings))
    return dirs


def close_dirs(dirs: LogDirs) -> None:
    with_threads(dirs.close)


def aborted_transactions(log: Log, first_offset: int, end_offset: int) -> list[AbortedTxn]:
    """The aborted transactions that overlap these offsets. Reads what is not in memory, as the fetch handler does."""
    for segment, entries in log.read_aborted(first_offset, end_offset):
        segment.keep_aborted(entries)
    found = log.aborted_in_memory(first_offset, end_offset)
    assert found is not None
    return found
