from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from moldau.client.errors import ConfigurationError
from moldau.records import BatchRecord, encode_batch
from moldau.records.arrow import decode_batches
from moldau.spark.rows import COLUMNS, RowMaker, check_schema, repeated, row_schema

HEADERS = [(), (("a", b"1"), ("b", None)), (), (("c", b""),)]


@pytest.fixture
def decoded() -> pa.RecordBatch:
    """Four rows, as the consumer returns them."""
    records = [
        BatchRecord(offset=number, timestamp=1000 + number, key=None, value=b"%d" % number, headers=headers)
        for number, headers in enumerate(HEADERS)
    ]
    (batch,) = decode_batches([("t", 3, encode_batch(records))], headers=True)
    return batch


@pytest.mark.parametrize("headers", [False, True])
def test_batches_have_exactly_the_schema_that_spark_expects(decoded: pa.RecordBatch, headers: bool) -> None:
    schema = row_schema(headers=headers)
    made = RowMaker(schema).make(decoded, "t", 3)
    assert made.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    made.validate(full=True)
    assert made.column("topic").to_pylist() == ["t"] * 4
    assert made.column("partition").to_pylist() == [3] * 4
    assert made.column("timestamp").cast(pa.int64()).to_pylist() == [1_000_000, 1_001_000, 1_002_000, 1_003_000]


@pytest.mark.parametrize("start", [0, 1, 3])
def test_a_slice_has_the_headers_of_its_own_rows(decoded: pa.RecordBatch, start: int) -> None:
    made = RowMaker(COLUMNS).make(decoded.slice(start, 2), "t", 3)
    made.validate(full=True)
    expected = [
        [{"key": key, "value": value} for key, value in headers] or None for headers in HEADERS[start : start + 2]
    ]
    assert made.column("headers").to_pylist() == expected


def test_columns_are_in_the_requested_order(decoded: pa.RecordBatch) -> None:
    schema = StructType([COLUMNS["offset"], COLUMNS["value"]])
    check_schema(schema)
    assert RowMaker(schema).make(decoded, "t", 3).to_pylist()[2] == {"offset": 2, "value": b"2"}


def test_a_schema_of_something_else_is_refused() -> None:
    for wrong in ("value STRING", "amount DOUBLE", "Value BINARY"):
        name, kind = wrong.split()
        with pytest.raises(ConfigurationError, match=name):
            check_schema(StructType().add(name, kind.lower()))


def test_a_repeated_value_is_there_as_often_as_wanted() -> None:
    for rows in (0, 1, 2, 3, 1000, 1025):
        assert repeated("x", rows).to_pylist() == ["x"] * rows
        assert repeated(7, rows).type == pa.int32()
