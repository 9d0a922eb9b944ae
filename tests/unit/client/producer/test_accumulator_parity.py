"""Accumulator parity: the same calls give the same batches in both implementations, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.producer import accumulator as reference
from moldau.client.producer.partitioners import murmur2
from tests.unit.client.producer.twins import TOPIC, Harness, Refused, native

pytestmark = pytest.mark.skipif(native is None, reason="the native twin was not built")

contents = st.none() | st.binary(max_size=400)
records = st.fixed_dictionaries(
    {
        "value": contents,
        "key": contents,
        "timestamp": st.integers(0, 2**63 - 1) | st.integers(1_700_000_000_000, 1_700_000_100_000),
        "headers": st.lists(st.tuples(st.text(max_size=10), contents), max_size=3),
        "partition": st.integers(-1, 3),
    }
)


@given(st.lists(records, max_size=30), st.integers(60, 2_000), st.integers(500, 10_000))
def test_the_same_records_make_the_same_batches(given_records: list[dict[str, Any]], size: int, memory: int) -> None:
    seen = []
    for twin in (reference, native):
        harness = Harness(twin, partitions=3, batch_size=size, memory=memory)
        happened: list[Any] = []
        for record in given_records:
            try:
                future = harness.send(**record)
                happened.append((future.index, future.timestamp))
            except Refused as refused:
                happened.append(str(refused))
        happened.append((harness.woken, harness.accumulator.memory_used))
        happened.extend(
            (
                batch.queue.index,
                batch.count,
                batch.size,
                batch.memory,
                batch.base_timestamp,
                batch.max_timestamp,
                bytes(batch.records()),
            )
            for batch in harness.drain()
        )
        seen.append(happened)
    assert seen[0] == seen[1]


@given(st.binary(max_size=100), st.integers(1, 1000))
def test_the_same_key_goes_to_the_same_partition(key: bytes, partitions: int) -> None:
    harness = Harness(native, partitions=partitions)
    harness.accumulator.send(TOPIC, b"", key)
    (batch,) = harness.drain()
    assert batch.queue.index == (murmur2(key) & 0x7FFFFFFF) % partitions
