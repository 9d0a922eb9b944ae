"""Random Avro schemas with random values: the value as fastavro writes it, and as it should come out of Arrow."""

from __future__ import annotations

import datetime
import io
import random
import string
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa

from moldau.schemas.avro.avro_schema import AvroSchema
from moldau.schemas.avro.types import AvroType

UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)


def root(schema: Any) -> AvroType:
    import json

    return AvroSchema(json.dumps(schema)).root


def written(schema: Any, datums: list[Any]) -> pa.Array:
    """Values as fastavro writes them; None stays None."""
    parsed = fastavro.parse_schema(schema)
    out = []
    for one in datums:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, one)
        out.append(buffer.getvalue())
    return pa.array(out, pa.binary())


@dataclass
class RandomAvro:
    """Schemas of one seed. `unions`: also unions of several types."""

    rng: random.Random
    unions: bool = True
    count: int = 0
    names: list[str] = field(default_factory=list)

    def schema(self, depth: int = 3) -> Any:
        """A record."""
        return self._record(depth)

    def _name(self) -> str:
        self.count += 1
        return f"N{self.count}"

    def _record(self, depth: int) -> Any:
        fields = [{"name": f"f{i}", "type": self.type(depth - 1)} for i in range(self.rng.randint(0, 6))]
        return {"type": "record", "name": self._name(), "fields": fields}

    def type(self, depth: int) -> Any:
        kinds = list(_LEAVES)
        if depth > 0:
            kinds += ["record", "array", "map", "nullable", "nullable"] + ["union"] * self.unions
        kind = self.rng.choice(kinds)
        match kind:
            case "record":
                return self._record(depth)
            case "array":
                return {"type": "array", "items": self.type(depth - 1)}
            case "map":
                return {"type": "map", "values": self.type(depth - 1)}
            case "enum":
                return {"type": "enum", "name": self._name(), "symbols": ["A", "LONG_SYMBOL", "c"]}
            case "fixed":
                return {"type": "fixed", "name": self._name(), "size": self.rng.choice([1, 4, 16])}
            case "fixed_decimal":
                logical = {"logicalType": "decimal", "precision": 16, "scale": 3}
                return {"type": "fixed", "name": self._name(), "size": 8, **logical}
            case "nullable":
                inner = self.type(0)
                if inner == "null":
                    inner = "string"
                return ["null", inner] if self.rng.random() < 0.7 else [inner, "null"]
            case "union":
                return self._union(depth)
        return _LOGICAL.get(kind, kind)

    def _union(self, depth: int) -> Any:
        found: list[Any] = self.rng.sample(["null", "boolean", "long", "double", "string", "bytes"], 2)
        found.append({"type": "array", "items": self.type(depth - 1)})
        found.append(self._record(depth - 1))
        self.rng.shuffle(found)
        return found

    def value(self, schema: Any) -> tuple[Any, Any]:
        """A value for fastavro, and the same as Arrow's Python value."""
        rng = self.rng
        if isinstance(schema, list):
            return self._union_value(schema)
        kind = schema["type"] if isinstance(schema, dict) else schema
        logical = schema.get("logicalType") if isinstance(schema, dict) else None
        if logical is not None:
            return self._logical_value(schema, logical)
        match kind:
            case "record":
                pairs = {one["name"]: self.value(one["type"]) for one in schema["fields"]}
                return {k: v[0] for k, v in pairs.items()}, {k: v[1] for k, v in pairs.items()}
            case "array":
                items = [self.value(schema["items"]) for _ in range(rng.choice([0, 0, 1, 3]))]
                return [one[0] for one in items], [one[1] for one in items]
            case "map":
                entries = {f"k{i}": self.value(schema["values"]) for i in range(rng.choice([0, 0, 1, 3]))}
                return {k: v[0] for k, v in entries.items()}, [(k, v[1]) for k, v in entries.items()]
            case "enum":
                one = rng.choice(schema["symbols"])
                return one, one
            case "fixed":
                data = rng.randbytes(schema["size"])
                return data, data
        one = self._primitive(kind)
        return one, one

    def _primitive(self, kind: str) -> Any:
        rng = self.rng
        match kind:
            case "null":
                return None
            case "boolean":
                return rng.random() < 0.5
            case "int":
                return rng.choice([0, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31), rng.randint(-(2**31), 2**31 - 1)])
            case "long":
                return rng.choice([0, -1, 8191, 8192, 2**63 - 1, -(2**63), rng.randint(-(2**63), 2**63 - 1)])
            case "float":
                return rng.choice([0.0, -1.5, 0.25, float("inf"), 1e30 * 0 + 2.0**100])
            case "double":
                return rng.choice([0.0, -1.1, 1e300, float("-inf"), rng.random()])
            case "bytes":
                return rng.randbytes(rng.choice([0, 1, 7, 8, 100]))
        return "".join(rng.choices(string.ascii_letters + "äß€𝄞\0", k=rng.choice([0, 1, 7, 8, 9, 70])))

    def _logical_value(self, schema: Any, logical: str) -> tuple[Any, Any]:
        rng = self.rng
        match logical:
            case "date":
                day = datetime.date(1900, 1, 1) + datetime.timedelta(days=rng.randint(0, 100_000))
                return day, day
            case "time-millis":
                millis = rng.randint(0, 86_399_999)
                return millis, (EPOCH + datetime.timedelta(milliseconds=millis)).time()
            case "time-micros":
                micros = rng.randint(0, 86_399_999_999)
                return micros, (EPOCH + datetime.timedelta(microseconds=micros)).time()
            case "timestamp-millis":
                millis = rng.randint(-(10**12), 10**13)
                return millis, EPOCH + datetime.timedelta(milliseconds=millis)
            case "timestamp-micros":
                micros = rng.randint(-(10**15), 10**16)
                return micros, EPOCH + datetime.timedelta(microseconds=micros)
            case "local-timestamp-millis":
                millis = rng.randint(-(10**12), 10**13)
                return millis, (EPOCH + datetime.timedelta(milliseconds=millis)).replace(tzinfo=None)
        limit = 10 ** schema["precision"]
        unscaled = rng.choice([0, 1, -1, 255, -256, limit - 1, 1 - limit, rng.randrange(-limit + 1, limit)])
        found = Decimal(unscaled).scaleb(-schema["scale"], _WIDE)
        return found, found

    def _union_value(self, schema: list[Any]) -> tuple[Any, Any]:
        branch = self.rng.choice(schema)
        datum, expected = self.value(branch)
        if branch == "null":
            return None, None
        rest = [one for one in schema if one != "null"]
        if len(rest) == 1:
            return datum, expected
        names = [one.get("name", one["type"]) if isinstance(one, dict) else one for one in rest]
        name = names[rest.index(branch)]
        return (name, datum), {one: expected if one == name else None for one in names}


_WIDE = __import__("decimal").Context(prec=80)

_LOGICAL: dict[str, Any] = {
    "date": {"type": "int", "logicalType": "date"},
    "time-millis": {"type": "int", "logicalType": "time-millis"},
    "time-micros": {"type": "long", "logicalType": "time-micros"},
    "timestamp-millis": {"type": "long", "logicalType": "timestamp-millis"},
    "timestamp-micros": {"type": "long", "logicalType": "timestamp-micros"},
    "local-timestamp-millis": {"type": "long", "logicalType": "local-timestamp-millis"},
    "decimal": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    "large_decimal": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
}
_LEAVES = (
    "null",
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "bytes",
    "string",
    "enum",
    "fixed",
    "fixed_decimal",
    *_LOGICAL,
)
