"""Generated Python: formatted and typed, the same in every run, and what the serializers write and read."""

from __future__ import annotations

import datetime
import decimal
import importlib.util
import json
import math
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import fastavro
import fastavro.utils
import pytest
from typer.testing import CliRunner

from moldau.cli.main import app
from moldau.schemas.avro.avro_schema import AvroSchema
from moldau.schemas.codegen.avro_classes import AvroClasses
from moldau.schemas.codegen.generation import python_module
from moldau.schemas.errors import InvalidSchema, SchemaError
from moldau.schemas.parsed_schema import parse
from moldau.schemas.registry_client import RegistryClient
from moldau.schemas.schema import RegisteredSchema, Schema, SchemaReference, SchemaType
from moldau.schemas.serializers.avro_serializer import AvroDeserializer, AvroSerializer
from moldau.schemas.serializers.json_schema_serializer import JsonSchemaDeserializer, JsonSchemaSerializer
from moldau.schemas.serializers.protobuf_serializer import ProtobufDeserializer, ProtobufSerializer
from moldau.testing import Registry
from tests.schemas.avro.random_schemas import RandomSchemas
from tests.schemas.codegen.schemas import ADDRESS, AVRO, JSON, LONG, PROTOBUF
from tests.schemas.json_schema.random_schemas import SchemaSource

TOPICS = ("avro", "json", "protobuf")
LEFT_OUT = ('"decimal"', '"fields":[]', '"type":"error"')
"""Schemas that get no random values: decimals of fastavro's generator are too large, in a union nothing tells a record
without fields apart from an empty map, and errors are for protocols only."""


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Registry() as found:
        yield found


@pytest.fixture(scope="module")
def client(registry: Registry) -> Iterator[RegistryClient]:
    with RegistryClient(registry.url) as client:
        client.register("avro-value", Schema(AVRO))
        client.register("address", Schema(ADDRESS, SchemaType.JSON))
        references = (SchemaReference("address.json", "address", 1),)
        client.register("json-value", Schema(JSON, SchemaType.JSON, references))
        client.register("protobuf-value", Schema(PROTOBUF, SchemaType.PROTOBUF))
        client.register("text-value", Schema('"string"'))
        yield client


def generate(registry: Registry, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["registry", "generate", "python", *arguments, "--url", registry.url])
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def directory(registry: Registry, client: RegistryClient, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The three modules."""
    path = tmp_path_factory.mktemp("generated")
    for topic in TOPICS:
        code, output = generate(registry, f"{topic}-value", "--out", str(path / f"{topic}_records.py"))
        assert (code, output) == (0, "")
    return path


def load(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    try:
        specification.loader.exec_module(module)
    finally:
        del sys.modules[path.stem]
    return module


def run(*command: str) -> None:
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# The text -------------------------------------------------------------------------------------------------------------


def test_the_modules_are_formatted(directory: Path) -> None:
    run("ruff", "format", "--isolated", "--no-cache", "--check", "--diff", str(directory))


def test_the_modules_have_no_findings_of_a_linter(directory: Path) -> None:
    run("ruff", "check", "--isolated", "--no-cache", str(directory))


def test_the_modules_and_random_ones_pass_strict_type_checks(
    directory: Path, tmp_path: Path, seed: int, count: Callable[[int, int], int]
) -> None:
    random_modules = write_random_modules(tmp_path, seed, count(10, 300))
    assert random_modules > 3
    modules = [str(path) for path in (*sorted(directory.glob("*.py")), *sorted(tmp_path.glob("*.py")))]
    run("ruff", "format", "--isolated", "--no-cache", "--check", "--diff", str(tmp_path))
    run("mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}", *modules)
    for path in tmp_path.glob("*.py"):
        load(path)


def write_random_modules(directory: Path, seed: int, count: int) -> int:
    random = Random(seed)
    json_source, avro_source = SchemaSource(random, "http://json-schema.org/draft-07/schema#"), RandomSchemas(random)
    written = 0
    for number in range(count):
        schemas = Schema(json.dumps(json_source.document()), SchemaType.JSON), Schema(json.dumps(avro_source.schema()))
        for schema in schemas:
            try:
                text = python_module(RegisteredSchema(1, schema, "random", 1), parse(schema, {}))
            except (InvalidSchema, SchemaError):
                continue
            (directory / f"random_{schema.type.lower()}_{number}.py").write_text(text)
            written += 1
    return written


def test_the_same_schema_has_the_same_text_in_every_process(registry: Registry, directory: Path) -> None:
    code = f"""
from moldau.schemas.codegen.generation import python_module
from moldau.schemas.registry_client import RegistryClient
with RegistryClient({registry.url!r}) as client:
    for subject in {[f"{topic}-value" for topic in TOPICS]}:
        found = client.latest(subject)
        print(python_module(found, client.parsed(found.schema)), end="")
"""
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
    assert done.stdout == b"".join((directory / f"{topic}_records.py").read_bytes() for topic in TOPICS)


def test_a_module_needs_the_standard_library_only(directory: Path) -> None:
    for topic in TOPICS:
        code = f"import sys; sys.path.insert(0, {str(directory)!r}); import {topic}_records; print(*sys.modules)"
        done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
        assert not {"moldau", "fastavro", "jsonschema", "google.protobuf"} & set(done.stdout.split())


# Values ---------------------------------------------------------------------------------------------------------------


def avro_order(records: ModuleType, **changes: Any) -> Any:
    values: dict[str, Any] = {
        "id": 7,
        "datetime_": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "day": datetime.date(2026, 1, 2),
        "key": uuid.UUID(int=7),
        "payload": None,
        "Line_": None,
        "list_": [1],
    }
    return records.Order(**(values | changes))


def test_avro_records_survive_the_serializers(client: RegistryClient, directory: Path) -> None:
    records = load(directory / "avro_records.py")
    serializer = AvroSerializer(client, AVRO, to_dict=records.Order.to_dict)
    deserializer = AvroDeserializer(client, from_dict=records.Order.from_dict)
    line = records.Line(sku="a", parent=avro_order(records))
    long_record = next(one for name, one in vars(records).items() if name.startswith("AVeryLong"))
    for payload in (None, "text", line, records.Line2(sku="b"), long_record(**{LONG: line}), [line]):
        order = avro_order(
            records,
            amount=decimal.Decimal("1.50"),
            color=records.Color.class_,
            lines=[line],
            tags={"one": line, "none": None},
            payload=payload,
            colors=[records.Color.RED],
        )
        data = serializer.serialize("avro", order)
        assert data is not None
        found = deserializer.deserialize("avro", data)
        assert found == order
        assert type(found.payload) is type(payload)
        assert type(found.color) is records.Color


def test_random_avro_records_are_written_as_they_were_read(
    tmp_path: Path, seed: int, count: Callable[[int, int], int]
) -> None:
    source = RandomSchemas(Random(seed))
    compared = 0
    for number in range(count(40, 2000)):
        schema = Schema(json.dumps(source.schema()))
        try:
            parsed = AvroSchema(schema.text)
            found = random_record(parsed)
        except InvalidSchema:
            continue
        if found is None:
            continue
        fastavro_schema, data = found
        path = tmp_path / f"random{number}.py"
        path.write_text(python_module(RegisteredSchema(1, schema, "random", 1), parsed))
        record = next(
            one for one in AvroClasses().build(parsed).classes if getattr(one, "full_name", "") == parsed.name
        )
        make = getattr(load(path), record.name)
        for named in (False, True):
            plain = decoded(data, fastavro_schema, named)
            out = BytesIO()
            fastavro.schemaless_writer(out, fastavro_schema, make.from_dict(plain).to_dict())
            # Records with the same fields are told apart by their names only.
            assert repr(decoded(out.getvalue(), fastavro_schema, named)) == repr(plain), schema.text
            compared += 1
    assert compared > 10


def decoded(data: bytes, schema: Any, named: bool) -> Any:
    return fastavro.schemaless_reader(BytesIO(data), schema, None, return_record_name=named)


def random_record(parsed: AvroSchema) -> tuple[Any, bytes] | None:
    """A random value of a record; None where fastavro makes no valid one (decimals, records without an end)."""
    if parsed.root.kind != "record" or any(one in parsed.canonical() for one in LEFT_OUT):
        return None
    out = BytesIO()
    try:
        schema = fastavro.parse_schema(parsed.expanded())
        fastavro.schemaless_writer(out, schema, fastavro.utils.generate_one(schema))
        # Once more: fastavro's generator writes UUIDs in a form that it does not write itself.
        value = decoded(out.getvalue(), schema, named=True)
        out = BytesIO()
        fastavro.schemaless_writer(out, schema, value)
    except (RecursionError, ValueError, TypeError, fastavro.schema.UnknownType, fastavro.schema.SchemaParseException):
        return None
    return schema, out.getvalue()


def test_avro_defaults_are_those_of_the_schema(directory: Path) -> None:
    order = avro_order(load(directory / "avro_records.py"))
    assert (order.class_, order.str_, order.raw, order.ratio) == ('it\'s "x"', None, b"\xff", 1)
    assert (order.lines, order.tags, order.color, order.text) == ([], {}, "RED", "long " * 20)
    assert type(order).from_dict(order.to_dict()) == order


def test_json_records_survive_the_serializers(client: RegistryClient, directory: Path) -> None:
    records = load(directory / "json_records.py")
    serializer = JsonSchemaSerializer(client, to_dict=records.Order.to_dict)
    deserializer = JsonSchemaDeserializer(client, from_dict=records.Order.from_dict)
    long_record = next(one for name, one in vars(records).items() if name.startswith("AVeryLong"))
    shapes = (None, "text", records.Circle(r=1.5), records.Square(a=2), long_record(**{LONG: "x"}))
    for shape in shapes:
        order = records.Order(
            id=1,
            maybe=None,
            shape=shape,
            state=records.OrderState.in_progress2,
            lines=[records.OrderLinesItem(sku="a", parent=records.Order(id=2, maybe="m", shape=None))],
            home=records.OrderHome(city="Praha", zip="1"),
            homes={"one": records.Address(city="Brno")},
            additional={"more": 3},
        )
        data = serializer.serialize("json", order)
        assert data is not None
        found = deserializer.deserialize("json", data)
        assert found == order
        assert type(found.shape) is type(shape)


def test_a_json_property_that_is_none_is_left_out_unless_it_is_required(directory: Path) -> None:
    records = load(directory / "json_records.py")
    plain = records.Order(id=1, maybe=None, shape="x").to_dict()
    assert plain == {"id": 1, "kind": "order", "maybe": None, "x-y z": "q", "shape": "x", "flag": False}
    assert records.Order.from_dict({**plain, "state": "in progress"}).state is records.OrderState.in_progress


@pytest.mark.parametrize("missing", ["id", "maybe", "shape"])
def test_a_record_without_a_required_key_is_refused(directory: Path, missing: str) -> None:
    records = load(directory / "json_records.py")
    plain = {"id": 1, "maybe": None, "shape": "x"}
    with pytest.raises(KeyError, match=missing):
        records.Order.from_dict({key: value for key, value in plain.items() if key != missing})
    with pytest.raises(ValueError, match="unknown"):
        records.Order.from_dict({**plain, "state": "unknown"})


def test_protobuf_records_survive_the_serializers(client: RegistryClient, directory: Path) -> None:
    records = load(directory / "protobuf_records.py")
    serializer = ProtobufSerializer(client, schema=PROTOBUF, to_dict=records.Order.to_dict)
    deserializer = ProtobufDeserializer(client, as_dict=True, from_dict=records.Order.from_dict)
    line = records.OrderLine(sku="a", kind=records.OrderLineKind.class_, parent=records.Order(id=1))
    order = records.Order(
        id=2**62,
        count=-3,
        ratio=-math.inf,
        flag=True,
        class_="c",
        raw=b"\0\xff",
        color=records.Color.GREEN,
        lines=[line],
        by_name={"one": line},
        by_number={-(2**62): b"x"},
        by_flag={True: 1.5, False: 0.5},
        maybe=0,
        line=line,
        at=datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC),
        wrapped=2**40,
        extra={"a": [1.5, None, {"b": "c"}]},
        took="1.500s",
        longs=[2**60],
        colors=[records.Color.GREEN, records.Color.RED],
        value=[1.0, "x"],
    )
    for one in (order, records.Order()):
        data = serializer.serialize("protobuf", one)
        assert data is not None
        assert deserializer.deserialize("protobuf", data) == one
    not_a_number = serializer.serialize("protobuf", records.Order(ratio=math.nan))
    assert not_a_number is not None
    assert math.isnan(deserializer.deserialize("protobuf", not_a_number).ratio)


# The command ----------------------------------------------------------------------------------------------------------


def test_the_module_is_printed_without_a_file(registry: Registry, directory: Path) -> None:
    assert generate(registry, "avro-value") == (0, (directory / "avro_records.py").read_text())
    assert generate(registry, "avro-value", "--version", "1")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("unknown-value",), "unknown-value"),
        (("avro-value", "--version", "9"), "9"),
        (("text-value",), "no record"),
        (("avro-value", "--out", "/nowhere/at/all.py"), "/nowhere/at/all.py"),
    ],
)
@pytest.mark.usefixtures("client")
def test_a_failure_is_one_line_and_exit_code_1(registry: Registry, arguments: tuple[str, ...], reason: str) -> None:
    code, output = generate(registry, *arguments)
    assert code == 1
    assert reason in output
    assert len(output.splitlines()) == 1


def test_a_registry_that_is_not_there_is_an_error() -> None:
    done = CliRunner().invoke(app, ["registry", "generate", "python", "a-value", "--url", "http://127.0.0.1:1"])
    assert done.exit_code == 1
    assert "127.0.0.1:1" in done.output
