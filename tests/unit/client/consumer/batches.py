"""Small batches for consumer tests."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.consumer.fetched_partition import FetchedPartition
from moldau.client.data_types import TopicPartition
from moldau.records.batch_layout import BatchRecord, Codec
from moldau.records.control import ControlType, encode_marker
from moldau.records.encode import encode_batch

PARTITION = TopicPartition("orders", 3)


def batch(
    offsets: Iterable[int],
    *,
    base: int | None = None,
    last: int | None = None,
    codec: Codec = Codec.NONE,
    epoch: int = 5,
    producer: int | None = None,
) -> bytes:
    """Records at these offsets, with the offset as value. With a producer, they are part of a transaction."""
    records = [
        BatchRecord(offset, 1_000 + offset, b"k", b"v%d" % offset, [("h", b"%d" % offset)]) for offset in offsets
    ]
    extra = {} if producer is None else {"producer_id": producer, "producer_epoch": 0, "transactional": True}
    return bytes(encode_batch(records, base_offset=base, last_offset=last, codec=codec, leader_epoch=epoch, **extra))


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    return bytes(
        encode_marker(
            kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=1, base_offset=offset,
            leader_epoch=5,
        )
    )  # fmt: skip


def run_of(data: bytes, position: int = 0, version: int = 1, **options: object) -> FetchedPartition:
    return FetchedPartition(PARTITION, version, position, data, **options)  # type: ignore[arg-type]


def offsets_in(run: FetchedPartition, limit: int = 1_000) -> list[int]:
    """All offsets that a fetched partition returns, a few at a time."""
    found: list[int] = []
    while not run.done:
        out: list[object] = []
        run.take(out, limit)  # type: ignore[arg-type]
        found += [record.offset for record in out]  # type: ignore[attr-defined]
    return found
