"""Arrow columns to batches: native code equals the reference, and round trips through `decode_batch`."""

from __future__ import annotations

import datetime
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.records import BatchRecord, Codec, arrow_encode_reference, check_batch, decode_batch
from moldau.records.arrow import decode_batches
from moldau.records.arrow_encode import ColumnNames, InputRows, encode_batches, rows_of
from moldau.records.arrow_layout import Cells, EncodedRows, RowCells
from moldau.records.murmur2 import murmur2

try:
    from moldau.records import _arrow_encode
except ImportError:
    _arrow_encode = None  # type: ignore[assignment]

needs_native = pytest.mark.skipif(_arrow_encode is None, reason="the native twin is not built")
ALL = ColumnNames("value", "key", "timestamp", "headers", "partition")

PARTITIONS = 3
NOW = 1_700_000_000_000

# Tables ---------------------------------------------------------------------------------------------------------------

BINARY_TYPES = [
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.binary()),
    pa.dictionary(pa.int32(), pa.string()),
    pa.binary(5),
    pa.null(),
]
HEADER_TYPES = [
    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    pa.large_list(pa.struct([("k", pa.binary()), ("v", pa.large_binary())])),
    pa.map_(pa.string(), pa.binary()),
]
texts = st.none() | st.text("aé", max_size=40) | st.text("xyz", min_size=100, max_size=200)


@st.composite
def binary_arrays(draw: st.DrawFn, rows: int) -> pa.Array:
    type_ = draw(st.sampled_from(BINARY_TYPES))
    if pa.types.is_null(type_):
        return pa.nulls(rows)
    if pa.types.is_fixed_size_binary(type_):
        return pa.array(
            draw(st.lists(st.none() | st.binary(min_size=5, max_size=5), min_size=rows, max_size=rows)), type_
        )
    found = draw(st.lists(texts, min_size=rows, max_size=rows))
    if pa.types.is_dictionary(type_):
        return pa.array(found, type_.value_type).dictionary_encode()
    return pa.array(found, type_)


@st.composite
def header_arrays(draw: st.DrawFn, rows: int) -> pa.Array:
    type_ = draw(st.sampled_from(HEADER_TYPES))
    pair = st.tuples(st.text("ké", max_size=3), st.none() | st.binary(max_size=150))
    found = draw(st.lists(st.none() | st.lists(pair, max_size=3), min_size=rows, max_size=rows))
    if pa.types.is_map(type_):
        return pa.array(found, type_)
    names = [field.name for field in type_.value_type]
    return pa.array(
        [None if one is None else [dict(zip(names, pair, strict=True)) for pair in one] for one in found], type_
    )


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Every kind of column, in chunks and slices, so that values do not start at the beginning of buffers."""
    rows = draw(st.integers(0, 12))
    moments = st.none() | st.integers(0, 2**37)  # as seconds, still a year that Python supports
    columns = {
        "value": draw(binary_arrays(rows)),
        "key": draw(binary_arrays(rows)),
        "timestamp": pa.array(
            draw(st.lists(moments, min_size=rows, max_size=rows)),
            draw(st.sampled_from([pa.int64(), pa.timestamp("ms"), pa.timestamp("us", tz="UTC"), pa.timestamp("s")])),
        ),
        "headers": draw(header_arrays(rows)),
        "partition": pa.array(
            draw(st.lists(st.none() | st.integers(0, PARTITIONS - 1), min_size=rows, max_size=rows)),
            draw(st.sampled_from([pa.int8(), pa.int32(), pa.uint64()])),
        ),
    }
    table = pa.table(columns)
    start = draw(st.integers(0, rows))
    cut = draw(st.integers(0, rows))
    return pa.concat_tables([table.slice(start), table.slice(0, cut)])


def run(module: ModuleType, pieces: list[InputRows], batch_bytes: int) -> list[Any]:
    """Everything that an encoder returns for these rows."""
    given: list[Any] = []
    encoder = module.RowEncoder(PARTITIONS, batch_bytes, NOW)
    turn = 0
    for rows in pieces:
        given.append(module.check_rows(rows.cells, rows.first_row, 1 << 20))
        chosen = module.choose_partitions(rows.cells, rows.first_row, rows.partition, PARTITIONS, True)
        given.append(bytes(chosen))
        row = 0
        while row < rows.cells.rows:
            encoder.sticky = turn % PARTITIONS
            turn += 1
            row = encoder.encode(rows.cells, chosen, row)
            given += [row, encoder.take_full(), encoder.take_full()]
    return [*given, encoder.flush(), encoder.flush()]


@needs_native
@given(table=tables(), batch_bytes=st.integers(62, 700))
def test_both_codecs_write_the_same_bytes(table: pa.Table, batch_bytes: int) -> None:
    pieces = rows_of(table, ALL, NOW)
    assert run(_arrow_encode, pieces, batch_bytes) == run(arrow_encode_reference, pieces, batch_bytes)


def in_bytes(found: Any) -> bytes | None:
    return found.encode() if isinstance(found, str) else found


def expected_records(table: pa.Table) -> list[tuple[int, BatchRecord]]:
    """The records of a table by row, as partition and record; offsets are not compared."""
    found = []
    for row in table.to_pylist():
        when = row["timestamp"]
        if isinstance(when, datetime.datetime):
            when = (
                when.replace(tzinfo=datetime.UTC) - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            ) // datetime.timedelta(milliseconds=1)
        pairs = [tuple(one.values()) if isinstance(one, dict) else one for one in row["headers"] or []]
        headers = tuple((name if isinstance(name, str) else name.decode(), value) for name, value in pairs)
        key = in_bytes(row["key"])
        partition = row["partition"]
        if partition is None:
            partition = 0 if key is None else (murmur2(key) & 0x7FFFFFFF) % PARTITIONS
        found.append((partition, BatchRecord(0, NOW if when is None else when, key, in_bytes(row["value"]), headers)))
    return found


@given(table=tables(), codec=st.sampled_from(Codec), batch_bytes=st.integers(62, 700))
def test_encoded_rows_are_decoded_again_in_order_per_partition(table: pa.Table, codec: Codec, batch_bytes: int) -> None:
    expected = expected_records(table)
    seen: list[tuple[int, BatchRecord]] = []
    for partition, batch in encode_batches(
        table, ALL, partitions=PARTITIONS, batch_bytes=batch_bytes, default_timestamp=NOW, codec=codec
    ):
        assert check_batch(batch, 0).size == len(batch)
        seen += [(partition, record._replace(offset=0)) for record in decode_batch(batch)]
    for partition in range(PARTITIONS):
        assert [one for one in seen if one[0] == partition] == [one for one in expected if one[0] == partition]


# Rules ----------------------------------------------------------------------------------------------------------------


def test_a_table_survives_encoding_and_decoding() -> None:
    table = pa.table({"value": [f"value {i}".encode() * 20 for i in range(2_000)], "key": [None, b"k"] * 1_000})
    batches = list(encode_batches(table, ColumnNames(key="key"), codec=Codec.ZSTD))
    assert len(batches) > 1
    [rows] = decode_batches([("t", partition, batch) for partition, batch in batches])
    assert rows["value"].equals(table["value"].combine_chunks())
    assert rows["key"].equals(table["key"].combine_chunks())


def test_a_batch_is_closed_when_the_next_row_might_not_fit() -> None:
    table = pa.table({"value": [bytes(100)] * 3_000})
    sizes = [len(batch) for _, batch in encode_batches(table, batch_bytes=64 * 1024)]
    assert all(64 * 1024 - 200 < size <= 64 * 1024 for size in sizes[:-1])


def test_a_row_larger_than_a_batch_gets_its_own_batch() -> None:
    table = pa.table({"value": [b"a", bytes(5_000), b"b"]})
    found = [decode_batch(batch) for _, batch in encode_batches(table, batch_bytes=1_000)]
    assert [len(records[0].value or b"") for records in found] == [1, 5_000, 1]


@pytest.mark.parametrize("module", [arrow_encode_reference, pytest.param(_arrow_encode, marks=needs_native)])
def test_many_partitions_share_the_rows_of_one_table(module: ModuleType) -> None:
    count = 1_000
    table = pa.table({"value": [b"%d" % i for i in range(3 * count)], "partition": list(range(count)) * 3})
    [rows] = rows_of(table, ColumnNames(partition="partition"), NOW)
    encoder = module.RowEncoder(count, 64 * 1024, NOW)
    assert encoder.encode(rows.cells, rows.partition, 0) == 3 * count
    batches: list[EncodedRows] = encoder.flush()
    assert [(batch.partition, batch.count) for batch in batches] == [(partition, 3) for partition in range(count)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": [1]}, "column 'value' is int64; keys, values and headers are binary or string"),
        ({"vlaue": [b""]}, "there is no column 'value'; did you mean 'vlaue'?"),
        ({"value": [b""], "timestamp": ["now"]}, "column 'timestamp' is string; timestamps are"),
        ({"value": [b""], "partition": [0.5]}, "column 'partition' is double; partitions are whole numbers"),
        ({"value": [b""], "partition": [-3]}, "column 'partition' has a partition -3"),
        ({"value": [b""], "headers": [[b"x"]]}, "column 'headers' is list<item: binary>; headers are"),
        ({"value": [b""], "headers": [[None, {"k": "a", "v": b""}]]}, "column 'headers' has a header that is null"),
        ({"value": [b"", b""], "headers": [[], [{"k": None, "v": b""}]]}, "row 1: a header's key is null"),
        ({"value": [b"", b""], "timestamp": [5, -5]}, "row 1: its timestamp is -5"),
        ({"value": [b"", bytes(1_000)]}, "row 1: it takes 1036 bytes as a record, and 900 are allowed"),
        ({"value": [b"", b""], "partition": [0, 2]}, "row 1: its partition is 2; there are 2 partitions"),
    ],
)
def test_a_row_that_cannot_be_encoded_is_reported_before_any_is_sent(
    columns: dict[str, list[Any]], message: str
) -> None:
    table = pa.table(columns)
    names = ColumnNames(**{name: name for name in ("timestamp", "partition", "headers") if name in columns})
    with pytest.raises((TypeError, ValueError)) as refusal:
        list(encode_batches(table, names, max_record_bytes=900, partitions=2))
    assert message in str(refusal.value)


@pytest.mark.parametrize("module", [arrow_encode_reference, pytest.param(_arrow_encode, marks=needs_native)])
@pytest.mark.parametrize("offsets", [[5, 3], [0, 99], [-1, 2]])
def test_damaged_arrays_are_refused_and_not_read_past_their_end(module: ModuleType, offsets: list[int]) -> None:
    places = b"".join(one.to_bytes(4, "little", signed=True) for one in offsets)
    cells = RowCells(1, Cells(None, places, b"0123456789", 4, 0, 0), None, None, None)
    for attempt in (
        lambda: module.check_rows(cells, 7, 1 << 20),
        lambda: module.choose_partitions(cells._replace(key=cells.value), 7, None, 2, True),
    ):
        with pytest.raises(ValueError, match="row 7: a cell lies outside its column's data"):
            attempt()
    with pytest.raises(ValueError, match="row 0: a cell lies outside"):
        module.RowEncoder(1, 1000, NOW).encode(cells, None, 0)


@needs_native
def test_buffers_that_are_too_short_for_their_rows_are_refused() -> None:
    short = RowCells(100, Cells(None, bytes(8), b"", 4, 0, 0), None, None, None)
    with pytest.raises(ValueError, match="should have 404; the array is damaged"):
        _arrow_encode.check_rows(short, 0, 1 << 20)


def test_anything_but_a_table_is_refused() -> None:
    with pytest.raises(TypeError, match=r"pyarrow.Table or RecordBatch, or a pandas.DataFrame, not from list"):
        rows_of([b"rows"], ColumnNames(), NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "hashed"),
    # From org.apache.kafka.common.utils.UtilsTest, as numbers without a sign
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536), (b"abc", 479470107)],
)
def test_the_hash_is_kafkas(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF
