"""JSON to Arrow and back: the native code and its reference give the same values for any JSON."""

from __future__ import annotations

import json
import math
import random
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.connect import json_columns, json_reference
from moldau.connect.errors import RowError
from moldau.connect.json_layout import MAX_FIELDS, MAX_SPLITS
from moldau.connect.record_batch import null_mark, writes_whole_numbers

decode_native = pytest.importorskip("moldau.connect._json_decode", reason="the native twin is not built")
encode_native = pytest.importorskip("moldau.connect._json_encode", reason="the native twin is not built")

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.sampled_from(["a", "b", "c", "ä", 'q"', "\\", ""])
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.integers(-9, 9) | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
MODULES = [pytest.param((json_reference, json_reference), id="reference")]
MODULES.append(pytest.param((decode_native, encode_native), id="native"))


def binary(texts: list[Any]) -> pa.Array:
    return pa.array(
        [None if one is None else one.encode() if isinstance(one, str) else one for one in texts], pa.binary()
    )


def values_of(texts: pa.Array) -> list[Any]:
    return [None if one is None else json.loads(one) for one in texts.to_pylist()]


def same(one: Any, other: Any) -> bool:
    """Equal, with the types of numbers; a fraction of zero is not told from a whole number."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return one == other and isinstance(one, bool) == isinstance(other, bool)
    return type(one) is type(other) and one == other


def round_trip(values: list[Any], decoder: ModuleType, encoder: ModuleType) -> list[Any]:
    runs, errors = decoder.decode(binary([json.dumps(one, ensure_ascii=False) for one in values]))
    assert errors == {}
    found: list[Any] = []
    for run in runs:
        run.validate(full=True)
        texts, bad = encoder.encode(run, None, False, b"", b"")
        assert bad == []
        found += values_of(texts)
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(VALUES, max_size=6))
def test_any_json_is_the_same_after_both_ways(values: list[Any]) -> None:
    for decoder in (decode_native, json_reference):
        for encoder in (encode_native, json_reference):
            found = round_trip(values, decoder, encoder)
            assert same(found, values), (decoder.__name__, encoder.__name__)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(NAMES, SCALARS, max_size=4), min_size=3, max_size=12), st.data())
def test_slices_and_filters_of_an_array_are_written_alone(rows: list[Any], data: st.DataObject) -> None:
    runs, _ = decode_native.decode(binary([json.dumps(one) for one in rows]))
    expected = rows
    for run in runs:
        own, expected = expected[: len(run)], expected[len(run) :]
        first = data.draw(st.integers(0, len(run)))
        count = data.draw(st.integers(0, len(run) - first))
        assert same(
            values_of(encode_native.encode(run.slice(first, count), None, False, b"", b"")[0]),
            own[first : first + count],
        )
        keep = data.draw(st.lists(st.booleans(), min_size=len(run), max_size=len(run)))
        kept = [row for row, one in zip(own, keep, strict=True) if one]
        filtered = run.filter(pa.array(keep, pa.bool_()))
        assert same(values_of(encode_native.encode(filtered, None, False, b"", b"")[0]), kept)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=12) | st.text('[]{}",:0123456789.-+eEtruefalsn\\u \n', max_size=14).map(str.encode))
def test_native_code_and_reference_agree_on_what_is_json(text: bytes) -> None:
    native, bad = decode_native.decode(binary([text]))
    reference, refused = json_reference.decode(binary([text]))
    assert bool(bad) == bool(refused), (bad, refused)
    if not bad:
        assert same(json_reference.rows(native[0]), json_reference.rows(reference[0]))


@settings(max_examples=200, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=5), st.data())
def test_a_bad_row_changes_no_other_row(values: list[Any], data: st.DataObject) -> None:
    texts = [json.dumps(one).encode() for one in values]
    at = data.draw(st.integers(0, len(texts) - 1))
    cut = data.draw(st.integers(1, max(1, len(texts[at]) - 1)))
    bad = b"{" + texts[at][:cut]
    with_bad, errors = decode_native.decode(binary([*texts[:at], bad, *texts[at:]]))
    assert list(errors) == [at]
    found = [one for run in with_bad for one in json_reference.rows(run)]
    alone = [one for run in decode_native.decode(binary(texts))[0] for one in json_reference.rows(run)]
    assert found[:at] + found[at + 1 :] == alone


@pytest.mark.parametrize("modules", MODULES)
class TestSchemalessRows:
    def decode(self, modules: tuple[ModuleType, ModuleType], *texts: Any) -> list[pa.Array]:
        runs, errors = modules[0].decode(binary(list(texts)))
        assert errors == {}
        return runs

    def test_a_missing_field_is_not_null(self, modules: tuple[ModuleType, ModuleType]) -> None:
        (run,) = self.decode(modules, '{"a":1,"b":null}', '{"b":"x"}', "{}", None)
        assert run.type.names == ["a", "b", null_mark("b")]
        assert run.field("b").to_pylist()[:3] == [None, "x", None]
        assert run.field(null_mark("b")).to_pylist()[:3] == [True, False, False]
        texts, _ = modules[1].encode(run, None, False, b"", b"")
        assert values_of(texts) == [{"a": 1, "b": None}, {"b": "x"}, {}, None]

    def test_a_field_that_is_null_in_no_row_has_no_mark(self, modules: tuple[ModuleType, ModuleType]) -> None:
        (run,) = self.decode(modules, '{"a":1}', "{}")
        assert run.type.names == ["a"]

    def test_integers_and_fractions_share_a_column_and_keep_their_form(
        self, modules: tuple[ModuleType, ModuleType]
    ) -> None:
        (run,) = self.decode(modules, '{"price":10}', '{"price":10.5}', '{"price":11}')
        assert run.type.field("price").type == pa.float64()
        assert writes_whole_numbers(run.type.field("price"))
        texts, _ = modules[1].encode(run, None, False, b"", b"")
        assert [one.replace(b" ", b"") for one in texts.to_pylist()] == [
            b'{"price":10}', b'{"price":10.5}', b'{"price":11}'
        ]  # fmt: skip

    def test_fractions_of_zero_stay_fractions(self, modules: tuple[ModuleType, ModuleType]) -> None:
        (run,) = self.decode(modules, "[1.0, 2.5]")
        assert modules[1].encode(run, None, False, b"", b"")[0].to_pylist() == [b"[1.0,2.5]"]

    def test_large_integers_beside_fractions_lose_nothing(self, modules: tuple[ModuleType, ModuleType]) -> None:
        runs = self.decode(modules, str(2**53 + 1), "0.5", str(2**53 + 1))
        assert [one.to_pylist() for one in runs] == [[2**53 + 1], [0.5], [2**53 + 1]]

    def test_integers_beyond_64_bits_keep_their_low_bits_as_in_kafka(
        self, modules: tuple[ModuleType, ModuleType]
    ) -> None:
        (run,) = self.decode(modules, "12345678901234567890", "-9223372036854775809")
        assert run.to_pylist() == [-6101065172474983726, 2**63 - 1]

    def test_another_type_begins_a_new_run(self, modules: tuple[ModuleType, ModuleType]) -> None:
        runs = self.decode(modules, '{"a":1}', '{"a":2}', '{"a":"x"}', '{"a":{"b":1}}')
        assert [len(one) for one in runs] == [2, 1, 1]

    def test_types_that_change_all_the_time_become_json_text(self, modules: tuple[ModuleType, ModuleType]) -> None:
        texts = ['{"a":1,"n":5}', '{"a":"x","n":6}'] * 100
        runs = self.decode(modules, *texts)
        assert len(runs) <= MAX_SPLITS + 2
        assert runs[-1].type.field("a").type == pa.json_()
        assert runs[-1].type.field("n").type == pa.int64()
        found = [one for run in runs for one in values_of(modules[1].encode(run, None, False, b"", b"")[0])]
        assert found == [json.loads(one) for one in texts]

    def test_an_array_of_different_types_holds_json_text(self, modules: tuple[ModuleType, ModuleType]) -> None:
        runs = self.decode(modules, '{"a":[1,"x",null,{"y":[]}],"b":1}')
        assert runs[-1].type.field("a").type.value_type == pa.json_()
        assert runs[-1].type.field("b").type == pa.int64()
        assert values_of(modules[1].encode(runs[-1], None, False, b"", b"")[0]) == [
            {"a": [1, "x", None, {"y": []}], "b": 1}
        ]

    def test_objects_with_data_as_names_do_not_become_columns_without_number(
        self, modules: tuple[ModuleType, ModuleType]
    ) -> None:
        rows = [{"by id": {f"{row}-{i}": i for i in range(40)}} for row in range(4 * MAX_FIELDS // 40 * 20)]
        runs = self.decode(modules, *(json.dumps(one) for one in rows))
        assert all(
            one.type.field("by id").type == pa.json_() or one.type.field("by id").type.num_fields <= MAX_FIELDS
            for one in runs
        )
        found = [one for run in runs for one in values_of(modules[1].encode(run, None, False, b"", b"")[0])]
        assert found == rows

    def test_one_object_with_very_many_fields_is_json_text(self, modules: tuple[ModuleType, ModuleType]) -> None:
        row = {str(i): i for i in range(MAX_FIELDS + 1)}
        runs = self.decode(modules, json.dumps(row))
        assert [one.type for one in runs] == [pa.json_()]
        assert values_of(modules[1].encode(runs[0], None, False, b"", b"")[0]) == [row]

    def test_a_field_cannot_pass_for_a_null_mark(self, modules: tuple[ModuleType, ModuleType]) -> None:
        text = json.dumps({"a": 1, null_mark("a"): True})
        runs = self.decode(modules, text)
        assert values_of(modules[1].encode(runs[0], None, False, b"", b"")[0]) == [json.loads(text)]

    def test_deep_values_are_kept(self, modules: tuple[ModuleType, ModuleType]) -> None:
        text = '{"a":' * 200 + "1" + "}" * 200
        runs = self.decode(modules, text)
        assert modules[1].encode(runs[0], None, False, b"", b"")[0].to_pylist() == [text.encode()]

    def test_the_last_of_two_fields_of_one_name_counts(self, modules: tuple[ModuleType, ModuleType]) -> None:
        runs = self.decode(modules, '{"a":[1,2],"b":1,"a":"x"}', '{"a":1,"a":null}')
        assert [one for run in runs for one in json_reference.rows(run)] == [{"a": "x", "b": 1}, {"a": None}]

    def test_infinite_numbers_are_written_as_strings(self, modules: tuple[ModuleType, ModuleType]) -> None:
        (run,) = self.decode(modules, "1e400", "-1e400")
        assert run.to_pylist() == [math.inf, -math.inf]
        both = pa.concat_arrays([run, pa.array([math.nan])])
        assert modules[1].encode(both, None, False, b"", b"")[0].to_pylist() == [
            b'"Infinity"', b'"-Infinity"', b'"NaN"'
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "text",
        [b"{", b"}", b"[1,", b"[1,]", b'{"a"}', b'{"a":}', b'{"a":1,}', b"{a:1}", b"'a'", b"nul", b"tru", b"NaN", b"+1",
         b".5", b"1.", b"1e", b"0x1", b"--1", b"1 2", b'{"a":1} x', b'"a', b'"\n"', b'"\\x"', b'"\\u12"', b'"\xff"',
         b'"\xed\xa0\x80"', b"\xff", b"9" * 1001, b"[" * 1100, b"truefalse"],
    )  # fmt: skip
    def test_text_that_is_not_json_is_refused(self, modules: tuple[ModuleType, ModuleType], text: bytes) -> None:
        _, errors = modules[0].decode(binary(["{}", text, "1"]))
        assert list(errors) == [1]
        assert errors[1].startswith("invalid JSON")

    @pytest.mark.parametrize(
        ("text", "value"),
        [(b"", None), (b" \n", None), (b"null", None), (b"\xef\xbb\xbf7", 7), (b"007", 7), (b"-00.5", -0.5),
         (b'"\\ud83d\\ude00"', "😀"), (b'"\\ud800"', "\ufffd"), (b'"\\ude00x"', "\ufffdx"), (b'"\\/"', "/"),
         (b"\t[ ]\r\n", []), (b"{ }", {}), (b'{"a" : 1 , "b" : 2}', {"a": 1, "b": 2})],
    )  # fmt: skip
    def test_unusual_json_is_read_as_kafka_does(
        self, modules: tuple[ModuleType, ModuleType], text: bytes, value: Any
    ) -> None:
        (run,) = self.decode(modules, text)
        assert same(json_reference.rows(run), [value])


def test_doubles_are_exact() -> None:
    source = random.Random(7)
    numbers = [source.random() * 10.0 ** source.randint(-30, 30) for _ in range(2000)]
    numbers += [5e-324, 1.7976931348623157e308, 2.2250738585072014e-308, 0.1, 1e22, 1e23, 9007199254740993.0]
    texts = [repr(one) for one in numbers] + [f"{one:.25e}" for one in numbers]
    runs, _ = decode_native.decode(binary(texts))
    found = [one for run in runs for one in run.to_pylist()]
    assert found == [float(one) for one in texts]
    written = encode_native.encode(pa.array(numbers), None, False, b"", b"")[0].to_pylist()
    assert [float(one) for one in written] == numbers


def test_floats_are_written_with_the_fewest_digits() -> None:
    source = random.Random(7)
    numbers = pa.array([source.random() * 10.0 ** source.randint(-30, 30) for _ in range(2000)], pa.float32())
    written = encode_native.encode(numbers, None, False, b"", b"")[0]
    assert pa.array([float(one) for one in written.to_pylist()], pa.float32()) == numbers
    assert encode_native.encode(pa.array([0.1, 16777216.0], pa.float32()), None, False, b"", b"")[0].to_pylist() == [
        b"0.1", b"1.6777216E7"
    ]  # fmt: skip


def test_all_bad_rows_are_named_at_once() -> None:
    with pytest.raises(RowError) as caught:
        json_columns.decode(pa.array(["1", "x", None, "{", "2"]))
    assert caught.value.rows == [1, 3]


def test_arrow_types_of_files_and_databases_are_written() -> None:
    table = pa.table(
        {
            "small": pa.array([1], pa.uint8()),
            "moment": pa.array([1_700_000_000_123_456], pa.timestamp("us")),
            "kind": pa.array(["x"]).dictionary_encode(),
            "large": pa.array(["y"], pa.large_string()),
            "data": pa.array([b"ab"], pa.large_binary()),
            "list": pa.array([[1]], pa.large_list(pa.int16())),
        }
    ).to_struct_array()
    written = json_columns.encode(table.chunk(0) if isinstance(table, pa.ChunkedArray) else table)
    assert values_of(written) == [
        {"small": 1, "moment": 1_700_000_000_123, "kind": "x", "large": "y", "data": "YWI=", "list": [1]}
    ]
