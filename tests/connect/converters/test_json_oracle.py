"""JsonConverter against Kafka's own, on random schemas and values in both directions.

One JVM answers all cases. Rows that Kafka refuses must be refused here.
"""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from moldau.connect import json_reference
from moldau.connect.converters import converter
from moldau.connect.errors import RowError
from moldau.connect.json_schemas import to_json
from moldau.connect.record_batch import ValueColumn
from tests.connect.converters.kafka_converters import JSON, ask_kafka, reading, writing
from tests.connect.converters.random_schemas import RandomSchemas

pytestmark = pytest.mark.needs_java

SCHEMAS = 150
VALUES = 4
TOPICS = pa.array(["t"])

WITHOUT_SCHEMAS = [
    "1", "-5", "1.5", "1E5", "12345678901234567890", "1e400", "0012", "-007.5", '"x"', '"\\ud83d\\ude00"', "true",
    "null", "", " ", "[]", "{}", '{"a":1,"b":[1,2.5,null],"c":{"d":null},"e":"x"}', '[1,"a",null,{"x":1.5}]',
    '{"a":1,"a":"b"}', "NaN", "Infinity", '"a\tb"', "12abc", "+1", ".5", "1.", '{"a":1,}', "[1,]", "{'a':1}", "nullx",
    "true1", "/*c*/1", '"\\x"', "9" * 1001, "[" * 1001 + "]" * 1001, "9223372036854775807", "-9223372036854775808",
]  # fmt: skip


def plain(schema: str, payload: str) -> str:
    return f'{{"schema":{schema},"payload":{payload}}}'


STRUCT = (
    '{"type":"struct","fields":[{"type":"int8","optional":true,"field":"a"},'
    '{"type":"string","default":"d","field":"b"},{"type":"int64","field":"c"}]}'
)
ENVELOPES = [
    plain(STRUCT, '{"a":300,"c":1}'),
    plain(STRUCT, '{"a":1.9,"b":"x","c":2,"more":[1,{"x":2}]}'),
    plain(STRUCT, '{"a":null,"b":null,"c":99999999999999999999}'),
    plain(STRUCT, '{"a":1}'),
    plain(STRUCT, "null"),
    plain(STRUCT, "[]"),
    f'{{"payload":{{"c":5}}, "schema" : {STRUCT} }}',
    plain("null", '{"a":1}'),
    plain('{"type":"bytes"}', '"YQ"'),
    plain('{"type":"bytes"}', '"Y Q=="'),
    plain('{"type":"array","items":{"type":"int32"}}', "[1,null]"),
    plain('{"type":"map","keys":{"type":"int32"},"values":{"type":"string","optional":true}}', '[[1,"a"],[2,null]]'),
    plain('{"type":"map","keys":{"type":"int32"},"values":{"type":"string"}}', '[[1,"a",3]]'),
    plain('{"type":"map","keys":{"type":"int32"},"values":{"type":"string"}}', '{"1":"a"}'),
    plain('{"type":"map","keys":{"type":"string"},"values":{"type":"string"}}', '[["a","b"]]'),
    plain('{"type":"int32","optional":"x","version":"x","doc":5}', "1"),
    plain('{"type":"int32","default":5}', "null"),
    plain('{"type":"int32"}', "null"),
    plain('{"type":"double"}', "1e400"),
    plain('{"type":"foo"}', "1"),
    plain('{"type":"struct"}', "{}"),
    plain('{"type":"array"}', "[]"),
    plain('{"type":"struct","fields":[{"type":"int8"}]}', "{}"),
    plain("5", "1"),
    plain('{"type":"int32","name":"org.apache.kafka.connect.data.Time"}', "-1"),
    plain('{"type":"int32","name":"org.apache.kafka.connect.data.Date"}', "1.5"),
    plain('{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp"}', '"x"'),
    plain('{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp"}', "99999999999999"),
    '{"schema":{"type":"int32"}}',
    '{"schema":{"type":"int32"},"payload":1,"x":2}',
    "{}",
    "[]",
    "1",
    "",
    "{",
]


def random_envelopes() -> list[str]:
    schemas = RandomSchemas(20260101)
    found = []
    for _ in range(SCHEMAS):
        schema = schemas.schema()
        text = json.dumps(to_json(schema))
        found += [plain(text, json.dumps(schemas.value(schema))) for _ in range(VALUES)]
    return found


RANDOM = random_envelopes()
CASES = (
    [reading(JSON, one.encode(), schemas_enable="false") for one in WITHOUT_SCHEMAS]
    + [reading(JSON, one.encode()) for one in [*ENVELOPES, *RANDOM]]
    + [writing(JSON, one) for one in RANDOM]
    + [writing(JSON, one, schemas_enable="false", decimal_format="NUMERIC") for one in RANDOM]
    + [writing(JSON, plain("null", one)) for one in WITHOUT_SCHEMAS[:7]]
)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    folder: Path = tmp_path_factory.mktemp("oracle")
    return list(zip(CASES, ask_kafka(CASES, folder), strict=True))


def ours(case: dict[str, Any]) -> Any:
    return converter(case["class"], case["config"], is_key=False)


def read(case: dict[str, Any]) -> ValueColumn:
    raw = pa.array([base64.b64decode(case["bytes"])], pa.binary())
    (column,) = ours(case).to_batches(raw, "t")
    column.array.validate(full=True)
    return column  # type: ignore[no-any-return]


def tagged(value: Any) -> Any:
    """Schemaless data in the form of the oracle's answer."""
    if isinstance(value, json_reference.JsonText):
        value = json_reference.parse(value.encode())
    if isinstance(value, dict):
        return {"object": {name: tagged(one) for name, one in value.items()}}
    if isinstance(value, list):
        return [tagged(one) for one in value]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    return {"Long" if isinstance(value, int) else "Double": float(value) if isinstance(value, float) else str(value)}


def as_floats(answer: Any) -> Any:
    """The oracle's answer with doubles as numbers."""
    if isinstance(answer, list):
        return [as_floats(one) for one in answer]
    if isinstance(answer, dict):
        if "Double" in answer:
            return {"Double": float(answer["Double"])}
        return {name: as_floats(one) for name, one in answer.items()}
    return answer


def numbers(text: str | bytes) -> Any:
    """JSON with exact numbers (1.50 equals 1.5, and 1 equals 1.0), and with pairs sorted: Java's maps have no order."""
    return _ordered(json.loads(text, parse_float=Decimal, parse_int=Decimal))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _ordered(one) for name, one in value.items()}
    if not isinstance(value, list):
        return value
    found = [_ordered(one) for one in value]
    if all(isinstance(one, list) and len(one) == 2 for one in found):
        return sorted(found, key=repr)
    return found


def envelope_of(column: ValueColumn) -> bytes:
    writer = converter(JSON, {"replace.null.with.default": "false"}, is_key=False)
    found = writer.from_column(column, TOPICS)[0].as_py()
    assert isinstance(found, bytes)
    return found


def test_values_are_read_as_kafka_reads_them(answers: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    compared = 0
    for case, answer in answers:
        if "bytes" not in case:
            continue
        text = base64.b64decode(case["bytes"])
        if "error" in answer:
            with pytest.raises(RowError) as caught:
                read(case)
            assert caught.value.rows == [0], text
        elif "envelope" in answer:
            column = read(case)
            if column.array.null_count:
                assert numbers(answer["envelope"])["payload"] is None, text
            else:
                assert numbers(envelope_of(column)) == numbers(answer["envelope"]), text
        else:
            assert tagged(json_reference.rows(read(case).array)[0]) == as_floats(answer["value"]), text
        compared += 1
    assert compared == len(WITHOUT_SCHEMAS) + len(ENVELOPES) + len(RANDOM)


def test_values_are_written_as_kafka_writes_them(answers: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    reader = converter(JSON, {"replace.null.with.default": "false"}, is_key=False)
    same_bytes = compared = 0
    for case, answer in answers:
        if "data" not in case:
            continue
        compared += 1
        try:
            (column,) = reader.to_batches(pa.array([case["data"].encode()], pa.binary()), "t")
            found = ours(case).from_column(column, TOPICS)[0].as_py()
        except RowError:
            assert "error" in answer, case
            continue
        if column.array.null_count:
            assert found is None  # on purpose: a null row is a record without value
            continue
        assert "bytes" in answer, (case, answer)
        expected = base64.b64decode(answer["bytes"])
        assert numbers(found) == numbers(expected), case
        same_bytes += found == expected
    assert compared > 2 * len(RANDOM)
    # Kafka's maps have no order, and Java 17 writes some doubles with a digit too many.
    assert same_bytes > 0.8 * compared


def test_rows_of_a_column_are_read_and_written_as_alone(answers: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    good = [
        (base64.b64decode(case["bytes"]), answer["envelope"])
        for case, answer in answers
        if "envelope" in answer and case["config"] == {}
    ]
    raw = pa.array([text for text, _ in good], pa.binary())
    columns = list(converter(JSON, {}, is_key=False).to_batches(raw, "t"))
    assert sum(map(len, columns)) == len(good)
    assert len(columns) < len(good) / 2
    writer = converter(JSON, {"replace.null.with.default": "false"}, is_key=False)
    found = [one for column in columns for one in writer.from_column(column, TOPICS).to_pylist()]
    for one, (_, expected) in zip(found, good, strict=True):
        if one is None:
            assert numbers(expected)["payload"] is None
        else:
            assert numbers(one) == numbers(expected)
