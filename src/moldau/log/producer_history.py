"""Duplicate detection after a restart or truncation: finds earlier batches of a producer in the log itself.

After a restart or a truncation a log knows its producers from a snapshot and from the batches after it. A snapshot, in
Kafka's format, holds only the last batch of each producer, but a producer may retry an older one. If the log answered
OUT_OF_ORDER_SEQUENCE_NUMBER, an idempotent producer would give the batch a new sequence and write it twice. So before
it answers that, the log reads its last batches backwards, one step at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.host.event_log import event_logger
from moldau.log.errors import DamagedLog
from moldau.log.producer_state import ProducerBatch, ProducerStates
from moldau.log.scan import headers
from moldau.log.segment import Segment
from moldau.records import BatchHeader
from moldau.wire.number_types import ProducerEpoch, ProducerId

logger = event_logger(__name__)

STEP_BYTES = 256 * 1024
LOOK_BACK_BYTES = 16 * 1024 * 1024
"""Limit in total, since the log was opened or truncated: five large batches of a few producers."""
BATCH_COST_BYTES = 2048
"""The minimal cost of a batch: the time goes into parsing batches, on the event loop, more than into bytes."""


def find_earlier(
    states: ProducerStates,
    segments: Sequence[Segment],
    producer_id: ProducerId,
    epoch: ProducerEpoch,
    first: int,
    last: int,
) -> ProducerBatch | None:
    """The batch with these sequences, if it is in the log before the first offset of `states`. Reads the disk."""
    producer = states.producers.get(producer_id)
    if producer is None or producer.epoch != epoch:
        return None
    found: ProducerBatch | None = None
    while found is None and not producer.complete and _may_search(states):
        _search_back(states, segments)
        found = producer.find(first, last)
    return found


def _may_search(states: ProducerStates) -> bool:
    return states.began_with_snapshot and states.searched_bytes < LOOK_BACK_BYTES


def _search_back(states: ProducerStates, segments: Sequence[Segment]) -> None:
    """Read one step backwards from where `states` begins, and add the batches of each producer's current epoch."""
    below = states.begins_at
    segment = next((one for one in reversed(segments) if one.base_offset < below), None)
    if segment is None:
        states.searched_bytes = LOOK_BACK_BYTES
        return
    found = segment.find(below)
    end = 0 if found is None else found[1]
    start = segment.place_before(end - STEP_BYTES)
    before = _headers(segment, start, below)
    states.prepend_batches(before)
    states.begins_at = before[0].base_offset if before and start else segment.base_offset
    states.searched_bytes += max(end - start, BATCH_COST_BYTES * (1 + len(before)))


def _headers(segment: Segment, start: int, below: int) -> list[BatchHeader]:
    found: list[BatchHeader] = []
    try:
        for _, header in headers(segment.file, start, segment.file.size, segment.damaged):
            if header.base_offset >= below:
                break
            found.append(header)
    except DamagedLog as damage:
        logger.error("damaged log, later batches of its producers are not searched", extra=damage.facts)
    return found
