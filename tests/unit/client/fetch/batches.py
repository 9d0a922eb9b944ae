"""Batches for tests: small ones, said in one line."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.consumer.run import Run
from moldau.client.model import TopicPartition
from moldau.records.control import ControlType, encode_marker
from moldau.records.encode import encode_batch
from moldau.records.model import Codec, Record

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
    """Records at these offsets whose values say them; with a producer, of a transaction."""
    records = [Record(offset, 1_000 + offset, b"k", b"v%d" % offset, [("h", b"%d" % offset)]) for offset in offsets]
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


def run_of(data: bytes, position: int = 0, version: int = 1, **options: object) -> Run:
    return Run(PARTITION, version, position, data, **options)  # type: ignore[arg-type]


def offsets_in(run: Run, limit: int = 1_000) -> list[int]:
    """All offsets that a run hands out, a few at a time."""
    found: list[int] = []
    while not run.done:
        out: list[object] = []
        run.take(out, limit)  # type: ignore[arg-type]
        found += [record.offset for record in out]  # type: ignore[attr-defined]
    return found
