"""Ledger of sent and acknowledged records, compared with the contents of the partition.

Records are numbered by the stream that wrote them: one writer, one connection, one partition. Whatever happens to the
broker, the partition must hold a prefix of each stream, in order, without duplicates and without foreign records. The
prefix must have everything that was acknowledged, at the acknowledged offset.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from moldau.records import BatchRecord


@dataclass(slots=True)
class Stream:
    """The records of one writer on one connection, numbered from 0."""

    name: bytes
    padding: bytes
    sent: int = 0
    acked: list[tuple[int, int, int]] = field(default_factory=list)
    """(first number, count, first offset) of each batch that was acknowledged."""

    def next_values(self, count: int) -> list[bytes]:
        first, self.sent = self.sent, self.sent + count
        return [b"%s:%d:%s" % (self.name, number, self.padding) for number in range(first, self.sent)]

    def acknowledged(self, first: int, count: int, offset: int) -> None:
        self.acked.append((first, count, offset))

    def refused(self, count: int) -> None:
        """Record that the last batch was refused: it counts as not sent."""
        self.sent -= count

    def value(self, number: int) -> bytes:
        return b"%s:%d:%s" % (self.name, number, self.padding)


class Ledger:
    """All streams of one partition. Writers may be threads."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self._streams: dict[bytes, Stream] = {}
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def new_stream(self, padding: int = 20) -> Stream:
        with self._lock:
            stream = Stream(b"%d" % len(self._streams), b"x" * padding)
            self._streams[stream.name] = stream
        return stream

    @property
    def acked(self) -> int:
        """The number of acknowledged records."""
        with self._lock:
            return sum(count for stream in self._streams.values() for _, count, _ in stream.acked)

    def forget_from(self, end: int) -> None:
        """Drop all expectations from this offset on: the machine lost power before these records were flushed."""
        for stream in self._streams.values():
            stream.acked = [one for one in stream.acked if one[2] < end]

    def check(self, records: Sequence[BatchRecord]) -> None:
        """Fail if the partition, read from offset 0 to its end, differs from what was sent and acknowledged."""
        found: dict[bytes, int] = dict.fromkeys(self._streams, 0)
        for offset, record in enumerate(records):
            assert record.offset == offset, f"{self}: offset {record.offset} where {offset} was expected"
            assert record.value is not None
            name, _, _ = record.value.partition(b":")
            stream = self._streams.get(name)
            assert stream is not None, f"{self}: {record.value[:40]!r} at {offset} was never sent"
            number = found[name]
            assert number < stream.sent, f"{self}: {record.value[:40]!r} at {offset} was never sent"
            assert record.value == stream.value(number), (
                f"{self}: {record.value[:40]!r} at {offset} where number {number} of stream {name!r} was expected"
            )
            found[name] = number + 1
        for stream in self._streams.values():
            for first, count, offset in stream.acked:
                assert offset + count <= len(records), (
                    f"{self}: {first} to {first + count - 1} of stream {stream.name!r} were acknowledged at {offset}, "
                    f"but the log ends at {len(records)}"
                )
                assert records[offset].value == stream.value(first), f"{self}: not what was acknowledged at {offset}"
                last = records[offset + count - 1]
                assert last.value == stream.value(first + count - 1), f"{self}: not what was acknowledged at {offset}"
