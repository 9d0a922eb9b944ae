"""Decoder parity: the C code and the Python reference give the same records and the same errors."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer import decode_reference
from moldau.records.batch import peek_header
from moldau.records.batch_layout import HEADER_SIZE, BatchHeader, BatchRecord, TimestampType
from moldau.records.encode import encode_batch
from moldau.records.errors import BatchError

native = pytest.importorskip("moldau.client.consumer._decode", reason="built without a compiler")

FIELDS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers", "leader_epoch")


def fields(record: Any) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in FIELDS)


def decoded(module: Any, data: bytes, header: BatchHeader, wanted: int, limit: int) -> list[object]:
    """The decoded records, a few at a time, and the final error, if there is one, twice."""
    found: list[object] = []
    records = module.BatchRecords(data, header, "t", 7, wanted)
    while records.left:
        out: list[Any] = []
        try:
            taken = records.take(out, limit)
        except BatchError as error:
            found += [fields(record) for record in out]
            with pytest.raises(BatchError) as again:
                records.take(out, limit)
            return [*found, type(error), str(error), str(again.value)]
        assert taken == len(out)
        found += [fields(record) for record in out]
    return found


maybe_bytes = st.none() | st.binary(max_size=20)
records_of = st.lists(
    st.tuples(
        st.integers(1, 5),
        st.integers(0, 2**40),
        maybe_bytes,
        maybe_bytes,
        st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


def batch_of(described: list[Any], start: int, append_time: bool) -> bytes:
    records, offset = [], start
    for gap, timestamp, key, value, headers in described:
        records.append(BatchRecord(offset, timestamp, key, value, headers))
        offset += gap
    kind = TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME
    return bytes(encode_batch(records, timestamp_type=kind, leader_epoch=4))


@given(records_of, st.integers(0, 2**40), st.booleans(), st.integers(-3, 40), st.integers(1, 7))
def test_both_decoders_agree_on_every_batch(
    described: list[Any], start: int, append_time: bool, skip: int, limit: int
) -> None:
    batch = batch_of(described, start, append_time)
    header = peek_header(batch)
    outcomes = [
        decoded(module, batch[HEADER_SIZE:], header, start + skip, limit) for module in (native, decode_reference)
    ]
    assert outcomes[0] == outcomes[1]


@given(records_of, st.integers(0, 10_000), st.integers(0, 255), st.integers(-2, 2), st.integers(1, 7))
def test_both_decoders_agree_on_damaged_batches(
    described: list[Any], place: int, byte: int, count: int, limit: int
) -> None:
    batch = batch_of(described, 10, False)
    header = peek_header(batch)
    header = header._replace(count=max(header.count + count, 1))
    data = bytearray(batch[HEADER_SIZE:])
    data[place % len(data)] = byte
    outcomes = [decoded(module, bytes(data), header, 0, limit) for module in (native, decode_reference)]
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("module", [native, decode_reference])
class TestARecord:
    def test_has_a_list_of_headers_of_its_own(self, module: Any) -> None:
        one, other = module.Record("t", 0, 1), module.Record("t", 0, 2)
        one.headers.append(("h", b"v"))
        assert one.headers == [("h", b"v")] and other.headers == []

    def test_can_be_pickled(self, module: Any) -> None:
        record = module.Record("t", 0, 1, timestamp=5, key=b"k", value={"a": 1}, headers=[("h", None)], leader_epoch=2)
        assert fields(pickle.loads(pickle.dumps(record))) == fields(record)

    def test_shows_where_it_comes_from(self, module: Any) -> None:
        assert "topic='t', partition=4, offset=17" in repr(module.Record("t", 4, 17))
