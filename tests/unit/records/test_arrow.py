"""Batches to Arrow rows: native code equals the reference, and the reference equals `decode_batch`."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.records import (
    BatchError,
    BatchHeader,
    BatchRecord,
    Codec,
    ControlType,
    CorruptBatch,
    InvalidBatch,
    arrow_engine,
    arrow_reference,
    decode_batch,
    encode_batch,
    encode_marker,
    peek_header,
    reseal,
)
from moldau.records.arrow import ArrowRows, BatchCursor, decode_batches, schema
from moldau.records.arrow_layout import RowColumns
from tests.unit.records.strategies import batches, mutated_batches

try:
    from moldau.records import _arrow
except ImportError:
    _arrow = None  # type: ignore[assignment]

needs_native = pytest.mark.skipif(_arrow is None, reason="the native twin is not built")


def plain(columns: Any) -> Any:
    """Columns with their buffers as bytes, so that they can be compared."""
    if isinstance(columns, tuple):
        return tuple(plain(one) for one in columns)
    return columns if columns is None or isinstance(columns, int) else bytes(columns)


def everything(
    module: ModuleType, buf: bytes, *, steps: list[int], from_offset: int, headers: bool, max_bytes: int, crcs: bool
) -> list[Any]:
    """Everything that can be observed of a codec while a buffer is read in steps, up to the end or an error."""
    seen: list[Any] = []

    def wanted(header: BatchHeader, at: int) -> bool:
        seen.append((header, at))
        return header.producer_id % 2 == 0

    cursor = module.BatchCursor(buf, from_offset=from_offset, check_crcs=crcs, wanted=wanted)
    collector = module.RowCollector(headers=headers, max_bytes=max_bytes)
    turn = 0
    while not cursor.done:
        try:
            taken = collector.take(cursor, turn, 7, steps[turn % len(steps)])
        except BatchError as error:
            seen.append((type(error), str(error), error.record_index, cursor.position, collector.rows))
            break
        seen.append((taken, cursor.position, cursor.next_offset, cursor.leader_epoch, collector.full, collector.rows))
        turn += 1
        if collector.full:
            seen.append(plain(collector.finish()))
    seen.append(plain(collector.finish()))
    seen.append(plain(collector.finish()))  # empty from here on
    return seen


ROOMY, SMALL = 2**31 - 1, 400
# If a batch is damaged and too large, each codec may choose which error comes first: the native one checks sizes before
# records. The other error comes with the next step.
SEQUENCES = st.tuples(st.lists(batches() | mutated_batches(), max_size=4), st.just(ROOMY)) | st.tuples(
    st.lists(batches(), max_size=4), st.just(SMALL)
)


@needs_native
@given(
    sized=SEQUENCES,
    steps=st.lists(st.integers(1, 20), min_size=1, max_size=3),
    from_offset=st.integers(0, 120),
    headers=st.booleans(),
    crcs=st.booleans(),
)
def test_both_codecs_see_the_same(sized: tuple[list[bytes], int], **options: Any) -> None:
    sequence, options["max_bytes"] = b"".join(sized[0]), sized[1]
    assert everything(_arrow, sequence, **options) == everything(arrow_reference, sequence, **options)


@given(sequence=st.lists(batches(), max_size=3), step=st.integers(1, 30))
def test_rows_are_the_records_that_decode_batch_gives(sequence: list[bytearray], step: int) -> None:
    expected = [record for one in sequence if not peek_header(one).is_control for record in decode_batch(one)]
    seen: list[BatchRecord] = []
    for one in sequence:  # one cursor each, since these batches are not consecutive
        cursor = arrow_engine.BatchCursor(one)
        while not cursor.done:
            collector = arrow_engine.RowCollector(headers=True)
            assert collector.take(cursor, 0, 0, step) <= step
            seen += records_of(collector.finish())
    assert seen == expected


def records_of(columns: RowColumns) -> list[BatchRecord]:
    def cells(column: Any, rows: int) -> list[bytes | None]:
        at = memoryview(column.offsets).cast("B").cast("i")
        data = bytes(column.data)
        valid = [column.validity is None or bytes(column.validity)[i >> 3] >> (i & 7) & 1 for i in range(rows)]
        return [data[at[i] : at[i + 1]] if valid[i] else None for i in range(rows)]

    assert columns.headers is not None
    names = [
        bytes(name or b"").decode("utf-8", "surrogateescape")
        for name in cells(columns.headers.key, columns.headers.count)
    ]
    headers = list(zip(names, cells(columns.headers.value, columns.headers.count), strict=True))
    list_at = memoryview(columns.headers.offsets).cast("B").cast("i")
    return [
        BatchRecord(offset, timestamp, key, value, tuple(headers[list_at[i] : list_at[i + 1]]))
        for i, (offset, timestamp, key, value) in enumerate(
            zip(
                memoryview(columns.offset).cast("B").cast("q"),
                memoryview(columns.timestamp).cast("B").cast("q"),
                cells(columns.key, columns.rows),
                cells(columns.value, columns.rows),
                strict=True,
            )
        )
    ]


# Results --------------------------------------------------------------------------------------------------------------


def test_rows_carry_kafkas_columns() -> None:
    batch = encode_batch(
        [
            BatchRecord(5, 1_700_000_000_000, b"k", b"v", [("trace", b"1"), ("empty", None)]),
            BatchRecord(6, 7, None, None),
        ],
        codec=Codec.LZ4,
    )
    [rows] = decode_batches([("orders", 3, batch)], headers=True)
    rows.validate(full=True)
    assert rows.schema == schema(headers=True)
    first, second = rows.to_pylist()
    assert first["timestamp"].timestamp() == 1_700_000_000
    assert first == first | {
        "key": b"k", "value": b"v", "topic": "orders", "partition": 3, "offset": 5, "timestamp_type": 0,
        "headers": [{"key": "trace", "value": b"1"}, {"key": "empty", "value": None}],
    }  # fmt: skip
    assert second == second | {"key": None, "value": None, "offset": 6, "headers": []}


def test_topics_and_partitions_of_many_batches_stand_in_their_rows() -> None:
    chunks = [(topic, partition, encode_batch([BatchRecord(9, value=b"v")])) for topic in "ab" for partition in (0, 1)]
    [rows] = decode_batches(chunks)
    assert [(row["topic"], row["partition"]) for row in rows.to_pylist()] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_without_batches_there_are_no_rows() -> None:
    [rows] = decode_batches([], headers=True)
    rows.validate(full=True)
    assert rows.num_rows == 0
    assert rows.schema == schema(headers=True)


def test_header_keys_that_are_not_text_are_shown_as_far_as_they_are() -> None:
    batch = encode_batch([BatchRecord(0, headers=[("ok-é", b""), ("bad\udcff", b"x")])])
    [rows] = decode_batches([("t", 0, batch)], headers=True)
    rows.validate(full=True)
    assert [one["key"] for one in rows["headers"][0].as_py()] == ["ok-é", "bad\ufffd"]


def test_control_batches_have_no_rows_and_move_the_offset() -> None:
    marker = encode_marker(
        ControlType.COMMIT, producer_id=4, producer_epoch=0, coordinator_epoch=0, timestamp=1, base_offset=2
    )
    buf = bytes(
        encode_batch([BatchRecord(0), BatchRecord(1)], producer_id=4, producer_epoch=0, transactional=True) + marker
    )
    seen: list[tuple[bool, int]] = []

    def wanted(header: BatchHeader, at: int) -> bool:
        seen.append((header.is_control, at))
        return True

    rows = ArrowRows()
    cursor = BatchCursor(buf, wanted=wanted)
    assert rows.take(cursor, "t", 0) == 2
    assert cursor.done
    assert cursor.next_offset == 3
    assert seen == [(False, 0), (True, len(buf) - len(marker))]


def test_batches_that_a_filter_refuses_are_left_out() -> None:
    ours = encode_batch([BatchRecord(0)], producer_id=1, producer_epoch=0, transactional=True)
    theirs = encode_batch([BatchRecord(1)], producer_id=2, producer_epoch=0, transactional=True)
    plain_one = encode_batch([BatchRecord(2)], producer_id=2, producer_epoch=0)
    rows = ArrowRows()
    cursor = BatchCursor(bytes(ours + theirs + plain_one), wanted=lambda header, _: header.producer_id == 1)
    assert rows.take(cursor, "t", 0) == 2
    assert rows.finish()["offset"].to_pylist() == [0, 2]


def test_rows_before_the_wanted_offset_are_skipped() -> None:
    cursor = BatchCursor(bytes(encode_batch([BatchRecord(offset) for offset in range(10, 20)])), from_offset=17)
    rows = ArrowRows()
    assert rows.take(cursor, "t", 0, 2) == 2
    assert (cursor.done, cursor.next_offset) == (False, 19)
    assert rows.take(cursor, "t", 0, 2) == 1
    assert (cursor.done, cursor.next_offset) == (True, 20)
    assert rows.finish()["offset"].to_pylist() == [17, 18, 19]


def test_a_bad_record_is_found_before_any_row_of_its_batch_is_given() -> None:
    good = encode_batch([BatchRecord(0, value=b"good")])
    bad = encode_batch([BatchRecord(offset, value=b"x") for offset in (1, 2, 3)])
    bad[-1] = 77  # the header count of the last record
    reseal(bad, 0, len(bad))
    cursor = BatchCursor(bytes(good + bad))
    rows = ArrowRows(headers=True)
    assert rows.take(cursor, "t", 0, 1) == 1
    for max_rows in (1, 100):
        with pytest.raises(InvalidBatch, match="record 2: its number of headers is -39"):
            rows.take(cursor, "t", 0, max_rows)
    assert rows.finish()["value"].to_pylist() == [b"good"]
    assert cursor.position == len(good)


def test_a_wrong_checksum_is_refused_unless_checks_are_off() -> None:
    batch = encode_batch([BatchRecord(0, value=b"value")])
    batch[-3] ^= 1
    with pytest.raises(CorruptBatch, match="CRC32C"):
        decode_batches([("t", 0, batch)])
    [rows] = decode_batches([("t", 0, batch)], check_crcs=False)
    assert rows.num_rows == 1


def test_columns_that_would_pass_two_gigabytes_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit is made small: three batches of 100 bytes do not fit into 250.
    collector = arrow_engine.RowCollector
    monkeypatch.setattr("moldau.records.arrow.RowCollector", lambda headers: collector(headers=headers, max_bytes=250))
    buf = b"".join(encode_batch([BatchRecord(offset, value=bytes(100))]) for offset in range(3))
    parts = decode_batches([("t", 0, buf)])
    assert [part["offset"].to_pylist() for part in parts] == [[0, 1], [2]]


def test_rows_outlive_the_buffer_of_their_batch() -> None:
    rows = ArrowRows()
    buf = bytearray(encode_batch([BatchRecord(0, value=b"stays")]))
    rows.take(BatchCursor(buf), "t", 0)
    buf[:] = bytes(len(buf))
    batch = rows.finish()
    del rows
    assert batch["value"].to_pylist() == [b"stays"]
    assert pa.concat_tables([pa.Table.from_batches([batch])] * 2).num_rows == 2


def test_without_pyarrow_the_error_names_the_extra_to_install() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from moldau.records.arrow import ArrowRows\n"
        "try: ArrowRows()\n"
        "except ImportError as error: assert 'moldau[arrow]' in str(error), error\n"
        "else: raise SystemExit('nothing was missed')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("position", "end"), [(-1, 5), (3, 2), (0, 99)])
def test_a_cursor_cannot_leave_its_buffer(position: int, end: int) -> None:
    with pytest.raises(ValueError, match="batches from"):
        BatchCursor(bytes(10), position, end)
