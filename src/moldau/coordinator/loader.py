"""Loading of a coordinator's partition: reads and decodes batches in a thread, and replays them into the shard."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from moldau.coordinator.outcome import Shard
from moldau.log.log import Log
from moldau.records import NO_PRODUCER_ID, BatchRecord, ControlType, decode_batch, parse_marker, peek_header
from moldau.records.batch_layout import BATCH_STEP, CONTROL_BIT, FLAGS_AT, LENGTH_END, TRANSACTIONAL_BIT

LOAD_CHUNK_BYTES = 2 << 20
REPLAYS_PER_TURN = 2_000
"""Records that are replayed before the loop may serve clients again."""

_SPECIAL = TRANSACTIONAL_BIT | CONTROL_BIT
"""Bits in the attributes of a batch: transactional, control."""


class StoredBatch(NamedTuple):
    """One decoded batch of an internal topic, or several consecutive batches that are not transactional."""

    producer_id: int
    transactional: bool
    marker: bool | None
    """For a marker: whether the transaction was committed. None for other batches."""
    records: list[BatchRecord]


class Chunk(NamedTuple):
    batches: list[StoredBatch]
    next_offset: int


def read_chunk(source: Log, offset: int, end_offset: int) -> Chunk:
    """Read batches from `offset` on, up to about LOAD_CHUNK_BYTES. Runs in a thread."""
    data = source.read(offset, LOAD_CHUNK_BYTES, end_offset)
    assert data is not None  # only reads with `cached_only` may return None
    batches: list[StoredBatch] = []
    at = 0
    while at < len(data):
        base_offset, length, _, last_delta = BATCH_STEP.unpack_from(data, at)
        if data[at + FLAGS_AT] & _SPECIAL:
            header = peek_header(data, at)
            if not header.is_control:
                batches.append(StoredBatch(header.producer_id, True, None, decode_batch(data, at)))
            elif (type_ := parse_marker(data, at).type) in (ControlType.COMMIT, ControlType.ABORT):
                batches.append(StoredBatch(header.producer_id, True, type_ == ControlType.COMMIT, []))
        elif not batches or batches[-1].transactional:
            batches.append(StoredBatch(NO_PRODUCER_ID, False, None, decode_batch(data, at)))
        else:
            batches[-1].records.extend(decode_batch(data, at))
        at += LENGTH_END + length
        offset = base_offset + last_delta + 1
    return Chunk(batches, offset)


async def replay_chunk(shard: Shard, chunk: Chunk) -> int:
    """Replay a chunk in several turns of the loop. Returns the number of records."""
    replayed = in_turn = 0
    for batch in chunk.batches:
        for at in range(0, len(batch.records) or 1, REPLAYS_PER_TURN):
            replay_batch(shard, batch, at, at + REPLAYS_PER_TURN)
            in_turn += min(len(batch.records) - at, REPLAYS_PER_TURN)
            if in_turn >= REPLAYS_PER_TURN:
                in_turn = 0
                await asyncio.sleep(0)
        replayed += len(batch.records)
    return replayed


def replay_batch(shard: Shard, batch: StoredBatch, first: int = 0, last: int | None = None) -> None:
    """Replay a stored batch, or some of its records, into a shard."""
    if batch.marker is not None:
        shard.replay_marker(batch.producer_id, batch.marker)
    elif batch.transactional:
        for record in batch.records[first:last]:
            if record.key is not None:
                shard.replay_pending(batch.producer_id, record.key, record.value)
    else:
        replay = shard.replay
        for _, _, key, value, _ in batch.records[first:last]:
            if key is not None:
                replay(key, value)
