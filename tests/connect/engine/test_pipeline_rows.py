"""Bad rows on their way through a pipeline with real converters: exactly they are reported, with their stage."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from moldau.connect.engine.pipeline import HEADERS_TYPE, MILLISECONDS, RecordPipeline
from moldau.connect.engine.pipeline_spec import PipelineSpec
from moldau.connect.engine.run_settings import ConverterSpecs, ErrorSettings, PluginSpec
from moldau.connect.engine.tolerance import BadRow, ErrorHandler
from moldau.connect.errors import Stage


def pipeline(
    key: str, value: str, header: str, transforms: dict[str, str] | None = None, **config: str
) -> RecordPipeline:
    settings = {name.replace("_", "."): text for name, text in config.items()}
    specs = ConverterSpecs(PluginSpec(key), PluginSpec(value, settings), PluginSpec(header))
    return RecordPipeline(PipelineSpec("test", transforms or {}, specs))


def consumed(rows: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]) -> pa.RecordBatch:
    count = len(rows)
    headers = [[{"key": name, "value": value} for name, value in row[2]] for row in rows]
    return pa.record_batch(
        {
            "key": pa.array([row[0] for row in rows], pa.binary()),
            "value": pa.array([row[1] for row in rows], pa.binary()),
            "topic": pa.array(["t"] * count),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([0] * count, pa.int64()).cast(MILLISECONDS),
            "headers": pa.array(headers, HEADERS_TYPE),
        }
    )


def no_sleep(seconds: float) -> None:
    pytest.fail("nothing is retried here")


def bad_rows(found: RecordPipeline, batch: pa.RecordBatch) -> tuple[list[Any], list[tuple[int, Stage]]]:
    """The offsets of the good rows, and of the bad ones with their stages."""
    bad: list[BadRow] = []
    handler = ErrorHandler(ErrorSettings(tolerate=True), no_sleep, lambda: 0.0, bad.append)
    good = [
        offset
        for one in found.from_topic(batch, handler)
        if one.origin is not None
        for offset in one.origin.column("offset").to_pylist()
    ]
    return good, [(one.rows.column("offset")[0].as_py(), one.stage) for one in bad]


LONG = bytes(8)


def test_a_bad_header_value_takes_its_own_record_out() -> None:
    rows = [
        (None, b"1", []),
        (None, b"2", [("n", LONG)]),
        (None, b"3", []),
        (None, b"4", [("other", LONG), ("n", b"short")]),
        (None, b"5", [("n", LONG), ("n", b"short")]),
        (None, b"6", [("n", None)]),
    ]
    good, bad = bad_rows(pipeline("String", "Json", "Long", schemas_enable="false"), consumed(rows))
    assert good == [0, 1, 2, 5]
    assert sorted(bad) == [(3, Stage.HEADER_CONVERTER), (4, Stage.HEADER_CONVERTER)]


def test_bad_keys_and_values_are_told_apart() -> None:
    rows: list[Any] = [(LONG, b"{", []), (b"x", b"1", []), (LONG, b'{"a":1}', []), (b"y", b"}", []), (None, None, [])]
    good, bad = bad_rows(pipeline("Long", "Json", "Simple", schemas_enable="false"), consumed(rows))
    assert good == [2, 4]
    assert sorted(bad, key=str) == [
        (0, Stage.VALUE_CONVERTER), (1, Stage.KEY_CONVERTER), (3, Stage.KEY_CONVERTER)
    ]  # fmt: skip


def test_rows_of_many_types_keep_their_order() -> None:
    texts = [b"1", b'"x"', b'{"a":1}', b"[]", b'{"a":"x"}', b"null", b"true", b"2"] * 50
    rows: list[Any] = [(None, text, [("h", text)] if row % 3 else []) for row, text in enumerate(texts)]
    good, bad = bad_rows(pipeline("String", "Json", "Simple", schemas_enable="false"), consumed(rows))
    assert good == list(range(len(rows)))
    assert bad == []


CAST = {"transforms": "t", "transforms.t.type": "org.apache.kafka.connect.transforms.Cast$Value"}
ADD = {"transforms": "t", "transforms.t.type": "org.apache.kafka.connect.transforms.InsertField$Value"}


def rewritten(texts: list[str], transforms: dict[str, str]) -> list[Any]:
    """The values after transforms, as JSON again."""
    found = pipeline("String", "Json", "Simple", transforms, schemas_enable="false")
    handler = ErrorHandler(ErrorSettings(), no_sleep, lambda: 0.0, lambda _: None)
    written = []
    for batch in found.from_topic(consumed([(None, text.encode(), []) for text in texts]), handler):
        plain = pipeline("String", "Json", "Simple", schemas_enable="false")
        for one in plain.to_topic(batch, handler):
            written += [value.decode() for value in one.column(1).to_pylist()]
    return written


def test_a_field_whose_type_changes_in_every_row_is_still_transformed() -> None:
    texts = ['{"a":1}', '{"a":"2"}', '{"a":true}', '{"a":2.5}'] * 60
    expected = ['{"a":"1"}', '{"a":"2"}', '{"a":"true"}', '{"a":"2.5"}'] * 60
    assert rewritten(texts, {**CAST, "transforms.t.spec": "a:string"}) == expected


def test_integers_beside_fractions_stay_integers_after_a_transform() -> None:
    texts = ['{"a":10}', '{"a":10.5}', '{"a":11,"b":{"c":1}}', '{"b":{"c":1.5}}']
    added = rewritten(texts, {**ADD, "transforms.t.static.field": "s", "transforms.t.static.value": "v"})
    assert added == [
        '{"a":10,"s":"v"}',
        '{"a":10.5,"s":"v"}',
        '{"a":11,"b":{"c":1},"s":"v"}',
        '{"b":{"c":1.5},"s":"v"}',
    ]
    cast = rewritten(texts[:2], {**CAST, "transforms.t.spec": "a:string"})
    assert cast == ['{"a":"10"}', '{"a":"10.5"}']
