"""Converters: which rows they refuse, how they divide rows into columns, and how they are found and configured."""

from __future__ import annotations

import datetime
import json
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from moldau.connect import json_columns, json_reference
from moldau.connect.config_def import ConfigError
from moldau.connect.converters import DEFAULT_HEADER_CONVERTER, Converter, converter, header_converter
from moldau.connect.converters.json_converter import JsonConverter
from moldau.connect.errors import RowError, Stage
from moldau.connect.json_schemas import from_json, to_json
from moldau.connect.plugins import UnknownPlugin
from moldau.connect.record_batch import ValueColumn
from moldau.connect.schemas import DECIMAL, Field, Schema, SchemaType, arrow_type, decimal_schema
from tests.connect.converters.random_schemas import RandomSchemas

JSON = "org.apache.kafka.connect.json.JsonConverter"


def binary(*values: bytes | str | None) -> pa.Array:
    return pa.array([one.encode() if isinstance(one, str) else one for one in values], pa.binary())


def topics(rows: int) -> pa.Array:
    return pa.repeat(pa.scalar("t"), rows)


def envelope(schema: Schema | None, payload: Any) -> str:
    return json.dumps({"schema": None if schema is None else to_json(schema), "payload": payload})


STRING = Schema(SchemaType.STRING)
POINT = Schema(
    SchemaType.STRUCT,
    name="Point",
    fields=(Field("x", Schema(SchemaType.INT32)), Field("y", Schema(SchemaType.FLOAT64, optional=True))),
)


# -- names and settings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [JSON, "JsonConverter", "Json"])
def test_a_converter_is_found_by_full_and_short_names(name: str) -> None:
    assert type(converter(name, {}, is_key=False)) is JsonConverter
    found = list(header_converter(name, {"schemas.enable": "false"}).to_batches(binary("[1]"), "t", "h"))
    assert found[0].array.to_pylist() == [[1]]


@pytest.mark.parametrize(
    "name", ["String", "ByteArray", "Short", "Integer", "Long", "Float", "Double", "Boolean", "Json"]
)
def test_every_converter_takes_rows_without_value(name: str) -> None:
    for found in (converter(name, {}, is_key=True), header_converter(name, {})):
        extra = () if isinstance(found, Converter) else ("h",)
        columns = list(found.to_batches(binary(None, None), "t", *extra))
        assert sum(map(len, columns)) == 2
        assert all(column.array.null_count == len(column) for column in columns)
        assert found.from_column(ValueColumn.nothing(2), topics(2), *extra).to_pylist() == [None, None]
        assert sum(map(len, found.to_batches(binary(), "t", *extra))) == 0


@pytest.mark.parametrize("name", ["", "Yaml", "SimpleHeaderConverter", "moldau.connect.converters.json_converter"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UnknownPlugin):
        converter(name, {}, is_key=False)


@pytest.mark.parametrize(
    ("name", "config", "setting"),
    [
        ("Json", {"schemas.enable": "maybe"}, "schemas.enable"),
        ("Json", {"decimal.format": "TEXT"}, "decimal.format"),
        ("Json", {"schemas.cache.size": "-1"}, "schemas.cache.size"),
        ("Json", {"schema.content": "{"}, "schema.content"),
        ("Json", {"schema.content": '{"type":"foo"}'}, "schema.content"),
        ("String", {"converter.encoding": "EBCDIC-9"}, "converter.encoding"),
        ("Long", {"converter.type": "footer"}, "converter.type"),
    ],
)
def test_wrong_settings_are_named(name: str, config: dict[str, str], setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        converter(name, config, is_key=False)


def test_settings_of_others_are_ignored() -> None:
    assert converter("Json", {"schemas.enable": "false", "group.id": "g"}, is_key=True).is_key


# -- bad rows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "config", "rows", "bad"),
    [
        ("Json", {"schemas.enable": "false"}, ["1", "{", None, "x", '{"a":1}'], [1, 3]),
        ("Json", {}, [envelope(STRING, "a"), "1", envelope(STRING, 5), None, envelope(POINT, {})], [1, 2, 4]),
        ("Json", {}, ['{"schema":{"type":"x"},"payload":1}'] * 2 + [None, envelope(STRING, "a")], [0, 1]),
        ("Json", {"schema.content": '{"type":"int8"}'}, ["1", '"x"', "null", None], [1, 2]),
        ("Long", {}, [bytes(8), bytes(7), None, b"", bytes(9)], [1, 3, 4]),
        ("Boolean", {}, [b"\0", b"\1", b"\2", None], [2]),
    ],
)
def test_all_bad_rows_are_named_before_anything_is_returned(
    name: str, config: dict[str, str], rows: list[Any], bad: list[int]
) -> None:
    found = converter(name, config, is_key=False)
    with pytest.raises(RowError) as caught:
        found.to_batches(binary(*rows), "t")
    assert caught.value.rows == bad
    assert caught.value.stage is Stage.VALUE_CONVERTER
    assert all(caught.value.reasons.values())
    good = [one for row, one in enumerate(rows) if row not in bad]
    assert sum(map(len, found.to_batches(binary(*good), "t"))) == len(good)


def test_rows_without_a_required_value_are_named_when_written() -> None:
    array = pa.array(
        [{"x": 1, "y": None}, {"x": None, "y": 1.0}, None], pa.struct([("x", pa.int32()), ("y", pa.float64())])
    )
    for found in (converter("Json", {}, is_key=True), converter("Json", {"schemas.enable": "false"}, is_key=True)):
        with pytest.raises(RowError) as caught:
            found.from_column(ValueColumn(array, POINT), topics(3))
        assert caught.value.rows == [1]
        assert caught.value.stage is Stage.KEY_CONVERTER


@pytest.mark.parametrize("name", ["Long", "ByteArray"])
def test_values_of_another_type_are_refused_in_every_row_that_has_one(name: str) -> None:
    column = ValueColumn(pa.array(["a", None, "b"]), STRING)
    with pytest.raises(RowError) as caught:
        converter(name, {}, is_key=False).from_column(column, topics(3))
    assert caught.value.rows == [0, 2]


def test_the_error_survives_the_way_from_a_spark_task() -> None:
    error = pickle.loads(pickle.dumps(RowError({7: "b", 2: "a"}, Stage.HEADER_CONVERTER)))
    assert (error.rows, error.reasons, error.stage) == ([2, 7], {2: "a", 7: "b"}, Stage.HEADER_CONVERTER)
    assert "row 2: a; row 7: b" in str(error)


# -- columns -----------------------------------------------------------------------------------------------------------


def test_rows_of_one_schema_are_one_column_with_their_tombstones() -> None:
    point = envelope(POINT, {"x": 1, "y": None})
    rows = [None, point, None, point, envelope(STRING, "a"), None, point]
    columns = list(converter("Json", {}, is_key=False).to_batches(binary(*rows), "t"))
    assert [(column.schema, column.array.is_valid().to_pylist()) for column in columns] == [
        (POINT, [False, True, False, True]), (STRING, [True, False]), (POINT, [True])
    ]  # fmt: skip


def test_a_null_row_is_written_as_a_record_without_value() -> None:
    column = ValueColumn(pa.array(["a", None]), Schema(SchemaType.STRING, optional=True))
    for config in ({}, {"schemas.enable": "false"}):
        assert converter("Json", config, is_key=False).from_column(column, topics(2))[1].as_py() is None


def test_one_schema_from_the_settings_reads_plain_values() -> None:
    found = converter("Json", {"schema.content": json.dumps(to_json(POINT))}, is_key=False)
    (column,) = found.to_batches(binary('{"x":1,"y":2.5}', '{"x":2}', None), "t")
    assert column.schema == POINT
    assert column.array.to_pylist() == [{"x": 1, "y": 2.5}, {"x": 2, "y": None}, None]


def test_nulls_become_defaults_unless_that_is_switched_off() -> None:
    schema = Schema(
        SchemaType.STRUCT,
        fields=(
            Field("a", Schema(SchemaType.INT32, optional=True, default=7)),
            Field("b", Schema(SchemaType.ARRAY, value_schema=Schema(SchemaType.STRING, optional=True, default="d"))),
            Field("c", Schema(SchemaType.STRUCT, True, {"e": 1}, fields=(Field("e", Schema(SchemaType.INT8)),))),
        ),
    )
    row = {"a": None, "b": ["x", None], "c": None}
    filled = {"a": 7, "b": ["x", "d"], "c": {"e": 1}}
    text = binary(envelope(schema, row), None)
    for replaced, expected in (("true", filled), ("false", row)):
        found = converter("Json", {"replace.null.with.default": replaced}, is_key=False)
        (column,) = found.to_batches(text, "t")
        assert column.array.to_pylist() == [expected, None]
        plain = ValueColumn(pa.array([row, None], arrow_type(schema)), schema)
        written = found.from_column(plain, topics(2)).to_pylist()
        assert json.loads(written[0])["payload"] == expected
        assert written[1] is None


def test_decimals_of_more_than_38_digits_and_the_other_form_of_decimals() -> None:
    wide, narrow = decimal_schema(60, 2, optional=False), decimal_schema(9, 2, optional=False)
    for form in ("base64", "numeric"):
        found = converter("Json", {"decimal.format": form}, is_key=False)
        for schema, digits in ((wide, "123456789012345678901234567890123456789012345678.25"), (narrow, "-1.50")):
            value = Decimal(digits)
            written = found.from_column(ValueColumn(pa.array([value], arrow_type(schema)), schema), topics(1))
            payload = json.loads(written[0].as_py(), parse_float=Decimal)["payload"]
            assert isinstance(payload, str if form == "base64" else Decimal)
            (column,) = found.to_batches(written, "t")
            assert column.array.to_pylist() == [value]


@pytest.mark.parametrize(
    "payload", ["1.555", "1e40", '"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABAA=="', '""', "true", "[]"]
)
def test_decimals_that_do_not_fit_their_schema_are_refused(payload: str) -> None:
    schema = {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2", "connect.decimal.precision": "10"}}
    text = f'{{"schema":{json.dumps(schema)},"payload":{payload}}}'
    with pytest.raises(RowError):
        list(converter("Json", {}, is_key=False).to_batches(binary(text), "t"))


def test_header_values_of_different_types_are_separate_columns() -> None:
    found = header_converter(DEFAULT_HEADER_CONVERTER, {})
    columns = list(found.to_batches(binary(None, "1", "2", None, "x", "2024-02-29", "[1,300]", "y"), "t", "h"))
    assert [(column.schema and column.schema.type.value, column.array.to_pylist()) for column in columns] == [
        ("int8", [None, 1, 2, None]), ("string", ["x"]), ("int32", [datetime.date(2024, 2, 29)]),
        ("array", [[1, 300]]), ("string", ["y"]),
    ]  # fmt: skip
    written = [one for column in columns for one in found.from_column(column, topics(len(column)), "h").to_pylist()]
    assert written == [None, b"1", b"2", None, b"x", b"2024-02-29", b"[1,300]", b"y"]


def test_text_in_another_encoding() -> None:
    found = converter("String", {"converter.encoding": "UTF-16BE"}, is_key=False)
    (column,) = found.to_batches(pa.array(["ä".encode("utf-16-be"), None], pa.binary()), "t")
    assert column.array.to_pylist() == ["ä", None]
    assert found.from_column(column, topics(2)).to_pylist() == ["ä".encode("utf-16-be"), None]


# -- schemas -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_native_code_and_reference_agree_on_values_with_schemas(seed: int) -> None:
    schemas = RandomSchemas(seed)
    schema = schemas.schema()
    assert from_json(json.loads(json.dumps(to_json(schema)))) == schema
    texts = binary(*(json.dumps(schemas.value(schema)) for _ in range(6)), None)
    for replace_null in (True, False):
        expected, refused = json_reference.decode_typed(texts, schema, replace_null)
        if refused:
            with pytest.raises(RowError) as caught:
                json_columns.decode_as(texts, schema, replace_null=replace_null)
            assert caught.value.rows == list(refused)
            continue
        found = json_columns.decode_as(texts, schema, replace_null=replace_null)
        found.validate(full=True)
        assert found.type == arrow_type(schema)
        assert found.to_pylist() == expected.to_pylist()
        written = json_columns.encode(found.slice(2), schema, replace_null=False)
        assert json_columns.decode_as(written, schema, replace_null=False) == found.slice(2)
        reference, _ = json_reference.encode(expected.slice(2), schema, False, b"", b"")
        assert json_columns.decode_as(reference, schema, replace_null=False) == found.slice(2)
