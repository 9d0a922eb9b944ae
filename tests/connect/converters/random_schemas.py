"""Random schemas of Kafka Connect, with values in JSON."""

from __future__ import annotations

import base64
import random
import string
from dataclasses import replace
from decimal import Decimal
from typing import Any

from moldau.connect.json_schemas import unscaled_bytes, value_from_json
from moldau.connect.schemas import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, SchemaType

BITS = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}
LOGICAL = {DATE: SchemaType.INT32, TIME: SchemaType.INT32, TIMESTAMP: SchemaType.INT64, DECIMAL: SchemaType.BYTES}
CONTAINERS = (SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP)
LETTERS = string.ascii_letters + 'äß€😀"\\\n\t\x01/ '


class RandomSchemas:
    """Schemas and values that follow from a seed."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)

    def schema(self, depth: int = 0, *, logical: bool = True) -> Schema:
        source = self.source
        kinds = [one for one in SchemaType if depth < 3 or one not in CONTAINERS]
        kind = SchemaType.STRUCT if depth == 0 and source.random() < 0.5 else source.choice(kinds)
        name = source.choice(list(LOGICAL)) if logical and source.random() < 0.25 else None
        kind = LOGICAL[name] if name else kind
        schema = Schema(
            kind,
            optional=depth > 0 and source.random() < 0.5,
            name=name or (source.choice([None, "a.b.C"])),
            version=1 if name else source.choice([None, 3]),
            doc=source.choice([None, "words"]),
            parameters={"scale": str(source.randint(0, 9))} if name == DECIMAL else source.choice([{}, {"p": "q"}]),
            fields=self._fields(depth) if kind is SchemaType.STRUCT else (),
            key_schema=self._key_schema() if kind is SchemaType.MAP else None,
            value_schema=self.schema(depth + 1) if kind in (SchemaType.ARRAY, SchemaType.MAP) else None,
        )
        if depth and source.random() < 0.15 and kind not in CONTAINERS:
            default = value_from_json(schema, self.value(replace(schema, optional=False)))
            return replace(schema, default=default)
        return schema

    def _fields(self, depth: int) -> tuple[Field, ...]:
        names = self.source.sample(["a", "b", "c", "ä b", "payload", "schema"], self.source.randint(0, 4))
        return tuple(Field(name, self.schema(depth + 1)) for name in names)

    def _key_schema(self) -> Schema:
        return Schema(self.source.choice([SchemaType.STRING, SchemaType.INT32, SchemaType.BOOLEAN]))

    def value(self, schema: Schema) -> Any:
        """A value of the schema as JSON."""
        source = self.source
        if schema.optional and source.random() < 0.3:
            return None
        if schema.name == DECIMAL:
            number = Decimal(source.choice([0, 1, -1, 127, 128, -128, -129, 10**18, -(10**30) + 7]))
            return base64.b64encode(unscaled_bytes(number, 0)).decode()
        if schema.name == TIME:
            return source.randrange(86_400_000)
        if schema.name == DATE:
            return source.randint(-20_000, 40_000)
        if schema.name == TIMESTAMP:
            return source.randint(-(10**11), 10**13)
        if schema.type in BITS:
            half = 2 ** (BITS[schema.type] - 1)
            return source.choice([0, 1, -1, half - 1, -half, source.randrange(-half, half)])
        if schema.type is SchemaType.BOOLEAN:
            return source.random() < 0.5
        if schema.type is SchemaType.FLOAT32:
            return source.choice([0.0, 1.5, -0.25, 1e20, 1e-10, 123456.78])
        if schema.type is SchemaType.FLOAT64:
            return source.choice([0.0, 1.5, -0.1, 1e300, 5e-10, source.random(), 1e7, 123456789.0])
        if schema.type is SchemaType.BYTES:
            return base64.b64encode(source.randbytes(source.randint(0, 5))).decode()
        if schema.type is SchemaType.STRING:
            return self.text()
        return self._container(schema)

    def text(self) -> str:
        return "".join(self.source.choices(LETTERS, k=self.source.randint(0, 6)))

    def _container(self, schema: Schema) -> Any:
        if schema.type is SchemaType.STRUCT:
            return {one.name: self.value(one.schema) for one in schema.fields}
        assert schema.value_schema is not None
        count = self.source.randint(0, 3)
        if schema.type is SchemaType.ARRAY:
            return [self.value(schema.value_schema) for _ in range(count)]
        assert schema.key_schema is not None
        if schema.key_schema.type is SchemaType.STRING:
            return {self.text(): self.value(schema.value_schema) for _ in range(count)}
        keys = [True, False] if schema.key_schema.type is SchemaType.BOOLEAN else [1, -5, 2**31 - 1]
        return [[key, self.value(schema.value_schema)] for key in keys[:count]]
