"""A broker whose log lines tests wait for, and a compacted topic with keyed records."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

from moldau.records import BatchRecord, encode_batch
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection
from tests.system import calls

TOPIC = "keyed"
KEYS = 300
VALUE_BYTES = 700
BATCH = 100
SEGMENT_BYTES = 1 << 20
TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.05",
    "file.delete.delay.ms": "0",
}
SETTINGS = {"log.cleaner.backoff.ms": "50", "log.flush.offset.checkpoint.interval.ms": "100"}
PATIENCE_S = 60.0

CLEANED = "log cleaned"
WORKER_STARTED = "cleaner process started"


class Lines(list[bytes]):
    """The broker's log lines, as they arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Condition()

    def append(self, line: bytes) -> None:
        with self.came:
            super().append(line)
            self.came.notify_all()


class WatchedBroker(BrokerProcess):
    """A broker process whose log lines a test can wait for."""

    def __init__(self, data: Path, settings: dict[str, str] | None = None, *, fault_point: str | None = None) -> None:
        environment = {"MOLDAU_FAULT_POINT": fault_point} if fault_point is not None else {}
        super().__init__(data, SETTINGS | (settings or {}), environment=environment)
        self.lines = Lines()
        self._lines = self.lines

    def wait_for(self, text: str, *, since: int = 0) -> str:
        """The first line that contains `text`, starting at line number `since`."""

        def found() -> bytes | None:
            return next((line for line in self.lines[since:] if text.encode() in line), None)

        with self.lines.came:
            assert self.lines.came.wait_for(lambda: found() is not None, PATIENCE_S), f"no {text!r} in:\n{self.log}"
        line = found()
        assert line is not None
        return line.decode()

    def wait_for_end(self) -> None:
        """Return when the process has ended, after it was killed or killed itself."""
        self.wait_ended()


class History:
    """The records written to the topic, and what a reader must find after compaction."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.written: dict[int, tuple[bytes, bytes | None]] = {}

    @property
    def last(self) -> dict[bytes, bytes]:
        last: dict[bytes, bytes] = {}
        for _, (key, value) in sorted(self.written.items()):
            if value is None:
                last.pop(key, None)
            else:
                last[key] = value
        return last

    def write(self, connection: RawConnection, megabytes: float) -> None:
        """Write about this many bytes; a tenth of the records are deletes."""
        for _ in range(int(megabytes * 1_000_000 / (BATCH * VALUE_BYTES))):
            entries = [self._entry() for _ in range(BATCH)]
            records = [
                BatchRecord(number, 1_700_000_000_000, key, value) for number, (key, value) in enumerate(entries)
            ]
            base = produce(connection, bytes(encode_batch(records)))
            self.written.update(enumerate(entries, base))

    def _entry(self) -> tuple[bytes, bytes | None]:
        key = b"key-%d" % self._random.randrange(KEYS)
        return key, None if self._random.random() < 0.1 else self._random.randbytes(VALUE_BYTES)

    def check(self, connection: RawConnection) -> int:
        """Read everything, compare, and return how many records are left."""
        found = read_through(connection)
        last: dict[bytes, bytes] = {}
        for record in found:
            assert record.key is not None
            assert self.written[record.offset] == (record.key, record.value)
            if record.value is None:
                last.pop(record.key, None)
            else:
                last[record.key] = record.value
        assert last == self.last
        assert calls.offset_of(connection, TOPIC, 0) == max(self.written) + 1
        return len(found)


def create(connection: RawConnection, configs: dict[str, str] | None = None) -> None:
    calls.create_topic(connection, TOPIC, 1, TOPIC_CONFIGS | (configs or {}))


def produce(connection: RawConnection, batch: bytes) -> int:
    connection.send(ApiKey.PRODUCE, calls.PRODUCE_VERSION, calls.produce_body(TOPIC, 0, batch))
    answer = calls.produce_answer(connection)
    assert answer.error_code == ErrorCode.NONE, (ErrorCode(answer.error_code).name, answer.error_message)
    base_offset: int = answer.base_offset
    return base_offset


def read_through(connection: RawConnection, between: Any = lambda offset: None, **limits: int) -> list[BatchRecord]:
    """All records from start to end, read as a consumer does: it also passes over empty batches."""
    from moldau.records import peek_header

    found: list[BatchRecord] = []
    offset = calls.offset_of(connection, TOPIC, 0, calls.EARLIEST)
    while True:
        answer = calls.fetch(connection, TOPIC, 0, offset, **limits)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        data = memoryview(answer.records or b"")
        if not data:
            assert offset == answer.high_watermark
            return found
        found += [record for record in calls.records_in(data) if record.offset >= offset]
        at = 0
        while at < len(data):
            header = peek_header(data, at)
            at += header.size
            offset = header.last_offset + 1
        between(offset)


def leftovers(data: Path) -> list[str]:
    return [path.name for path in (data / f"{TOPIC}-0").iterdir() if path.suffix in (".cleaned", ".swap")]
