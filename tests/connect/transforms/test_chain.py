"""Chains: configuration, predicates, the order of rows, and the numbers of bad rows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from moldau.connect import plugins
from moldau.connect.config_def import ConfigError
from moldau.connect.converters import converter
from moldau.connect.errors import RowError, Stage
from moldau.connect.record_batch import ConnectBatch, HeaderColumn, ValueColumn, source_batch
from moldau.connect.schemas import Field, Schema, SchemaType, arrow_type
from moldau.connect.transforms import Chain, chain

KAFKA = "org.apache.kafka.connect.transforms."
TOMBSTONE = {"predicates": "p", "predicates.p.type": KAFKA + "predicates.RecordIsTombstone"}


def of(*transforms: dict[str, str], **more: str) -> Chain:
    """A chain of transforms: t0, t1 …"""
    config: dict[str, Any] = {"transforms": ",".join(f"t{number}" for number in range(len(transforms)))}
    for number, settings in enumerate(transforms):
        config |= {f"transforms.t{number}.{name}": value for name, value in settings.items()}
    return chain(config | more)


def json_batches(*values: Any) -> list[ConnectBatch]:
    raw = pa.array([None if one is None else json.dumps(one).encode() for one in values], pa.binary())
    columns = converter("JsonConverter", {"schemas.enable": "false"}, is_key=False).to_batches(raw, "topic")
    return [source_batch("topic", column) for column in columns]


def json_values(batches: list[ConnectBatch]) -> list[Any]:
    writer = converter("JsonConverter", {"schemas.enable": "false"}, is_key=False)
    texts = [text for one in batches for text in writer.from_column(one.value, one.topic).to_pylist()]
    return [None if text is None else json.loads(text) for text in texts]


def numbers(*values: int | None) -> ConnectBatch:
    schema = Schema(SchemaType.STRUCT, True, fields=(Field("n", Schema(SchemaType.INT64, True)),))
    rows = [None if one is None else {"n": one} for one in values]
    return source_batch("topic", ValueColumn(pa.array(rows, arrow_type(schema)), schema))


# -- configuration ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"transforms": "a"}, 'Missing required configuration "transforms.a.type"'),
        ({"transforms": "a", "transforms.a.type": "os.system"}, "os.system"),
        ({"transforms": "a", "transforms.a.type": "HoistField$Value"}, 'Missing required configuration "field"'),
        ({"transforms": "a", "transforms.a.type": "Filter", "transforms.a.predicate": "p"}, "predicate p is not in"),
        ({"transforms": "a", "transforms.a.type": "Filter", "transforms.a.negate": "true"}, "no predicate to negate"),
        ({"transforms": "a,a", "transforms.a.type": "Filter"}, "twice"),
        (
            {"transforms": "a", "transforms.a.type": "TimestampRouter", "transforms.a.timestamp.format": "YYYY-ww"},
            "not supported: Y, w",
        ),
        (
            {
                "transforms": "a",
                "transforms.a.type": "RegexRouter",
                "transforms.a.regex": "(",
                "transforms.a.replacement": "",
            },
            "Invalid regex",
        ),
        (
            {"transforms": "a", "transforms.a.type": "Cast$Value", "transforms.a.spec": "x:int5"},
            "Invalid type found in casting spec: int5",
        ),
    ],
)
def test_a_mistake_in_the_configuration_is_named(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match="transform") as raised:
        chain(config)
    assert message in str(raised.value)


def test_every_mistake_is_reported_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        chain({"transforms": "a,b", "transforms.b.type": "HoistField$Key"})
    assert "transform a:" in str(raised.value)
    assert "transform b:" in str(raised.value)


def test_without_transforms_batches_pass() -> None:
    batch = numbers(1, 2)
    assert chain({}).apply(batch) == [batch]


def test_a_transform_of_another_package_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shouting.py").write_text(
        "from dataclasses import replace\n"
        "import pyarrow.compute as pc\n"
        "from moldau.connect.transforms import Transform\n"
        "class Shout(Transform):\n"
        "    def apply(self, batch):\n"
        "        return [replace(batch, topic=pc.utf8_upper(batch.topic))]\n"
    )
    info = tmp_path / "shouting-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[moldau.transforms]\ncom.example.Shout = shouting:Shout\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.installed.cache_clear()
    try:
        (found,) = of({"type": "com.example.Shout"}).apply(numbers(1))
        assert found.topic.to_pylist() == ["TOPIC"]
    finally:
        plugins.installed.cache_clear()
        sys.modules.pop("shouting", None)


# -- predicates ------------------------------------------------------------------------------------------------------


def test_a_filter_drops_the_rows_of_its_predicate_and_keeps_the_order() -> None:
    found = of({"type": "Filter", "predicate": "p"}, **TOMBSTONE).apply(numbers(1, None, 2, None, None, 3))
    assert [one.value.array.to_pylist() for one in found] == [[{"n": 1}, {"n": 2}, {"n": 3}]]


def test_a_negated_filter_keeps_them() -> None:
    (found,) = of({"type": "Filter", "predicate": "p", "negate": "true"}, **TOMBSTONE).apply(numbers(1, None, 2))
    assert found.value.array.to_pylist() == [None]


def test_a_filter_without_predicate_drops_all() -> None:
    assert of({"type": "Filter"}).apply(numbers(1, 2)) == []


def test_rows_that_keep_their_schema_stay_in_one_batch() -> None:
    rename = {"type": "RegexRouter", "regex": "topic", "replacement": "deleted", "predicate": "p"}
    (found,) = of(rename, **TOMBSTONE).apply(numbers(1, None, 2, None))
    assert found.topic.to_pylist() == ["topic", "deleted", "topic", "deleted"]
    assert found.value.array.to_pylist() == [{"n": 1}, None, {"n": 2}, None]


def test_a_header_for_some_rows_is_missing_in_the_others() -> None:
    (found,) = of(
        {"type": "InsertHeader", "header": "gone", "value.literal": "true", "predicate": "p"}, **TOMBSTONE
    ).apply(numbers(1, None))
    (header,) = found.headers
    assert header.present.to_pylist() == [False, True]
    assert header.values.array.to_pylist() == [None, True]


def test_a_batch_is_cut_where_the_schema_changes_and_the_order_is_kept() -> None:
    hoist = {"type": "HoistField$Value", "field": "f", "predicate": "p", "negate": "true"}
    found = of(hoist, **TOMBSTONE).apply(numbers(1, 2, None, 3))
    assert [one.value.array.to_pylist() for one in found] == [
        [{"f": {"n": 1}}, {"f": {"n": 2}}],
        [None],
        [{"f": {"n": 3}}],
    ]


def test_two_headers_of_one_name_count_for_the_predicate() -> None:
    values = ValueColumn(pa.array(["x", "y"]))
    batch = numbers(1, 2)
    headers = (HeaderColumn("h", values, pa.array([True, False])), HeaderColumn("h", values, pa.array([True, False])))
    batch = source_batch("topic", batch.value, headers=headers)
    settings = {"predicates": "p", "predicates.p.type": "HasHeaderKey", "predicates.p.name": "h"}
    (found,) = of({"type": "Filter", "predicate": "p"}, **settings).apply(batch)
    assert found.value.array.to_pylist() == [{"n": 2}]


# -- bad rows --------------------------------------------------------------------------------------------------------

CAST = {"type": "Cast$Value", "spec": "v:int8"}


def test_bad_rows_have_the_numbers_of_the_first_batch_after_rows_were_dropped() -> None:
    (batch,) = json_batches(None, {"v": "1"}, None, {"v": "x"}, {"v": "2"}, {"v": "400"})
    cast = of({"type": "Filter", "predicate": "p"}, CAST, **TOMBSTONE)
    with pytest.raises(RowError) as raised:
        cast.apply(batch)
    assert raised.value.rows == [3, 5]
    assert raised.value.stage is Stage.TRANSFORMATION
    assert "transform t1:" in raised.value.reasons[3]


def test_bad_rows_among_those_that_a_predicate_selects_are_numbered_in_the_whole_batch() -> None:
    (batch,) = json_batches({"v": "x"}, None, {"v": "1"}, {"v": ""})
    with pytest.raises(RowError) as raised:
        of({**CAST, "predicate": "p", "negate": "true"}, **TOMBSTONE).apply(batch)
    assert raised.value.rows == [0, 3]


def test_a_batch_without_its_bad_rows_passes() -> None:
    (batch,) = json_batches({"v": "x"}, {"v": "7"})
    (found,) = of(CAST).apply(batch.filter(pa.array([False, True])))
    assert json_values([found]) == [{"v": 7}]


# -- missing and null ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"type": "ReplaceField$Value", "renames": "a:z"}, [{"z": 1}, {"z": None, "b": 2}, {}, {"b": None}]),
        ({"type": "ReplaceField$Value", "exclude": "b"}, [{"a": 1}, {"a": None}, {}, {}]),
        (
            {"type": "InsertField$Value", "static.field": "s", "static.value": "t"},
            [{"a": 1, "s": "t"}, {"a": None, "b": 2, "s": "t"}, {"s": "t"}, {"b": None, "s": "t"}],
        ),
        ({"type": "Flatten$Value"}, [{"a": 1}, {"a": None, "b": 2}, {}, {"b": None}]),
        (
            {"type": "HoistField$Value", "field": "h"},
            [{"h": {"a": 1}}, {"h": {"a": None, "b": 2}}, {"h": {}}, {"h": {"b": None}}],
        ),
        (
            {"type": "HeaderFrom$Value", "fields": "a", "headers": "h", "operation": "move"},
            [{}, {"b": 2}, {}, {"b": None}],
        ),
    ],
)
def test_a_missing_field_stays_missing_and_a_null_field_null(settings: dict[str, str], expected: list[Any]) -> None:
    given = json_batches({"a": 1}, {"a": None, "b": 2}, {}, {"b": None})
    assert json_values([found for one in given for found in of(settings).apply(one)]) == expected


def test_a_partition_is_inserted_only_where_there_is_one() -> None:
    (batch,) = json_batches({"p": "old"}, {"p": "old"}, {})
    batch = source_batch("topic", batch.value, partition=pa.array([None, 3, None], pa.int32()))
    found = of({"type": "InsertField$Value", "partition.field": "p"}).apply(batch)
    assert json_values(found) == [{"p": "old"}, {"p": 3}, {}]


# -- Confluent's Drop ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behavior", "optional"), [("nullify", None), ("retain", False), ("force_optional", True), ("validate", "refused")]
)
def test_a_dropped_value_is_null_and_its_schema_follows_the_setting(behavior: str, optional: bool | str | None) -> None:
    schema = Schema(SchemaType.STRING)
    batch = source_batch("topic", ValueColumn(pa.array(["x", "y"]), schema))
    drop = of({"type": "io.confluent.connect.transforms.Drop$Value", "schema.behavior": behavior})
    if optional == "refused":
        with pytest.raises(RowError, match="not optional"):
            drop.apply(batch)
        return
    (found,) = drop.apply(batch)
    assert found.value.array.to_pylist() == [None, None]
    assert (None if found.value.schema is None else found.value.schema.optional) is optional
