"""Records with tagged values, as the oracle reads them, and their way into batches of Arrow and back.

Slow and simple on purpose: one value at a time, and nothing shared with the converters that it could hide a mistake of.

A value is None or a tuple of its Java type and its content: ("int8", 5), ("time", milliseconds), ("decimal", unscaled,
scale), ("list", [...]), ("map", [(key, value) ...]), ("struct", [(name, value) ...]). Schemaless objects are maps.
"""

from __future__ import annotations

import base64
import datetime
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa

from moldau.connect.record_batch import ConnectBatch, HeaderColumn, ValueColumn, is_null_mark, null_mark
from moldau.connect.schemas import DATE, DECIMAL, SCALE, TIME, TIMESTAMP, Schema, SchemaType, arrow_type

Tagged = Any
DAY_MS = 86_400_000
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

TYPE_NAMES = {SchemaType.FLOAT32: "float32", SchemaType.FLOAT64: "float64"}
ARROW_TYPES = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "time": pa.timestamp("ms", tz="UTC"),
}
TAGS = {kind: tag for tag, kind in ARROW_TYPES.items()}


# -- schemas ---------------------------------------------------------------------------------------------------------


def schema_json(schema: Schema | None) -> Any:
    """A schema as the oracle writes it."""
    if schema is None:
        return None
    return {
        "type": schema.type.name,
        "optional": schema.optional,
        "default": None if schema.default is None else tagged_default(schema),
        "name": schema.name,
        "version": schema.version,
        "doc": schema.doc,
        "parameters": dict(schema.parameters),
        "fields": [[one.name, schema_json(one.schema)] for one in schema.fields],
        "keys": schema_json(schema.key_schema),
        "values": schema_json(schema.value_schema),
    }


def tagged_default(schema: Schema) -> Tagged:
    return tagged(pa.array([schema.default], arrow_type(schema))[0], schema)


# -- tagged values to Arrow ------------------------------------------------------------------------------------------


def plain(value: Tagged, schema: Schema) -> Any:
    """The Python object that Arrow takes for a value with a schema."""
    if value is None:
        return None
    tag, content, *more = value
    if tag == "bytes":
        return base64.b64decode(content)
    if tag in ("float32", "float64"):
        return float(content.replace("Infinity", "inf"))
    if tag == "time":
        return content // DAY_MS if schema.name == DATE else content
    if tag == "decimal":
        return Decimal(int(content)).scaleb(-more[0])
    if tag == "list":
        return [plain(one, schema.value_schema) for one in content]
    if tag == "map":
        return [(plain(key, schema.key_schema), plain(one, schema.value_schema)) for key, one in content]
    if tag == "struct":
        return {name: plain(one, schema.field(name).schema) for name, one in content}
    return content


def column(values: list[Tagged], schema: Schema | None) -> ValueColumn:
    """A column of tagged values. Schemaless values of one column have one shape."""
    if schema is None:
        return ValueColumn(schemaless(values))
    kind = arrow_type(schema)
    found = pa.array([plain(one, schema) for one in values], _nullable(kind))
    return ValueColumn(_as_type(found, kind), schema)


def _as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same buffers under a type whose children are required: Arrow's cast refuses nulls in null structs."""
    children = [array.field(i) for i in range(array.type.num_fields)] if pa.types.is_struct(kind) else None
    if children is None:
        return array if array.type.equals(kind) else array.cast(kind)
    children = [_as_type(child, kind.field(i).type) for i, child in enumerate(children)]
    return pa.StructArray.from_buffers(kind, len(array), [array.buffers()[0]], children=children)


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _nullable(one.type)) for one in kind])
    return kind


def schemaless(values: list[Tagged]) -> pa.Array:
    there = [one for one in values if one is not None]
    if not there:
        return pa.nulls(len(values))
    tag = there[0][0]
    assert all(one[0] == tag for one in there), values
    if tag == "map":
        return _objects(values, there)
    if tag == "list":
        elements = schemaless([part for one in there for part in one[1]])
        offsets = [0]
        for one in values:
            offsets.append(offsets[-1] + (0 if one is None else len(one[1])))
        mask = pa.array([one is None for one in values])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, mask=mask)
    dummy = Schema(SchemaType.STRING)
    return pa.array([plain(one, dummy) for one in values], ARROW_TYPES[tag])


def _objects(values: list[Tagged], there: list[Tagged]) -> pa.Array:
    names = list(dict.fromkeys(key[1] for one in there for key, _ in one[1]))
    rows = [None if one is None else {key[1]: part for key, part in one[1]} for one in values]
    children: dict[str, pa.Array] = {}
    for name in names:
        children[name] = schemaless([None if row is None else row.get(name) for row in rows])
        nulls = [row is not None and name in row and row[name] is None for row in rows]
        if any(nulls):
            children[null_mark(name)] = pa.array(nulls)
    kind = pa.struct([(name, child.type) for name, child in children.items()])
    valid = pa.array([row is not None for row in rows])
    return pa.StructArray.from_buffers(kind, len(rows), [valid.buffers()[1]], children=list(children.values()))


# -- Arrow to tagged values ------------------------------------------------------------------------------------------


def tagged(scalar: pa.Scalar, schema: Schema | None) -> Tagged:
    if not scalar.is_valid:
        return None
    if schema is None:
        return _tagged_schemaless(scalar)
    if schema.name == DECIMAL:
        scale = int(schema.parameters[SCALE])
        return ("decimal", str(int(scalar.as_py().scaleb(scale))), scale)
    if schema.name in (DATE, TIME, TIMESTAMP):
        return ("time", _milliseconds(scalar))
    if schema.type is SchemaType.STRUCT:
        return ("struct", [(one.name, tagged(scalar[one.name], one.schema)) for one in schema.fields])
    if schema.type is SchemaType.ARRAY:
        return ("list", [tagged(one, schema.value_schema) for one in scalar.values] if len(scalar.values) else [])
    if schema.type is SchemaType.MAP:
        entries = [(one["key"], one["value"]) for one in scalar.values]
        return ("map", [(tagged(key, schema.key_schema), tagged(one, schema.value_schema)) for key, one in entries])
    return _primitive(TYPE_NAMES.get(schema.type, schema.type.value), scalar.as_py())


def _primitive(tag: str, content: Any) -> Tagged:
    if tag == "bytes":
        return (tag, base64.b64encode(content).decode())
    if tag in ("float32", "float64"):
        return (tag, str(content).replace("inf", "Infinity").replace("nan", "NaN"))
    return (tag, content)


def _milliseconds(scalar: pa.Scalar) -> int:
    if pa.types.is_date32(scalar.type):
        return int(scalar.cast(pa.int32()).as_py()) * DAY_MS
    if pa.types.is_time32(scalar.type):
        return int(scalar.cast(pa.int32()).as_py())
    return int(scalar.cast(pa.int64()).as_py())


def _tagged_schemaless(scalar: pa.Scalar) -> Tagged:
    kind = scalar.type
    if pa.types.is_struct(kind):
        entries = []
        names = [one.name for one in kind]
        for name in names:
            if is_null_mark(name):
                continue
            marked = null_mark(name) in names and scalar[null_mark(name)].as_py()
            if scalar[name].is_valid or marked:
                assert not (scalar[name].is_valid and marked), (name, scalar)
                entries.append((("string", name), tagged(scalar[name], None)))
        return ("map", entries)
    if pa.types.is_list(kind):
        return ("list", [tagged(one, None) for one in scalar.values])
    if pa.types.is_temporal(kind):
        return ("time", _milliseconds(scalar))
    return _primitive(TAGS[kind], scalar.as_py())


# -- batches ---------------------------------------------------------------------------------------------------------


def batch(records: list[dict[str, Any]], schemas: dict[str, Schema | None]) -> ConnectBatch:
    """One batch of records with the same schemas and header names."""
    headers = tuple(
        HeaderColumn(
            name,
            column([header_value(one, name) for one in records], schemas[f"header {name}"]),
            pa.array([any(header["name"] == name for header in one["headers"]) for one in records]),
        )
        for name in (part.removeprefix("header ") for part in schemas if part.startswith("header "))
    )
    offsets = [one["offset"] for one in records]
    origin = None if None in offsets else pa.RecordBatch.from_pydict({"offset": pa.array(offsets, pa.int64())})
    return ConnectBatch(
        pa.array([one["topic"] for one in records], pa.string()),
        column([one["key"] for one in records], schemas["key"]),
        column([one["value"] for one in records], schemas["value"]),
        pa.array([one["timestamp"] for one in records], pa.int64()),
        pa.array([one["partition"] for one in records], pa.int32()),
        headers,
        origin,
    )


def header_value(record: dict[str, Any], name: str) -> Tagged:
    return next((one["value"] for one in record["headers"] if one["name"] == name), None)


def records_of(given: ConnectBatch) -> list[dict[str, Any]]:
    """The records of a batch, as the oracle writes them."""
    return [
        {
            "topic": given.topic[row].as_py(),
            "partition": given.partition[row].as_py(),
            "timestamp": given.timestamp[row].as_py(),
            "keySchema": schema_json(given.key.schema),
            "key": tagged(given.key.array[row], given.key.schema),
            "valueSchema": schema_json(given.value.schema),
            "value": tagged(given.value.array[row], given.value.schema),
            "headers": [
                {
                    "name": one.name,
                    "schema": schema_json(one.values.schema),
                    "value": tagged(one.values.array[row], one.values.schema),
                }
                for one in given.headers
                if one.present is None or one.present[row].as_py()
            ],
        }
        for row in range(given.num_rows)
    ]


# -- comparison ------------------------------------------------------------------------------------------------------


def comparable(value: Any) -> Any:
    """A tagged value in a form that is equal for equal values: maps without order, numbers of floats by their bits."""
    if isinstance(value, dict):
        return {key: comparable(part) for key, part in value.items()}
    if not isinstance(value, (list, tuple)):
        return value
    if len(value) >= 2 and value[0] == "map":
        entries = [(comparable(key), comparable(part)) for key, part in value[1]]
        return ("map", sorted(entries, key=repr))
    if len(value) == 2 and value[0] in ("float32", "float64"):
        number = float(str(value[1]).replace("Infinity", "inf"))
        return (value[0], struct.pack(">f" if value[0] == "float32" else ">d", number).hex())
    if len(value) == 3 and value[0] == "decimal":
        return ("decimal", Decimal(int(value[1])).scaleb(-value[2]).normalize())
    return tuple(comparable(part) for part in value)
