"""Schema ids of record batches: before the data and in headers, one schema and several."""

from __future__ import annotations

import random

import pytest

from moldau.broker.schema_ids.batch_schema_ids import batch_schema_ids
from moldau.records import BatchRecord, Codec, encode_batch, walk
from moldau.schemas.errors import SchemaError
from moldau.schemas.serializers.schema_ids import read_id
from moldau.schemas.wire_format import KEY_ID_HEADER, VALUE_ID_HEADER, prefix

STARTS = [
    None,
    b"",
    b"\0",
    b"\0\0\0\0",
    prefix(1),
    prefix(1) + b"x",
    prefix(2),
    prefix(-1),
    b"\1\0\0\0\1",
    b"text" * 50,
]
HEADERS: list[tuple[tuple[str, bytes | None], ...]] = [
    (),
    (("other", b"x" * 200), (VALUE_ID_HEADER, prefix(3))),
    ((VALUE_ID_HEADER, b"\1" + bytes(range(16))),),
    ((KEY_ID_HEADER, prefix(4)), ("empty", None)),
    ((VALUE_ID_HEADER, b"\2"),),
    ((VALUE_ID_HEADER, None),),
]


def expected(records: list[BatchRecord], is_key: bool) -> tuple[dict[int | str, list[int]], list[int]]:
    """The readable twin: each record by itself."""
    found: dict[int | str, list[int]] = {}
    malformed = []
    for index, record in enumerate(records):
        data = record.key if is_key else record.value
        if data is not None:
            try:
                found.setdefault(read_id(data, list(record.headers), is_key)[0], []).append(index)
            except SchemaError:
                malformed.append(index)
    return found, malformed


@pytest.mark.parametrize("is_key", [False, True])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_every_record_has_the_id_that_a_deserializer_reads(is_key: bool, codec: Codec, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        starts = chance.sample(STARTS, chance.randrange(1, 4))
        headers = chance.sample(HEADERS, chance.randrange(1, 3)) if chance.random() < 0.5 else [()]
        records = [
            BatchRecord(at, 1, chance.choice(starts), chance.choice(starts), chance.choice(headers))
            for at in range(chance.randrange(1, 8))
        ]
        found = batch_schema_ids(walk(encode_batch(records, codec=codec), 0), is_key=is_key)
        ids, malformed = expected(records, is_key)
        assert {one: sorted(indexes) for one, indexes in found.records.items()} == ids
        assert [index for index, _ in found.malformed] == malformed


def test_a_batch_of_one_schema_is_one_group() -> None:
    records = [BatchRecord(at, 1, None, prefix(7) + bytes(at)) for at in range(1000)]
    found = batch_schema_ids(walk(encode_batch(records), 0), is_key=False)
    assert found.records == {7: range(1000)}
    assert batch_schema_ids(walk(encode_batch(records), 0), is_key=True) == ({}, [])
