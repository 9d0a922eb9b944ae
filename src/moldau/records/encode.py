"""Encoding of records into batches, for clients, coordinators, tools and tests."""

from collections.abc import Iterable

from moldau.records.batch import seal
from moldau.records.batch_layout import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchRecord,
    Codec,
    TimestampType,
)
from moldau.records.engine import RecordsBuilder


def encode_batch(
    records: Iterable[BatchRecord],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """One batch of `records`, each at its own offset; ValueError if the offsets are not increasing.

    The batch spans the offsets from the first record to the last one. `base_offset` and `last_offset` can extend it: a
    batch keeps its span when compaction removes records, and may then have none.
    """
    builder = RecordsBuilder()
    for record in records:
        if base_offset is None:
            base_offset = record.offset
        builder.append(record.offset - base_offset, record.timestamp, record.key, record.value, record.headers)
    if base_offset is None:
        base_offset = 0
    last_offset_delta = builder.last_offset_delta
    if last_offset is not None:
        if last_offset - base_offset < last_offset_delta:
            raise ValueError(f"the batch cannot end at {last_offset}: it holds {base_offset + last_offset_delta}")
        last_offset_delta = last_offset - base_offset
    if last_offset_delta < 0:
        raise ValueError("a batch without records needs the offsets that it spans")
    return seal(
        builder.records(),
        count=builder.count,
        last_offset_delta=last_offset_delta,
        base_timestamp=NO_TIMESTAMP if builder.base_timestamp is None else builder.base_timestamp,
        max_timestamp=builder.max_timestamp,
        base_offset=base_offset,
        codec=codec,
        level=level,
        timestamp_type=timestamp_type,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        leader_epoch=leader_epoch,
    )
