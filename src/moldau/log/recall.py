"""What a snapshot does not say of a producer: the batches before its last one, which a retry may repeat.

A log that comes back from a stop or a cut knows its producers from a snapshot, in Kafka's format, with one batch each,
and from the batches behind it. Told "out of order" for a batch that it has sent before, a producer with idempotence
would number it anew and send it twice. So before that is said the log looks back, a step at a time, in its own end.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from moldau.log.errors import DamagedLog
from moldau.log.producer_state import ProducerBatch, ProducerStates
from moldau.log.scan import headers
from moldau.log.segment import Segment
from moldau.records import BatchHeader

logger = logging.getLogger(__name__)

STEP_BYTES = 256 * 1024
LOOK_BACK_BYTES = 16 * 1024 * 1024
"""In all, since the log was opened or cut: five large batches of a few producers."""
BATCH_COST_BYTES = 2048
"""A small batch counts as this much: what takes the time is the batches, and it is the loop's."""


def find_earlier(
    states: ProducerStates, segments: Sequence[Segment], producer_id: int, epoch: int, first: int, last: int
) -> ProducerBatch | None:
    """The batch with these sequences, if the log's end has it before what `states` began with. Reads the disk."""
    producer = states.producers.get(producer_id)
    if producer is None or producer.epoch != epoch:
        return None
    found: ProducerBatch | None = None
    while found is None and not producer.complete and _worth_a_look(states):
        _look_back(states, segments)
        found = producer.find(first, last)
    return found


def _worth_a_look(states: ProducerStates) -> bool:
    return states.began_with_snapshot and states.looked_back < LOOK_BACK_BYTES


def _look_back(states: ProducerStates, segments: Sequence[Segment]) -> None:
    """Every producer knows again what batches of its epoch stand in one step before where `states` begins."""
    below = states.begins_at
    segment = next((one for one in reversed(segments) if one.base_offset < below), None)
    if segment is None:
        states.looked_back = LOOK_BACK_BYTES
        return
    found = segment.find(below)
    end = 0 if found is None else found[1]
    start = segment.place_before(end - STEP_BYTES)
    before = _headers(segment, start, below)
    states.remind(before)
    states.begins_at = before[0].base_offset if before and start else segment.base_offset
    states.looked_back += max(end - start, BATCH_COST_BYTES * (1 + len(before)))


def _headers(segment: Segment, start: int, below: int) -> list[BatchHeader]:
    found: list[BatchHeader] = []
    try:
        for _, header in headers(segment.file, start, segment.file.size, segment.damaged):
            if header.base_offset >= below:
                break
            found.append(header)
    except DamagedLog as damage:
        logger.error("%s; the batches of producers behind it are not recalled", damage)
    return found
