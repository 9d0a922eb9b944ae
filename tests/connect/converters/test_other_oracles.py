"""Converters of strings, numbers and headers against Kafka's own. One JVM answers all cases."""

from __future__ import annotations

import base64
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from moldau.connect.converters import converter, header_converter
from moldau.connect.errors import RowError
from moldau.connect.record_batch import ValueColumn
from tests.connect.converters.kafka_converters import HEADERS, JSON, NUMBERS, STRING, ask_kafka, reading, writing

pytestmark = pytest.mark.needs_java

TOPICS = pa.array(["t"])
SIZES = {"Boolean": 1, "Short": 2, "Integer": 4, "Long": 8, "Float": 4, "Double": 8}
TYPES = {
    "Boolean": "boolean", "Short": "int16", "Integer": "int32", "Long": "int64", "Float": "float", "Double": "double"
}  # fmt: skip
SOURCE = random.Random(5)


def number_cases() -> list[dict[str, Any]]:
    found = []
    for name, size in SIZES.items():
        texts: list[bytes | None] = [None, b"", bytes(size), b"\1" * size, b"\xff" * size, bytes(size + 1)]
        texts += [SOURCE.randbytes(size) for _ in range(5)]
        found += [reading(f"{NUMBERS}{name}Converter", one) for one in texts]
        for kind in TYPES.values():
            payload = "true" if kind == "boolean" else "7"
            envelope = f'{{"schema":{{"type":"{kind}"}},"payload":{payload}}}'
            found.append(writing(f"{NUMBERS}{name}Converter", envelope))
    found += [reading(f"{NUMBERS}ByteArrayConverter", one) for one in (None, b"", b"\0\xff")]
    return found


def envelope(schema: str, payload: str) -> str:
    return f'{{"schema":{schema},"payload":{payload}}}'


STRUCT = (
    '{"type":"struct","fields":[{"type":"int32","field":"a"},{"type":"string","optional":true,"field":"b"},'
    '{"type":"array","items":{"type":"string","optional":true},"field":"c"},'
    '{"type":"map","keys":{"type":"string"},"values":{"type":"double"},"field":"d"}]}'
)
LOGICAL = "org.apache.kafka.connect.data"
WRITTEN = [
    envelope('{"type":"string"}', '"äx\\"\\n"'),
    envelope('{"type":"int8"}', "-5"),
    envelope('{"type":"int64"}', "9223372036854775807"),
    envelope('{"type":"double"}', "1.5"),
    envelope('{"type":"double"}', "1e10"),
    envelope('{"type":"double"}', "1e400"),
    envelope('{"type":"double"}', "123456.789"),
    envelope('{"type":"float"}', "0.1"),
    envelope('{"type":"boolean"}', "true"),
    envelope(STRUCT, '{"a":1,"b":"x","c":["y",null,"z \\"q\\" \\\\"],"d":{"k":1.5}}'),
    envelope(STRUCT, '{"a":1,"b":null,"c":[],"d":{}}'),
    envelope('{"type":"struct","fields":[]}', "{}"),
    envelope('{"type":"struct","fields":[{"type":"int32","optional":true,"field":"a"}]}', '{"a":null}'),
    envelope('{"type":"array","items":{"type":"int32"}}', "[1,2]"),
    envelope('{"type":"map","keys":{"type":"int32"},"values":{"type":"string"}}', '[[1,"x"]]'),
    envelope('{"type":"array","items":{"type":"array","items":{"type":"int32"}}}', "[[1],[],[2,3]]"),
    envelope("null", '{"a":[1,"x"]}'),
    envelope("null", '{"a":{"b":null}}'),
    envelope("null", "[1.5,2.5]"),
    envelope(f'{{"type":"int32","name":"{LOGICAL}.Date"}}', "20000"),
    envelope(f'{{"type":"int32","name":"{LOGICAL}.Time"}}', "3723004"),
    envelope(f'{{"type":"int64","name":"{LOGICAL}.Timestamp"}}', "1700000000123"),
    envelope(f'{{"type":"int64","name":"{LOGICAL}.Timestamp"}}', "1700006400000"),
    envelope(f'{{"type":"bytes","name":"{LOGICAL}.Decimal","parameters":{{"scale":"2"}}}}', '"AJY="'),
]
HEADER_TEXTS = [
    "", " ", "x", "plain text", "null", "true", "false", "TRUE", "true ", "1", "127", "128", "-129", "32768", "70000",
    "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1.5", "-0.25", "1e5", "1.0",
    "+7", "007", "1e40", "0.1", "1.", ".5", "-", "+", "1e", "1 2", "12abc", "NaN", "0x10", "1_000",
    "2024-02-29", "2024-13-45x", "10:15:30.123Z", "2024-02-29T10:15:30.123Z", "2024-02-29T10:15:30Z", "2024/01/01",
    "[1, 2, 3]", "[1,300]", "[1,70000,2.5]", '["a","b"]', '["a", "b, c"]', "[1,null]", "[true,false]", "[1,",
    "[1,]", "[a]", "[[1],[2]]", '{"a":1}', '{"a":1,"b":300}', '{"a":"x"}', '{"a":null,"b":1}', "{a:1}", "{1:2}",
    '{"a":[1,2]}', '{"a"}', "]", "}", ":", ",", '"quoted"', 'a"b', "äöü", "😀", "trace:4bf92f3577b34da6:01",
    "4bf92f3577b34da6a3ce929d0e0e4736", "00-4bf92f3577b34da6a3ce929d0e0e4736-01", "12345678901234567890123456789",
    "a\\b", "\\", "text [1]", '["2024-02-29"]', '[{"a":1},{"b":2}]',
]  # fmt: skip
CUT_BY_KAFKA = ["1,5", "1:2", "[1] x", "12:30"]
"""Texts of which Kafka reads the beginning only."""
READ_HEADERS = [reading(HEADERS, one.encode(), header=True) for one in HEADER_TEXTS]
READ_HEADERS += [reading(HEADERS, one, header=True) for one in (None, b"\xff\xfe")]
TEXTS = [reading(STRING, one) for one in (None, b"", "äx".encode(), b"\xffx", b"a\0b")]
TEXTS += [reading(STRING, "ä".encode("latin-1"), converter_encoding="ISO-8859-1")]
WRITE_TEXTS = [writing(STRING, one) for one in WRITTEN] + [writing(HEADERS, one, header=True) for one in WRITTEN]
NUMBER_CASES = number_cases()
CASES = NUMBER_CASES + READ_HEADERS + TEXTS + WRITE_TEXTS


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    folder: Path = tmp_path_factory.mktemp("oracle")
    return list(zip(CASES, ask_kafka(CASES, folder), strict=True))


def read(case: dict[str, Any]) -> ValueColumn:
    raw = pa.array([None if case["bytes"] is None else base64.b64decode(case["bytes"])], pa.binary())
    if case["header"]:
        (column,) = header_converter(case["class"], case["config"]).to_batches(raw, "t", "h")
    else:
        (column,) = converter(case["class"], case["config"], is_key=False).to_batches(raw, "t")
    column.array.validate(full=True)
    return column


def write(case: dict[str, Any]) -> bytes | None:
    (column,) = converter(JSON, {}, is_key=False).to_batches(pa.array([case["data"].encode()], pa.binary()), "t")
    if case["header"]:
        return header_converter(case["class"], case["config"]).from_column(column, TOPICS, "h")[0].as_py()  # type: ignore[no-any-return]
    return converter(case["class"], case["config"], is_key=False).from_column(column, TOPICS)[0].as_py()  # type: ignore[no-any-return]


def numbers(text: str | bytes) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def without_optional(schema: Any) -> Any:
    """A schema without its optional flags: an array with a null has optional elements here, not in Kafka."""
    if isinstance(schema, dict):
        return {name: without_optional(one) for name, one in schema.items() if name != "optional"}
    return [without_optional(one) for one in schema] if isinstance(schema, list) else schema


def check_read(case: dict[str, Any], answer: dict[str, Any]) -> None:
    text = None if case["bytes"] is None else base64.b64decode(case["bytes"])
    if "error" in answer:
        with pytest.raises(RowError) as caught:
            read(case)
        assert caught.value.rows == [0]
        return
    column = read(case)
    if "envelope" not in answer:
        assert answer["value"] is None and column.array.null_count == 1, text
        return
    expected = numbers(answer["envelope"])
    if column.array.null_count:
        assert expected["payload"] is None, text
        return
    found = numbers(converter(JSON, {}, is_key=False).from_column(column, TOPICS)[0].as_py())
    assert without_optional(found["schema"]) == without_optional(expected["schema"]), text
    assert found["payload"] == expected["payload"], text


def test_numbers_are_read_and_written_as_kafka_does(answers: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    refused = 0
    for case, answer in answers[: len(NUMBER_CASES)]:
        if "bytes" in case:
            check_read(case, answer)
        elif "error" in answer:
            with pytest.raises(RowError):
                write(case)
            refused += 1
        else:
            found = write(case)
            assert (None if found is None else base64.b64encode(found).decode()) == answer["bytes"]
    assert refused == len(TYPES) * (len(TYPES) - 1)


@pytest.mark.parametrize("text", HEADER_TEXTS)
def test_a_header_has_the_type_that_kafka_infers(
    text: str, answers: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    at = len(NUMBER_CASES) + HEADER_TEXTS.index(text)
    check_read(*answers[at])


@pytest.mark.parametrize("text", [*CUT_BY_KAFKA, "1.7e400", "[1, 'x']", '[1,"x"]', "1e999999999"])
def test_no_part_of_a_header_is_dropped(text: str) -> None:
    column = read(reading(HEADERS, text.encode(), header=True))
    assert column.array.to_pylist() == [text]


def test_an_empty_array_in_a_header_is_an_array() -> None:
    assert read(reading(HEADERS, b"[]", header=True)).array.to_pylist() == [[]]
    assert read(reading(HEADERS, b"{}", header=True)).array.to_pylist() == [[]]


def test_strings_are_read_as_kafka_reads_them(answers: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    first = len(NUMBER_CASES) + len(HEADER_TEXTS)
    for case, answer in answers[first : first + 2 + len(TEXTS)]:
        check_read(case, answer)


@pytest.mark.parametrize("at", range(len(WRITE_TEXTS)))
def test_any_value_has_the_text_that_kafka_writes(
    at: int, answers: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    case, answer = answers[len(CASES) - len(WRITE_TEXTS) + at]
    assert write(case) == base64.b64decode(answer["bytes"]), case["data"]
