"""Reads a coordinator's partition: batches out of the log, decoded in a thread, handed to the shard in portions."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from moldau.groups.outcome import Shard
from moldau.log.log import Log
from moldau.log.scan import BATCH_STEP, LENGTH_END
from moldau.records import NO_PRODUCER_ID, ControlType, Record, decode_batch, parse_marker, peek_header

LOAD_CHUNK_BYTES = 2 << 20
REPLAYS_A_TURN = 2_000
"""Records replayed before the loop gets to look after its clients again."""

_FLAGS_AT = 22
_SPECIAL = 0x30
"""In a batch's attributes: of a transaction, or a marker."""


class StoredBatch(NamedTuple):
    """One batch of an internal topic, decoded; or several neighbours that belong to no transaction."""

    producer_id: int
    transactional: bool
    marker: bool | None
    """Whether the transaction was committed, where the batch is the marker that ends it."""
    records: list[Record]


class Chunk(NamedTuple):
    batches: list[StoredBatch]
    next_offset: int


def read_chunk(source: Log, offset: int, end_offset: int) -> Chunk:
    """The batches from `offset` on, a few megabytes of them. Runs in a thread."""
    data = source.read(offset, LOAD_CHUNK_BYTES, end_offset)
    assert data is not None  # only a read of the cache may come back without data
    batches: list[StoredBatch] = []
    at = 0
    while at < len(data):
        base_offset, length, _, last_delta = BATCH_STEP.unpack_from(data, at)
        if data[at + _FLAGS_AT] & _SPECIAL:
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
    """Replays a chunk, a turn of the loop at a time; how many records it had."""
    replayed = in_turn = 0
    for batch in chunk.batches:
        for at in range(0, len(batch.records) or 1, REPLAYS_A_TURN):
            replay_batch(shard, batch, at, at + REPLAYS_A_TURN)
            in_turn += min(len(batch.records) - at, REPLAYS_A_TURN)
            if in_turn >= REPLAYS_A_TURN:
                in_turn = 0
                await asyncio.sleep(0)
        replayed += len(batch.records)
    return replayed


def replay_batch(shard: Shard, batch: StoredBatch, first: int = 0, last: int | None = None) -> None:
    """Hands a stored batch, or some of its records, to a shard."""
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
