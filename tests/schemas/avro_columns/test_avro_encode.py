"""Arrow to Avro: fastavro reads what both twins write, and both write the same."""

from __future__ import annotations

import decimal
import io
import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from moldau.schemas.avro_columns import encode_reference
from moldau.schemas.avro_columns.columns import ColumnDecoder, ColumnEncoder
from moldau.schemas.avro_columns.encode_plan import plan_encoder
from moldau.schemas.errors import SchemaError
from tests.schemas.avro_columns.random_avro import RandomAvro, root, written

native = pytest.importorskip("moldau.schemas.avro_columns._encode", reason="the native twin is not built")
Count = Callable[[int, int], int]
ENGINES = [pytest.param(encode_reference, id="reference"), pytest.param(native, id="native")]


def encoded(engine: ModuleType, schema: Any, array: pa.Array, prefix: bytes = b"") -> Any:
    found, bad = engine.encode(plan_encoder(root(schema), array), prefix)
    found.validate(full=True)
    return found, bad


def record(**fields: Any) -> Any:
    return {"type": "record", "name": "R", "fields": [{"name": k, "type": v} for k, v in fields.items()]}


def test_random_columns_become_the_bytes_that_fastavro_writes(count: Count) -> None:
    for seed in range(count(100, 5_000)):
        made = RandomAvro(random.Random(seed))
        schema = made.schema()
        values = written(schema, [made.value(schema)[0] for _ in range(12)])
        array, _ = ColumnDecoder(root(schema)).decode(values)
        for engine in (encode_reference, native):
            found, bad = encoded(engine, schema, array)
            assert bad == {}, (seed, engine)
            assert found.equals(values), (seed, engine)
        found, _ = encoded(native, schema, array.slice(5, 4), b"PRE")
        assert found.to_pylist() == [b"PRE" + one for one in values.slice(5, 4).to_pylist()], seed


@pytest.mark.parametrize("engine", ENGINES)
class TestEncoder:
    def test_a_null_row_stays_null_and_a_null_for_a_required_value_is_a_bad_row(self, engine: ModuleType) -> None:
        kind = pa.struct({"a": pa.int32(), "b": pa.list_(pa.string())})
        array = pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": []}, {"a": 2, "b": ["x", None]}], kind)
        schema = record(a="int", b={"type": "array", "items": "string"})
        found, bad = encoded(engine, schema, array)
        assert found.to_pylist() == [b"\x02\x02\x02x\x00", None, None, None]
        assert bad == {2: "field a: null for a required value", 3: "field b: null for a required value"}

    def test_a_text_that_is_no_symbol_is_a_bad_row(self, engine: ModuleType) -> None:
        schema = ["null", {"type": "enum", "name": "E", "symbols": ["A", "B"]}]
        found, bad = encoded(engine, record(e=schema), pa.array([{"e": "B"}, {"e": "C"}, {"e": None}]))
        assert found.to_pylist() == [b"\x02\x02", None, b"\x00"]
        assert bad == {1: "field e: the enum has no such symbol"}

    def test_a_union_has_one_value(self, engine: ModuleType) -> None:
        schema = record(u=["string", "long"])
        kind = pa.struct({"u": pa.struct({"string": pa.string(), "long": pa.int64()})})
        rows = [("x", None), (None, 7), (None, None), ("x", 7)]
        array = pa.array([{"u": {"string": a, "long": b}} for a, b in rows], kind)
        found, bad = encoded(engine, schema, array)
        assert found.to_pylist()[:2] == [b"\x00\x02x", b"\x02\x0e"]
        assert bad == {
            2: "field u: no branch of the union has a value",
            3: "field u: more than one branch of the union has a value",
        }

    def test_a_decimal_that_is_too_large_for_its_fixed_type_is_a_bad_row(self, engine: ModuleType) -> None:
        schema = {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 0}
        array = pa.array([decimal.Decimal(9999), decimal.Decimal(-1), decimal.Decimal(128)], pa.decimal128(4, 0))
        found, bad = encoded(engine, record(d=schema), pa.StructArray.from_arrays([array], ["d"]))
        assert bad == {} and found.to_pylist() == [b"\x27\x0f", b"\xff\xff", b"\x00\x80"]

    def test_columns_are_found_by_name_and_missing_ones_take_their_default(self, engine: ModuleType) -> None:
        schema = record(a="string", b="long", c="string")
        schema["fields"][2]["default"] = "none"
        array = pa.array([{"b": 1, "a": "x"}])
        found, _ = encoded(engine, schema, array)
        datum = fastavro.schemaless_reader(io.BytesIO(found[0].as_py()), schema, None)
        assert datum == {"a": "x", "b": 1, "c": "none"}

    def test_other_layouts_of_the_same_values_are_taken(self, engine: ModuleType) -> None:
        schema = record(s="string", n="int", t={"type": "long", "logicalType": "timestamp-millis"})
        array = pa.StructArray.from_arrays(
            [
                pa.array(["x", "y"]).dictionary_encode(),
                pa.array([1, 2], pa.int64()),
                pa.array([1000, 2000], pa.timestamp("us")),
            ],
            ["s", "n", "t"],
        )
        found, bad = encoded(engine, schema, array)
        assert bad == {} and found.to_pylist() == [b"\x02x\x02\x02", b"\x02y\x04\x04"]


@pytest.mark.parametrize(
    ("schema", "array", "message"),
    [
        (record(a="int"), pa.array([{"a": 1, "b": 2}]), "field b: the Avro record R has no such field"),
        (record(a="int"), pa.array([{}], pa.struct([])), "field a: there is no such column"),
        (record(a="int"), pa.array([{"a": "1"}]), "field a: Arrow type string does not become Avro's int"),
        (record(a="string"), pa.array([{"a": 1}]), "field a: Arrow type int64 does not become Avro's string"),
        (record(a="int"), pa.array([{"a": 2**40}]), "field a: Arrow type int64 does not become Avro's int"),
        (record(a={"type": "array", "items": "int"}), pa.array([{"a": 1}]), "does not become Avro's array"),
        (record(a="int"), pa.array([1]), "the value: Arrow type int64 does not become Avro's record R"),
    ],
)
def test_columns_that_do_not_fit_the_schema_are_refused_by_name(schema: Any, array: pa.Array, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        ColumnEncoder(root(schema)).encode(array)
