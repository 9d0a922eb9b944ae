"""Filtering of one batch by the cleaner: keeps it, rewrites it, keeps only its header, or drops it.

A batch keeps its base offset, last offset, producer, epoch, sequence and leader epoch, whichever records are removed.
So no offset ever changes, and the last sequence of a producer can be read from the log while it may be needed.

Tombstones (records without a value) are kept until every reader had `delete.retention.ms` to see them. The first
cleaning that meets one writes the end of that time, the delete horizon, into its batch (bit 6 of the attributes, and
the base timestamp). The first cleaning after that time removes the tombstone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.log.clean.engine import OffsetMap, sift
from moldau.log.clean.engine_interface import NO_HORIZON
from moldau.log.clean.transaction_filter import TransactionFilter
from moldau.records import (
    NO_TIMESTAMP,
    BatchHeader,
    Codec,
    RecordsBuilder,
    TimestampType,
    decode_batch,
    seal,
)
from moldau.wire.number_types import ProducerId

MAX_TIMESTAMP = 2**63 - 1


class LastEntry(NamedTuple):
    """The last known batch of an active producer."""

    epoch: int
    offset: int
    """The last offset of its last data batch, -1 if only a marker of it is known."""


class CleaningRules(NamedTuple):
    """The rules of one cleaning."""

    offsets: OffsetMap
    through: int
    """The last offset that the map covers."""
    now_ms: int
    delete_retention_ms: int
    producers: Mapping[ProducerId, LastEntry]

    @property
    def horizon(self) -> int:
        return min(self.now_ms + self.delete_retention_ms, MAX_TIMESTAMP)


def filtered(
    header: BatchHeader, batch: memoryview, rules: CleaningRules, transactions: TransactionFilter, *, keep_place: bool
) -> memoryview | bytearray | None:
    """The batch to write: `batch` itself if nothing changes, a new one, or None to drop it.

    With `keep_place` the header stays even if all records are removed.
    """
    keep_place = keep_place or _is_last_of_producer(header, rules.producers)
    if header.is_control:
        return _filter_control(header, batch, rules, transactions, keep_place)
    if transactions.is_aborted(header):
        return _emptied(header, batch) if keep_place else None
    if header.base_offset > rules.through:
        return batch
    expired = header.has_delete_horizon and header.base_timestamp <= rules.now_ms
    # Set a horizon only if the map covers the whole batch: a tombstone that no cleaning has processed yet may still
    # have to remove earlier records, and its retention time starts after that.
    may_set = not header.has_delete_horizon and header.last_offset <= rules.through
    found = sift(batch, rules.offsets, rules.through, expired, rules.horizon if may_set else NO_HORIZON)
    if found.kept == 0:
        return _emptied(header, batch) if keep_place else None
    if found.records is None:
        return batch
    return _rewritten(header, found.records, found.kept, found.max_timestamp, rules.horizon if found.rebased else None)


def _is_last_of_producer(header: BatchHeader, producers: Mapping[ProducerId, LastEntry]) -> bool:
    """Whether this batch is the last one that holds the sequence, or at least the epoch, of an active producer."""
    if header.producer_id < 0:
        return False
    last = producers.get(header.producer_id)
    if last is None:
        return False
    if last.offset >= 0:
        return header.last_offset == last.offset
    return header.is_control and header.producer_epoch == last.epoch


def _filter_control(
    header: BatchHeader, batch: memoryview, rules: CleaningRules, transactions: TransactionFilter, keep_place: bool
) -> memoryview | bytearray | None:
    if not transactions.marker_is_obsolete(header, batch):
        return batch
    if header.count == 0:
        return batch if keep_place else None
    if not header.has_delete_horizon:
        return _with_horizon(header, batch, rules.horizon)
    if header.base_timestamp > rules.now_ms:
        return batch
    return _emptied(header, batch) if keep_place else None


def _emptied(header: BatchHeader, batch: memoryview) -> memoryview | bytearray:
    """The header without records, as Kafka writes it: no codec, no base timestamp."""
    if header.count == 0:
        return batch
    return seal(
        b"",
        count=0,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        base_offset=header.base_offset,
        timestamp_type=header.timestamp_type,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        leader_epoch=header.leader_epoch,
    )


def _rewritten(header: BatchHeader, records: bytes, count: int, max_timestamp: int, horizon: int | None) -> bytearray:
    """The batch with these records instead of its own."""
    return seal(
        records,
        count=count,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp if horizon is None else horizon,
        max_timestamp=max_timestamp,
        base_offset=header.base_offset,
        codec=Codec(header.codec_id),
        timestamp_type=header.timestamp_type,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        delete_horizon=header.has_delete_horizon or horizon is not None,
        leader_epoch=header.leader_epoch,
    )


def _with_horizon(header: BatchHeader, batch: memoryview, horizon: int) -> bytearray:
    """A marker that is no longer needed, with the time when it may be removed."""
    builder = RecordsBuilder(horizon)
    for record in decode_batch(batch):
        builder.append(record.offset - header.base_offset, record.timestamp, record.key, record.value, record.headers)
    append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    latest = header.max_timestamp if append_time else builder.max_timestamp
    return _rewritten(header, builder.records(), builder.count, latest, horizon)
