"""Refusals of batches for transient errors, and the refusal of the batches that follow them.

An idempotent producer has several batches of a partition in flight. The first may be refused for a transient reason:
the disk is full, too few replicas are in sync, or this broker does not lead yet. If the reason has passed when the
second batch arrives, its sequence does not follow the last one in the log. Apache Kafka then answers with
OUT_OF_ORDER_SEQUENCE_NUMBER. But librdkafka reacts to that by renumbering all its batches, also those of other
partitions, of which some may already be in their logs: these would be duplicated. So later batches of the same producer
are refused with the same error until the first is retried, and the producer sends all of them again, in order.

The same applies to a producer that the log does not know: its second batch would be accepted as its first, and the
first would never be accepted.

The missing sequences must be exactly the refused ones, and the refusal must be recent. Any other gap is reported as
OUT_OF_ORDER_SEQUENCE_NUMBER.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.log.errors import LogError
from moldau.log.producer_state import ProducerEntry, ProducerStates
from moldau.records import BatchHeader, CorruptBatch, peek_header
from moldau.wire.errors import ErrorCode

EXPLAINS_MS: Final = 5_000
"""How long a refusal applies to later batches. Batches that were in flight have arrived by then."""

MAX_PRODUCERS: Final = 1_000
"""Maximum number of producers per partition; beyond that, the oldest entry is dropped."""

PASSING: Final = frozenset(
    {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER}
)


class RefusedBatch(NamedTuple):
    """The first refused batch of a producer that has not been retried yet."""

    epoch: int
    sequence: int
    code: ErrorCode
    at_ms: int


class RetryOrder:
    """The refused batches of one partition, by producer id."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, RefusedBatch] = {}

    def note(self, records: memoryview, code: ErrorCode, now_ms: int) -> None:
        """Record that this batch was refused and nothing of it was appended."""
        header = _header(records) if code in PASSING else None
        if header is None or header.producer_id < 0 or header.base_sequence < 0:
            return
        known = self._by_producer.pop(header.producer_id, None)
        behind = known is not None and known.epoch == header.producer_epoch and known.sequence < header.base_sequence
        if known is None or not behind or not _holds(known, now_ms):
            known = RefusedBatch(header.producer_epoch, header.base_sequence, code, now_ms)
        self._by_producer[header.producer_id] = known
        if len(self._by_producer) > MAX_PRODUCERS:
            del self._by_producer[next(iter(self._by_producer))]

    def check(self, records: memoryview, now_ms: int, producers: ProducerStates) -> None:
        """Raise LogError if this batch must wait until a refused one is retried."""
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
    """The header, or None if it is not a batch; then the log reports the error."""
    try:
        return peek_header(records)
    except CorruptBatch:
        return None


def _is_next(known: RefusedBatch, producer: ProducerEntry | None) -> bool:
    """Whether the refused batch is the next one that the log expects."""
    if producer is None or producer.epoch < known.epoch:
        return producer is None or known.sequence == 0
    return producer.epoch == known.epoch and producer.next_sequence == known.sequence


def _holds(known: RefusedBatch, now_ms: int) -> bool:
    return 0 <= now_ms - known.at_ms <= EXPLAINS_MS
