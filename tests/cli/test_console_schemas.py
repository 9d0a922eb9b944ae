"""Console producer and consumer with a schema registry: lines of JSON become Avro in the topic, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cli.console_input_format import parse_json
from moldau.cli.schema_formats import DataFormat, Formats, schema_text
from moldau.client.errors import ConfigurationError
from moldau.testing import Registry
from tests.cli.processes import done, run

ORDER = """{"type": "record", "name": "Order", "fields": [
  {"name": "id", "type": "int"},
  {"name": "note", "type": ["null", "string"], "default": null},
  {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}"""
LINES = [
    {"id": 1, "note": None, "total": "12.50", "at": "2026-11-18T15:30:00+00:00"},
    {"id": 2, "note": "schön", "total": "0.01", "at": "2026-11-18T15:30:00.250000+00:00"},
]


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as found:
        yield found


def as_lines(values: list[object]) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in values).encode()


def test_lines_go_through_avro_and_come_back(bootstrap: str, topic: str, registry: Registry, tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    formats = ("--value-format", "avro", "--registry", registry.url)
    keyed = "".join(f'"k{one["id"]}"\t{json.dumps(one)}\n' for one in LINES).encode()
    keys = ("--key-format", "avro", "--key-schema", '"string"')
    done(bootstrap, "produce", topic, *formats, "--schema", str(file), *keys, "-K", "\\t", given=keyed)
    read = ("--from-beginning", "--until-end", *formats, "--key-format", "avro")
    whole = done(bootstrap, "consume", topic, *read, "--output", "json")
    assert [(one["key"], one["value"]) for one in map(json.loads, whole.splitlines())] == [
        ("k1", LINES[0]),
        ("k2", LINES[1]),
    ]


def test_what_consume_prints_is_read_again(registry: Registry) -> None:
    line = json.dumps({"topic": "orders", "key": "k1", "value": LINES[1]}).encode()
    record = parse_json(line, json_key=True, json_value=True)
    assert (record.key, json.loads(record.value or b"")) == (b'"k1"', LINES[1])
    registry.register("orders-value", ORDER)
    settings = {"bootstrap.servers": "127.0.0.1:1", "schema.registry.url": registry.url}
    # Without a schema, the latest one counts.
    data = Formats(DataFormat.AVRO).serializers(settings)["value.serializer"].serialize("orders", record.value)
    assert data[:5] == b"\0\0\0\0\1"


TEXTS = {
    DataFormat.AVRO: ORDER,
    DataFormat.JSON_SCHEMA: '{"type": "object", "properties": {"id": {"type": "integer"}}}',
    DataFormat.PROTOBUF: 'syntax = "proto3"; message Other {} message Order { int32 id = 1; string note = 2; }',
}


@pytest.mark.parametrize("kind", TEXTS)
def test_every_format_goes_there_and_back(registry: Registry, kind: DataFormat) -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1", "schema.registry.url": registry.url}
    message = "Order" if kind is DataFormat.PROTOBUF else None
    value = LINES[1] if kind is DataFormat.AVRO else {"id": 2, "note": "schön"}
    writing = Formats(kind, schema=TEXTS[kind], message=message).checked().serializers(settings)["value.serializer"]
    data = writing.serialize("orders", json.dumps(value).encode())
    reading = Formats(kind).deserializers(settings)["value.deserializer"]
    assert json.loads(reading.deserialize("orders", data)) == value
    assert writing.serialize("orders", None) is None and writing.serialize("orders", b"null") is None
    for wrong in (b"{", b'{"id": "two"}', b"[]"):
        with pytest.raises(ValueError, match=r"JSON|topic 'orders'"):
            writing.serialize("orders", wrong)


def test_wrong_settings_are_errors_of_the_option(registry: Registry) -> None:
    wrong = {
        "bootstrap.servers": "127.0.0.1:1",
        "schema.registry.url": registry.url,
        "value.subject.name.strategy": "alphabet",
    }
    with pytest.raises(ConfigurationError, match="--value-format: subject name strategy 'alphabet'"):
        Formats(DataFormat.AVRO).serializers(wrong)
    with pytest.raises(ConfigurationError, match="--value-format: subject name strategy 'alphabet'"):
        Formats(DataFormat.AVRO).deserializers(wrong)
    with pytest.raises(ConfigurationError, match=r"--key-format: schema\.registry\.url"):
        Formats(key=DataFormat.AVRO, registry="nowhere").serializers({"bootstrap.servers": "127.0.0.1:1"})


def test_a_line_that_does_not_fit_is_named(bootstrap: str, topic: str, registry: Registry) -> None:
    lines = as_lines([LINES[0], {**LINES[1], "id": "two"}])
    options = ("--value-format", "avro", "--schema", ORDER, "--registry", registry.url)
    finished = run(bootstrap, "produce", topic, *options, given=lines)
    message = finished.stderr.decode()
    assert finished.returncode == 1 and "line 2:" in message and "field id: expected an int, got 'two'" in message
    assert "Traceback" not in message
    shown = done(
        bootstrap,
        "consume",
        topic,
        "--from-beginning",
        "--until-end",
        "--value-format",
        "avro",
        "--registry",
        registry.url,
    )
    assert json.loads(shown) == LINES[0]


@pytest.mark.parametrize(
    ("formats", "message"),
    [
        (Formats(schema="{}"), "--schema needs --value-format"),
        (Formats(message="M"), "--message needs --value-format"),
        (Formats(value=DataFormat.AVRO, key_schema="{}"), "--key-schema needs --key-format"),
        (Formats(value=DataFormat.AVRO, schema="/nowhere/x.avsc"), "/nowhere/x.avsc"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(formats: Formats, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        formats.checked()


def test_a_schema_is_a_text_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "x.proto"
    file.write_text("message M {}")
    assert schema_text(str(file)) == "message M {}"
    for text in ('{"type": "int"}', '"string"', '["null", "int"]', 'syntax = "proto3"; message M {}'):
        assert schema_text(text) == text
    assert schema_text(None) is None
