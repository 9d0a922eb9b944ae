"""Schemaless JSON as columns of files and tables: nulls, missing fields, and values without a common type."""

from __future__ import annotations

import pyarrow as pa

from moldau.connect import json_columns
from moldau.connect.connectors.file_formats import table_of
from moldau.connect.connectors.lake_sink import lake_columns
from moldau.connect.record_batch import ValueColumn

TEXTS = pa.array(['{"p":10,"tags":[1,"x"],"o":{"q":1,"r":null},"n":null}', '{"p":10.5,"tags":[],"o":{"q":2.5}}', "{}"])
ROWS = [
    {"p": 10.0, "tags": ["1", '"x"'], "o": {"q": 1.0, "r": None}, "n": None},
    {"p": 10.5, "tags": [], "o": {"q": 2.5, "r": None}, "n": None},
    {"p": None, "tags": None, "o": None, "n": None},
]


def test_values_without_a_common_type_are_texts_in_files() -> None:
    (run,) = json_columns.decode(TEXTS)
    table = table_of(ValueColumn(run))
    assert table.to_pylist() == ROWS
    assert table.schema.field("tags").type.value_type == pa.string()


def test_values_without_a_common_type_are_texts_in_tables() -> None:
    (run,) = json_columns.decode(TEXTS)
    columns = lake_columns(ValueColumn(run))
    assert columns.field("tags").type.value_type in (pa.string(), pa.large_string())
    assert columns.field("tags").to_pylist() == [["1", '"x"'], [], None]
