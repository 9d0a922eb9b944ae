"""A batch that the broker finds too large, cut into smaller ones with the same records in the same order."""

from __future__ import annotations

from typing import Final

from moldau.client.producer.engine import Accumulator, Batch
from moldau.records.batch import seal
from moldau.records.engine import decode_batch
from moldau.records.model import HEADER_SIZE

MIN_PARTS: Final = 2


def split(accumulator: Accumulator, batch: Batch) -> list[Batch]:
    """Parts of about half its size, or of batch.size if that is smaller; at least two. They inherit its age.

    The batch must have more than one record. Its futures and callbacks are those of the parts from here on.
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
