"""Splitting of a batch that is too large for the broker into smaller ones, in the same order."""

from __future__ import annotations

from typing import Final

from moldau.client.producer.engine import Accumulator, Batch
from moldau.records.batch import seal
from moldau.records.batch_layout import HEADER_SIZE
from moldau.records.engine import decode_batch

MIN_PARTS: Final = 2


def split(accumulator: Accumulator, batch: Batch) -> list[Batch]:
    """Split a batch into parts of about half its size, or of batch.size if that is smaller; at least two.

    The parts keep its creation time. The batch must have more than one record. Its futures and callbacks become those
    of the parts.
    """
    records = decode_batch(
        seal(
            batch.records(),
            count=batch.count,
            last_offset_delta=batch.count - 1,
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
        )
    )
    most = min(accumulator.batch_size, HEADER_SIZE + (batch.size - HEADER_SIZE) // MIN_PARTS)
    callbacks = {future.index: callback for future, callback in batch.callbacks()}
    parts: list[Batch] = []
    part: Batch | None = None
    for index, record in enumerate(records):
        if part is None or part.size >= most:
            part = accumulator.new_batch(batch.queue, batch.created_at)
            part.attempts = batch.attempts
            parts.append(part)
        part.add(record.timestamp, record.key, record.value, record.headers, callbacks.get(index))
    batch.split(parts)
    return parts
