"""Inference of columns from JSON values, without Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.sql.declarations import ColumnDeclaration, Declaration, RelationKind
from moldau.sql.tables.json_shapes import MAX_FIELDS, SampledShape, merged, shape_of_value
from moldau.sql.tables.record_columns import event_time_column, hidden_columns, record_names


def columns_of(*values: Any) -> dict[str, str]:
    shape = SampledShape()
    shape.add(value if value is None or isinstance(value, bytes) else json.dumps(value).encode() for value in values)
    return dict(shape.columns)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], "BIGINT"),
        ([1, 2.5], "DOUBLE"),
        ([1, None], "BIGINT"),
        ([None, None], "STRING"),
        ([1, "1"], "STRING"),
        ([True, 1], "STRING"),
        ([2**70, 1], "DECIMAL(38,0)"),
        ([2**70, 1.0], "DOUBLE"),
        ([10**40], "DOUBLE"),
        ([[1], [2.5, None]], "ARRAY<DOUBLE>"),
        ([[], [{"a": 1}]], "ARRAY<STRUCT<a: BIGINT>>"),
        ([[1], 1], "STRING"),
        ([{"a": 1}, {"b": "x"}], "STRUCT<a: BIGINT, b: STRING>"),
        ([{"a": 1}, {"a": {"c": True}}], "STRUCT<a: STRING>"),
        ([{}, {}], "STRING"),
        ([{"a b": 1, "x.y": 2}], "STRUCT<`a b`: BIGINT, `x.y`: BIGINT>"),
        ([{"a": 1}, {"A": 1}], "STRING"),
        ([{str(number): 1 for number in range(MAX_FIELDS + 1)}], "STRING"),
    ],
)
def test_a_field_gets_a_type_that_holds_all_its_values(values: list[Any], expected: str) -> None:
    assert columns_of(*({"f": value} for value in values)) == {"f": expected}


def test_fields_of_all_records_become_columns_in_the_order_of_their_first_record() -> None:
    assert list(columns_of({"b": 1}, {"a": 1, "b": 2}, None, b"not json", {"c": None})) == ["b", "a", "c"]


def test_a_field_that_differs_in_case_only_has_no_column_of_its_own() -> None:
    shape = SampledShape()
    shape.add([b'{"id": 1}', b'{"ID": "x", "b": 1}'])
    assert shape.columns == [("id", "BIGINT"), ("b", "BIGINT")]
    assert shape.dropped == {"ID"}


@pytest.mark.parametrize(
    "values", [[b"text"], [b"1", b"2"], [b'"a"'], [b"[1]"], [b"\xff\xfe"], [None], [], [b"[" * 5000]]
)
def test_values_that_are_no_objects_give_no_columns(values: list[bytes | None]) -> None:
    shape = SampledShape()
    shape.add(values)
    assert not shape.is_json and shape.columns == []


def test_a_few_bad_records_do_not_hide_the_columns() -> None:
    shape = SampledShape()
    shape.add([b'{"a": 1}', b"oops", b'{"a": 2}'])
    assert shape.is_json and shape.records == 3


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abAB"), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values, json_values)
def test_merging_does_not_depend_on_the_order(one: Any, two: Any, three: Any) -> None:
    a, b, c = (shape_of_value(value) for value in (one, two, three))
    assert _sorted(merged(merged(a, b), c)) == _sorted(merged(c, merged(b, a)))
    assert merged(a, a).ddl() == a.ddl()


def _sorted(shape: Any) -> Any:
    inner = {name: _sorted(one) for name, one in sorted(shape.fields.items())}
    return shape.kind, inner, None if shape.element is None else _sorted(shape.element)


def test_a_field_with_the_name_of_a_record_column_wins() -> None:
    assert record_names(["Key", "_key", "offset"]) == {
        "key": "__key",
        "value": "value",
        "timestamp": "timestamp",
        "partition": "partition",
        "offset": "_offset",
        "headers": "headers",
    }


def test_a_star_hides_the_record_columns_of_declared_relations_only() -> None:
    columns = (ColumnDeclaration("timestamp", "BIGINT"),)
    declared = Declaration("s", RelationKind.STREAM, "s", columns, text="CREATE STREAM s")
    assert "offset" in hidden_columns(declared) and "_timestamp" in hidden_columns(declared)
    assert event_time_column(declared) == "_timestamp"
    assert hidden_columns(Declaration("s", RelationKind.STREAM, "s", columns)) == ()
    assert hidden_columns(Declaration("s", RelationKind.STREAM, "s", (), text="CREATE STREAM s")) == ()
