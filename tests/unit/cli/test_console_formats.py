"""Console formats: lines to records and records to lines, with Kafka's properties, and malformed lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.cli.console_input_format import (
    CHUNK_BYTES,
    Format,
    LineError,
    NewRecord,
    chunks,
    line_form,
    parse_json,
    parser,
)
from moldau.cli.console_output_format import json_renderer, text_form, text_renderer
from moldau.client.consumer.decode import Record
from moldau.records.batch_layout import TimestampType


def parse(line: bytes, format_: Format = Format.STRING, **properties: str) -> NewRecord:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return parser(line_form(named, format_))(line)


def record(value: bytes | None = b"v", key: bytes | None = b"k", **fields: Any) -> Record:
    return Record("t", 1, 7, timestamp=123, key=key, value=value, **fields)


# Input ----------------------------------------------------------------------------------------------------------------


def test_a_line_is_a_value() -> None:
    assert parse(b"a\tb") == NewRecord(b"a\tb")


def test_the_key_is_before_its_separator() -> None:
    assert parse(b"k\tv\tw", parse_key="true") == NewRecord(b"v\tw", b"k")
    assert parse(b"k::v", parse_key="true", key_separator="::") == NewRecord(b"v", b"k")
    assert parser(line_form({}, Format.STRING, "\\t"))(b"k\tv") == NewRecord(b"v", b"k")


def test_headers_are_before_the_key() -> None:
    found = parse(b"a:1,b:2\tk\tv", parse_headers="true", parse_key="true")
    assert found == NewRecord(b"v", b"k", [("a", b"1"), ("b", b"2")])


def test_a_marker_stands_for_null() -> None:
    properties = {"parse_headers": "true", "parse_key": "true", "null_marker": "NIL"}
    assert parse(b"NIL\tNIL\tNIL", **properties) == NewRecord(None, None, [])
    assert parse(b"a:NIL\tk\tv", **properties) == NewRecord(b"v", b"k", [("a", None)])


def test_a_line_without_its_separator_is_an_error_unless_errors_are_ignored() -> None:
    with pytest.raises(LineError, match="no key"):
        parse(b"v", parse_key="true")
    assert parse(b"v", parse_key="true", ignore_error="true") == NewRecord(b"v", None)


def test_hexadecimal_is_bytes() -> None:
    assert parse(b"6b\t00ff", Format.HEX, parse_key="true") == NewRecord(b"\x00\xff", b"k")
    with pytest.raises(LineError, match="hexadecimal"):
        parse(b"xyz", Format.HEX)


def test_json_has_all_of_a_record() -> None:
    line = b'{"key": "k", "value": {"a": 1}, "headers": {"h": "x"}, "partition": 2, "timestamp": 5}'
    assert parse(line, Format.JSON) == NewRecord(b'{"a":1}', b"k", [("h", b"x")], 2, 5)
    assert parse(b'{"value": null}', Format.JSON) == NewRecord(None, None, [])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"valeu": 1}', "unknown field 'valeu'"),
        (b'{"partition": "x"}', "whole number"),
        (b'{"value_base64": "?"}', "base64"),
        (b'{"headers": [1]}', "headers"),
    ],
)
def test_json_that_is_not_a_record_is_reported(line: bytes, said: str) -> None:
    with pytest.raises(LineError, match=said):
        parse_json(line)


@pytest.mark.parametrize("properties", [{"parse.kye": "true"}, {"parse.key": "yes"}, {"print.key": "true"}])
def test_an_invalid_property_is_reported(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="key"):
        line_form(properties, Format.STRING)


def reader(data: bytes, sizes: list[int]) -> Callable[[int], bytes]:
    """A stream that returns the data in pieces of these sizes, as a pipe may."""

    def pieces() -> Iterator[bytes]:
        at = 0
        for size in sizes:
            yield data[at : at + size]
            at += size
        yield data[at:]

    source = (piece for piece in pieces() if piece)
    return lambda _: next(source, b"")


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)), st.lists(st.integers(1, 30)))
def test_lines_are_whole_however_they_arrive(lines: list[bytes], sizes: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    assert [line for chunk in chunks(reader(data, sizes)) for line in chunk] == lines


def test_a_last_line_without_an_end_is_a_line() -> None:
    assert list(chunks(reader(b"a\nb", []))) == [[b"a"], [b"b"]]


def test_a_line_longer_than_a_read_is_whole() -> None:
    long = b"x" * (3 * CHUNK_BYTES)
    assert list(chunks(reader(long + b"\ny\n", [CHUNK_BYTES] * 3))) == [[long, b"y"]]


# Output ---------------------------------------------------------------------------------------------------------------


def text(*records: Record, format_: Format = Format.STRING, **properties: str) -> bytes:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return text_renderer(text_form(named, format_))(records)


def test_values_alone_are_printed() -> None:
    assert text(record(b"a"), record(None), record(b"b")) == b"a\nnull\nb\n"
    assert text() == b""


def test_everything_is_printed_in_kafkas_order() -> None:
    everything = dict.fromkeys(
        ["print_value", "print_key", "print_headers", "print_epoch", "print_offset", "print_partition"], "true"
    )
    found = text(record(headers=[("a", b"1"), ("b", None)], leader_epoch=3), print_timestamp="true", **everything)
    assert found == b"CreateTime:123\tPartition:1\tOffset:7\tEpoch:3\ta:1,b:null\tk\tv\n"


def test_missing_parts_are_reported_in_the_words_of_kafka() -> None:
    nothing = Record("t", 0, 0, value=b"v")
    assert text(nothing, print_timestamp="true", print_headers="true") == b"NO_TIMESTAMP\tNO_HEADERS\tv\n"
    stamped = record(timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert text(stamped, print_timestamp="true") == b"LogAppendTime:123\tv\n"


def test_separators_and_nulls_are_chosen() -> None:
    found = text(record(None), print_key="true", key_separator="=", line_separator=";", null_literal="-")
    assert found == b"k=-;"


def test_bytes_are_shown_in_hexadecimal() -> None:
    assert text(record(b"\x00\xff"), format_=Format.HEX, print_key="true") == b"6b\t00ff\n"


def test_json_shows_text_as_text_and_other_bytes_in_base64() -> None:
    line = json_renderer(Format.STRING)([record(b"\xff", "š".encode(), headers=[("h", b"x"), ("h", b"\xfe")])])
    assert json.loads(line) == {
        "topic": "t",
        "partition": 1,
        "offset": 7,
        "timestamp": 123,
        "timestamp_type": "CreateTime",
        "key": "š",
        "value_base64": "/w==",
        "headers": [{"key": "h", "value": "x"}, {"key": "h", "value_base64": "/g=="}],
    }


def test_json_values_are_embedded_as_json() -> None:
    render = json_renderer(Format.JSON)
    assert json.loads(render([record(b'{"a": [1]}')]))["value"] == {"a": [1]}
    assert json.loads(render([record(b"not json")]))["value"] == "not json"


OPTIONAL_BYTES = st.none() | st.binary(max_size=20)
HEADERS = st.lists(st.tuples(st.text(max_size=5), OPTIONAL_BYTES), max_size=3)


@given(value=OPTIONAL_BYTES, key=OPTIONAL_BYTES, headers=HEADERS)
def test_json_output_is_read_as_the_same_record(
    value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    line = json_renderer(Format.STRING)([record(value, key, headers=headers)])
    assert parse_json(line) == NewRecord(value, key, headers, 1, 123)
