"""Batches that producers will send again, and what becomes of those behind them.

A producer with idempotence has several batches of a partition under way. The first is refused for a reason that passes:
the disk is full, too few replicas are in sync, this broker does not lead yet. If the reason has passed when the second
arrives, its sequence does not follow on what the log has. It could be told so, OUT_OF_ORDER_SEQUENCE_NUMBER, and
Apache Kafka does; but librdkafka takes that as a reason to number all its batches anew, those of other partitions
included, of which some may be in their logs already: they would be there twice. So the second is refused like the
first, and the producer sends both again, in order.

The same for a producer that the log does not know: its second batch would be taken as its first, and the first never.

What is missing must be just what was refused, and that not long ago: a gap of another kind is told as such.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.log.errors import LogError
from moldau.log.producer_state import Producer, ProducerStates
from moldau.records import BatchHeader, CorruptBatch, peek_header
from moldau.wire.errors import ErrorCode

EXPLAINS_MS: Final = 5_000
"""What was under way behind a batch has arrived by then."""

MAX_PRODUCERS: Final = 1_000
"""A partition remembers so many; with more the longest known is forgotten."""

PASSING: Final = frozenset(
    {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER}
)


class Refused(NamedTuple):
    """The first batch of a producer that was refused and is not there yet."""

    epoch: int
    sequence: int
    code: ErrorCode
    at_ms: int


class Refusals:
    """Of one partition, by producer."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Refused] = {}

    def note(self, records: memoryview, code: ErrorCode, now_ms: int) -> None:
        """This batch was refused, and nothing of it appended."""
        header = _header(records) if code in PASSING else None
        if header is None or header.producer_id < 0 or header.base_sequence < 0:
            return
        known = self._by_producer.pop(header.producer_id, None)
        behind = known is not None and known.epoch == header.producer_epoch and known.sequence < header.base_sequence
        if known is None or not behind or not _holds(known, now_ms):
            known = Refused(header.producer_epoch, header.base_sequence, code, now_ms)
        self._by_producer[header.producer_id] = known
        if len(self._by_producer) > MAX_PRODUCERS:
            del self._by_producer[next(iter(self._by_producer))]

    def check(self, records: memoryview, now_ms: int, producers: ProducerStates) -> None:
        """LogError where this batch has to wait for one that was refused."""
        header = _header(records)
        known = None if header is None else self._by_producer.get(header.producer_id)
        if header is None or known is None:
            return
        is_next = _is_next(known, producers.producers.get(header.producer_id))
        if not is_next or not _holds(known, now_ms):
            del self._by_producer[header.producer_id]
        elif header.producer_epoch == known.epoch and header.base_sequence > known.sequence:
            raise LogError(
                known.code,
                f"producer {header.producer_id} sent sequence {header.base_sequence}; {known.sequence} was refused "
                f"({known.code.name}) and must come first",
            )


def _header(records: memoryview) -> BatchHeader | None:
    """None for what is no batch: the log says so, in its own words."""
    try:
        return peek_header(records)
    except CorruptBatch:
        return None


def _is_next(known: Refused, producer: Producer | None) -> bool:
    """Whether what was refused is what the log lacks, and no more."""
    if producer is None or producer.epoch < known.epoch:
        return producer is None or known.sequence == 0
    return producer.epoch == known.epoch and producer.next_sequence == known.sequence


def _holds(known: Refused, now_ms: int) -> bool:
    return 0 <= now_ms - known.at_ms <= EXPLAINS_MS
