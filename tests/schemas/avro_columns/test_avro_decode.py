"""Avro to Arrow: fastavro writes, the native decoder and its reference read the same, whole and damaged data."""

from __future__ import annotations

import copy
import io
import random
import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from moldau.schemas.avro_columns import decode_reference
from moldau.schemas.avro_columns.arrow_types import MAX_COLUMNS
from moldau.schemas.avro_columns.columns import ColumnDecoder
from moldau.schemas.avro_columns.decode_program import MAX_EMPTY_ITEMS, compile_decoder
from moldau.schemas.avro_columns.default_data import varint
from moldau.schemas.errors import SchemaError
from tests.schemas.avro_columns.random_avro import RandomAvro, root, written

native = pytest.importorskip("moldau.schemas.avro_columns._decode", reason="the native twin is not built")
Count = Callable[[int, int], int]

ENGINES = [pytest.param(decode_reference, id="reference"), pytest.param(native, id="native")]


def decoded(engine: ModuleType, writer: Any, reader: Any, values: pa.Array, skip: int = 0) -> Any:
    program = compile_decoder(root(writer), root(reader))
    found, bad = engine.Decoder(program).decode(values, skip)
    found.validate(full=True)
    return found, bad


def same(one: pa.Array, other: pa.Array) -> bool:
    """Equal; NaN equals itself. Python has no dates as far away as damaged data."""
    if one.equals(other):
        return True
    try:
        return repr(one.to_pylist()) == repr(other.to_pylist())
    except (OverflowError, ValueError):
        return False


def binary(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


def record(**fields: Any) -> Any:
    return {"type": "record", "name": "R", "fields": [{"name": k, "type": v} for k, v in fields.items()]}


def test_random_values_of_random_schemas_come_out_as_fastavro_wrote_them(count: Count) -> None:
    for seed in range(count(100, 5_000)):
        made = RandomAvro(random.Random(seed))
        schema = made.schema()
        pairs = [made.value(schema) for _ in range(12)]
        values = written(schema, [one[0] for one in pairs])
        reference, bad = decoded(decode_reference, schema, schema, values)
        assert bad == {}, seed
        assert reference.to_pylist() == [one[1] for one in pairs], seed
        found, bad = decoded(native, schema, schema, values)
        assert bad == {} and found.equals(reference), seed


def test_damaged_data_is_a_bad_row_with_the_same_reason_in_both_twins(count: Count) -> None:
    bad_rows = 0
    for seed in range(count(100, 5_000)):
        rng = random.Random(seed)
        made = RandomAvro(rng)
        schema = made.schema()
        whole = written(schema, [made.value(schema)[0] for _ in range(12)]).to_pylist()
        values = binary(*(_damaged(rng, one) for one in whole)).slice(2)
        reference, why = decoded(decode_reference, schema, schema, values)
        found, bad = decoded(native, schema, schema, values)
        assert bad == why, seed
        assert same(found, reference), seed
        bad_rows += len(bad)
    assert bad_rows > 100


def _damaged(rng: random.Random, data: bytes) -> bytes | None:
    changed = bytearray(data)
    for _ in range(rng.choice([0, 1, 2])):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    if rng.random() < 0.3:
        changed = changed[: rng.randrange(len(changed) + 1)]
    return bytes(changed) if rng.random() < 0.9 else None


def test_data_of_an_earlier_schema_is_resolved_as_fastavro_does(count: Count) -> None:
    compared = 0
    for seed in range(count(100, 5_000)):
        rng = random.Random(seed)
        made = RandomAvro(rng, unions=False)
        writer = made.schema()
        reader = _evolved(made, copy.deepcopy(writer))
        datums = [made.value(writer)[0] for _ in range(6)]
        values = written(writer, datums)
        expected = [
            _arrow_value(reader, fastavro.schemaless_reader(io.BytesIO(one), copy.deepcopy(writer), reader))
            for one in values.to_pylist()
        ]
        for engine in (decode_reference, native):
            found, bad = decoded(engine, writer, reader, values)
            assert bad == {}, (seed, engine)
            assert found.to_pylist() == expected, (seed, engine)
            compared += 1
    assert compared > 100


PROMOTED = {"int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"], "string": ["bytes"]}


def _evolved(made: RandomAvro, schema: Any) -> Any:
    """A schema that can read data of the given one."""
    rng = made.rng
    fields = schema["fields"]
    rng.shuffle(fields)
    for one in list(fields):
        kind = one["type"]
        choice = rng.random()
        if choice < 0.2:
            fields.remove(one)
        elif choice < 0.5 and isinstance(kind, str) and kind in PROMOTED:
            one["type"] = rng.choice(PROMOTED[kind])
        elif choice < 0.7 and not isinstance(kind, list) and kind != "null":
            one["type"] = ["null", kind]
        elif isinstance(kind, dict) and kind["type"] == "record":
            _evolved(made, kind)
        elif isinstance(kind, dict) and kind["type"] == "enum":
            kind["symbols"] = ["c", "A", "new"]
            kind["default"] = "new"
    for name, kind, default in ADDED:
        if rng.random() < 0.3:
            fields.append({"name": name, "type": kind, "default": default})
    return schema


ADDED: list[tuple[str, Any, Any]] = [
    ("added_text", "string", "ä"),
    ("added_null", ["null", "int"], None),
    ("added_list", {"type": "array", "items": "long"}, [1, -2]),
    ("added_map", {"type": "map", "values": "double"}, {"pi": 3.25}),
    ("added_bytes", "bytes", "\u00ff\u0001"),
]


def _arrow_value(schema: Any, value: Any) -> Any:
    """fastavro's value as Arrow's: maps are pairs, times are in UTC."""
    if isinstance(schema, list):
        rest = [one for one in schema if one != "null"]
        return None if value is None else _arrow_value(rest[0], value)
    if isinstance(schema, dict):
        match schema["type"]:
            case "record":
                return {one["name"]: _arrow_value(one["type"], value[one["name"]]) for one in schema["fields"]}
            case "array":
                return [_arrow_value(schema["items"], one) for one in value]
            case "map":
                return [(key, _arrow_value(schema["values"], one)) for key, one in value.items()]
    if schema == "float":
        return struct.unpack("<f", struct.pack("<f", value))[0]  # fastavro leaves a promoted number as it is
    if schema == "bytes" and isinstance(value, str):
        return value.encode("latin-1")  # fastavro leaves the default of bytes as the schema's text has it
    return value


@pytest.mark.parametrize("engine", ENGINES)
class TestDecoder:
    def test_a_null_stays_null_and_the_prefix_is_skipped(self, engine: ModuleType) -> None:
        values = binary(b"PRE\x02", None, b"PRE\x03", b"P")
        found, bad = decoded(engine, "int", "int", values, skip=3)
        assert found.to_pylist() == [1, None, -2, None]
        assert bad == {3: "the data ends too early"}

    def test_a_bad_row_leaves_nothing_behind(self, engine: ModuleType) -> None:
        schema = record(a={"type": "array", "items": "string"}, m={"type": "map", "values": "long"}, n="int")
        good = {"a": ["x", "yy"], "m": {"k": 1}, "n": 5}
        (whole,) = written(schema, [good]).to_pylist()
        values = binary(*(whole[:end] for end in range(len(whole) + 1)), whole)
        found, bad = decoded(engine, schema, schema, values)
        assert set(bad) == set(range(len(whole)))
        expected = {"a": ["x", "yy"], "m": [("k", 1)], "n": 5}
        assert found.to_pylist() == [None] * len(whole) + [expected, expected]
        assert len(found.field(0).values) == 4

    def test_the_reason_names_the_field(self, engine: ModuleType) -> None:
        schema = record(outer={"type": "record", "name": "In", "fields": [{"name": "inner", "type": "string"}]})
        _, bad = decoded(engine, schema, schema, binary(b"\x04\xc3\x28", b"\x05"))
        assert bad == {
            0: "field outer.inner: a string is not valid UTF-8",
            1: "field outer.inner: a length or count is negative, or larger than the data",
        }

    @pytest.mark.parametrize(
        "text", [b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"\xff", b"a\xc3"]
    )
    def test_text_that_is_no_utf8_is_refused(self, engine: ModuleType, text: bytes) -> None:
        values = binary(varint(len(text)) + text, varint(len(text) + 20) + b"12345678" * 2 + b"1234" + text)
        assert set(decoded(engine, "string", "string", values)[1]) == {0, 1}

    @pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**62])
    def test_an_int_beyond_32_bits_is_refused(self, engine: ModuleType, number: int) -> None:
        assert decoded(engine, "int", "int", binary(varint(number)))[1] == {
            0: "a number is out of the range of its type"
        }

    def test_a_time_of_a_day_that_is_over_is_refused(self, engine: ModuleType) -> None:
        schema = {"type": "int", "logicalType": "time-millis"}
        found, bad = decoded(engine, schema, schema, binary(varint(86_399_999), varint(86_400_000), varint(-1)))
        assert set(bad) == {1, 2} and found.type == pa.time32("ms")

    def test_a_decimal_with_more_digits_than_its_type_is_refused(self, engine: ModuleType) -> None:
        schema = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
        rows = []
        for number in (9999, -9999, 10_000, -10_000, 2**127, -(2**130)):
            data = number.to_bytes(20, "big", signed=True)
            rows.append(varint(len(data)) + data)
        found, bad = decoded(engine, schema, schema, binary(*rows, b"\0"))
        assert set(bad) == {2, 3, 4, 5}
        assert [str(one) for one in found.to_pylist() if one is not None] == ["99.99", "-99.99", "0.00"]

    def test_items_without_bytes_are_bound(self, engine: ModuleType) -> None:
        schema = {"type": "array", "items": "null"}
        rows = binary(varint(MAX_EMPTY_ITEMS + 1) + b"\0", varint(3) + b"\0", varint(-(2**63)) + b"\0\0")
        found, bad = decoded(engine, schema, schema, rows)
        assert set(bad) == {0, 2} and found.to_pylist()[1] == [None] * 3

    @pytest.mark.parametrize("length", [2**40, 2**63 - 1, -1, -(2**63)])
    def test_lengths_beyond_the_data_are_refused_without_memory(self, engine: ModuleType, length: int) -> None:
        for schema in ("bytes", "string", {"type": "array", "items": "long"}, {"type": "map", "values": "long"}):
            _, bad = decoded(engine, schema, schema, binary(varint(length) + b"\2\2\2"))
            assert set(bad) == {0}, schema

    def test_blocks_with_their_size_are_read(self, engine: ModuleType) -> None:
        schema = {"type": "array", "items": "int"}
        found, _ = decoded(engine, schema, schema, binary(varint(-2) + varint(2) + b"\2\4" + varint(1) + b"\6\0"))
        assert found.to_pylist() == [[1, 2, 3]]

    def test_a_branch_that_the_reader_does_not_have_is_a_bad_row(self, engine: ModuleType) -> None:
        writer, reader = record(a=["null", "string", "long"]), record(a=["null", "long"])
        found, bad = decoded(engine, writer, reader, written(writer, [{"a": None}, {"a": "x"}, {"a": 7}]))
        assert found.to_pylist() == [{"a": None}, None, {"a": 7}]
        assert bad == {1: "field a: no branch of the reader's union can hold data of type string"}

    def test_a_symbol_that_the_reader_does_not_have_is_a_bad_row_without_default(self, engine: ModuleType) -> None:
        writer = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
        reader = {"type": "enum", "name": "E", "symbols": ["B"]}
        values = binary(b"\0", b"\2", b"\4", b"\1")
        found, bad = decoded(engine, writer, reader, values)
        assert found.to_pylist() == [None, "B", None, None] and set(bad) == {0, 2, 3}
        found, bad = decoded(engine, writer, {**reader, "default": "B"}, values)
        assert found.to_pylist() == ["B", "B", None, None] and set(bad) == {2, 3}

    def test_a_field_that_contains_itself_is_skipped(self, engine: ModuleType) -> None:
        tree = {"type": "record", "name": "T", "fields": [{"name": "left", "type": ["null", "T"]}]}
        writer = record(tree=tree, n="int")
        deep: Any = {"left": None}
        for _ in range(20):
            deep = {"left": deep}
        found, bad = decoded(engine, writer, record(n="int"), written(writer, [{"tree": deep, "n": 3}]))
        assert found.to_pylist() == [{"n": 3}] and bad == {}
        _, bad = decoded(engine, writer, record(n="int"), binary(b"\2" * 1000 + b"\0\6"))
        assert "levels" in bad[0]

    def test_fields_are_found_by_alias(self, engine: ModuleType) -> None:
        writer = record(old="int", other="string")
        fields = [{"name": "new", "type": "long", "aliases": ["old"]}]
        reader = {"type": "record", "name": "Renamed", "aliases": ["R"], "fields": fields}
        found, _ = decoded(engine, writer, reader, written(writer, [{"old": 4, "other": "x"}]))
        assert found.to_pylist() == [{"new": 4}]


class TestCompilation:
    def test_a_record_that_contains_itself_is_refused_by_name(self) -> None:
        tree = {"type": "record", "name": "a.Tree", "fields": [{"name": "left", "type": ["null", "a.Tree"]}]}
        with pytest.raises(SchemaError, match=r"a\.Tree contains itself"):
            ColumnDecoder(root(tree))

    def test_a_field_without_default_that_the_writer_lacks_is_refused_by_name(self) -> None:
        with pytest.raises(SchemaError, match=r"field b: .* no default"):
            ColumnDecoder(root(record(a="int")), root(record(a="int", b="int")))

    @pytest.mark.parametrize(
        ("writer", "reader"),
        [("long", "int"), ("string", "int"), ("double", "float"), ("null", "int"), ("int", "null")],
    )
    def test_types_that_do_not_resolve_are_refused(self, writer: str, reader: str) -> None:
        with pytest.raises(SchemaError, match=f"field a: data of type {writer} cannot be read as {reader}"):
            ColumnDecoder(root(record(a=writer)), root(record(a=reader)))

    def test_decimals_of_another_scale_are_refused(self) -> None:
        one = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
        with pytest.raises(SchemaError, match="2 digits after the point"):
            ColumnDecoder(root(one), root({**one, "scale": 3}))

    def test_the_number_of_columns_is_bound(self) -> None:
        kind: Any = "int"
        names = iter(range(1000))
        for _ in range(15):
            inner = {"type": "record", "name": f"N{next(names)}", "fields": [{"name": "a", "type": kind}]}
            inner["fields"].append({"name": "b", "type": kind if isinstance(kind, str) else kind["name"]})
            kind = inner
        with pytest.raises(SchemaError, match=f"more than {MAX_COLUMNS}"):
            ColumnDecoder(root(kind))

    def test_decimals_beyond_38_digits_are_read_too(self) -> None:
        schema = {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 1}
        number = 10**49 + 7
        data = number.to_bytes(24, "big")
        found, bad = ColumnDecoder(root(schema)).decode(binary(varint(24) + data))
        assert bad == {} and str(found[0].as_py()) == f"{number // 10}.7"
