"""Random records and random configurations of Kafka's transforms, from a seed."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from moldau.connect.schemas import DATE, DECIMAL, SCALE, TIME, TIMESTAMP, Field, Schema, SchemaType
from tests.connect.transforms.tagged_records import Tagged, plain, schema_json

KAFKA = "org.apache.kafka.connect.transforms."
NAMES = ("a", "b", "c", "ts", "name", "x.y")
TOPICS = ("orders", "orders-eu", "t1", "Payments.2024")
TEXTS = (
    *("12", "-5", "+7", "0", "127", "128", "-129", "70000", "999999999999", "99999999999999999999", "1.5", "-1e3"),
    *("true", "TRUE", "false", "abc", "", "NaN", " 3.5 ", "1e400", "2020-01-02", "2024-02-29", "20231231", "ä€"),
    *(
        "2020-01-02T03:04:05.678Z",
        "2021-12-31 23:59:59",
        "31/12/21",
        "0001-01-01",
        "1582-10-04",
        "1500-02-29",
        "Mon Jan 5 2015",
        "0007",
        "7f",
        "12:30 PM",
    ),
)
INTEGERS = (0, 1, -1, 5, 127, 128, -128, -129, 255, 32767, 32768, 70000, 2**31 - 1, 2**31, 2**63 - 1, -(2**63))
OLD_TIMES = (-1, -86_400_000, -62_135_596_800_000, -12_219_292_800_000, -12_219_292_800_001, -70_000_000_000_000)
FLOATS = ("0.0", "-0.0", "1.0", "1.5", "-2.25", "1.0E10", "1.5E-5", "NaN", "Infinity", "-Infinity", "123456.79")
MORE_FLOATS = ("1.0E7", "0.001", "9999999.0", "0.1", "3.0E38", "-300.7", "4.0E9", "100.0", "12345.678")
TIMES = (0, 1, 1_577_934_245_678, 1_609_459_199_999, 86_400_000, 86_399_999, 951_782_400_000, *OLD_TIMES)
PATTERNS = (
    *("yyyy-MM-dd", "yyyyMMdd", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "dd/MM/yy", "yyyy-MM-dd HH:mm:ss", "EEE MMM d yyyy"),
    *("hh:mm a", "yyyy-MM-dd'T'HH:mm:ssXXX", "MMMM dd, yyyy G", "D yyyy", "HHmmssSSS", "k:m:s", "yyyy.MM", "''yy''"),
    *("EEEE u F K", "yyyy-MM-dd HH:mm:ss z", "Z yyyy", "y-M-d H:m:s.S", "LLL"),
)
LITERALS = (
    *("12", "-5", "70000", "99999999999999999999", "1.5", "true", "abc", "", "null", "2020-01-02", "12:30:45.678Z"),
    *("2020-01-02T03:04:05.678Z", "[1,2]", "[1,300,-5]", '["a","b"]', '{"a":1}', "two words"),
)


class Cases:
    """A source of random cases."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability

    # -- schemas and values ------------------------------------------------------------------------------------------

    def schema(self, depth: int = 0) -> Schema:
        optional = self.maybe(0.5)
        kind = self.chance.choice([*SchemaType, DATE, TIME, TIMESTAMP, DECIMAL, SchemaType.INT64, SchemaType.STRING])
        if depth > 1 and kind in (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT):
            kind = SchemaType.INT32
        if kind is SchemaType.ARRAY:
            return Schema(kind, optional, value_schema=self.chance.choice(ELEMENTS))
        if kind is SchemaType.MAP:
            return Schema(kind, optional, key_schema=Schema(SchemaType.STRING), value_schema=ELEMENTS[0])
        if kind is SchemaType.STRUCT:
            return self.struct(depth + 1)
        if isinstance(kind, str):
            found = LOGICAL[kind]
            found = Schema(found.type, optional, None, found.name, 1, parameters=found.parameters)
        else:
            name = self.chance.choice([None, None, None, "my.Name"])
            found = Schema(kind, optional, None, name, 3 if name else None, "a doc" if name else None)
        return self.with_default(found) if self.maybe(0.3) else found

    def with_default(self, schema: Schema) -> Schema:
        return replace(schema, default=plain(self.value(replace(schema, optional=False)), schema))

    def struct(self, depth: int = 0) -> Schema:
        names = self.chance.sample(NAMES, self.chance.randint(1, 4))
        parameters = {"p": "q"} if self.maybe(0.2) else {}
        return Schema(
            SchemaType.STRUCT,
            self.maybe(0.4),
            None,
            self.chance.choice([None, "rec.Name"]),
            self.chance.choice([None, 2]),
            self.chance.choice([None, "doc"]),
            parameters,
            tuple(Field(name, self.schema(depth)) for name in names),
        )

    def value(self, schema: Schema, *, null: float = 0.25) -> Tagged:
        if (schema.optional or schema.default is not None) and self.maybe(null):
            return None
        if schema.name == DECIMAL:
            return ("decimal", str(self.chance.choice([0, 1, -150, 12345, 10**20])), int(schema.parameters[SCALE]))
        if schema.name == DATE:
            return ("time", self.chance.choice([0, 1, 18262, -1]) * 86_400_000)
        if schema.name == TIME:
            return ("time", self.chance.choice([0, 1, 3_600_000, 86_399_999]))
        if schema.name == TIMESTAMP:
            return ("time", self.chance.choice(TIMES))
        if schema.type is SchemaType.STRUCT:
            return ("struct", [(one.name, self.value(one.schema)) for one in schema.fields])
        if schema.type is SchemaType.ARRAY:
            assert schema.value_schema is not None
            return ("list", [self.value(schema.value_schema) for _ in range(self.chance.randint(0, 3))])
        if schema.type is SchemaType.MAP:
            assert schema.value_schema is not None
            names = self.chance.sample(NAMES, self.chance.randint(0, 2))
            return ("map", [(("string", name), self.value(schema.value_schema)) for name in names])
        return self.primitive({"float": "float32", "double": "float64"}.get(schema.type.value, schema.type.value))

    def primitive(self, tag: str) -> Tagged:
        if tag in ("float32", "float64"):
            return (tag, self.chance.choice(FLOATS + MORE_FLOATS))
        if tag == "boolean":
            return (tag, self.maybe(0.5))
        if tag == "string":
            return (tag, self.chance.choice(TEXTS))
        if tag == "bytes":
            return (tag, base64.b64encode(self.chance.randbytes(self.chance.randint(0, 5))).decode())
        if tag == "time":
            return (tag, self.chance.choice(TIMES))
        bits = int(tag[3:])
        number = self.chance.choice(INTEGERS) if self.maybe(0.7) else self.chance.choice(TIMES)
        return (tag, (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1))

    def shape(self, depth: int = 0) -> Any:
        """The types of schemaless data: a tag, ["list", shape] or {name: shape}."""
        kinds = ["int64", "float64", "string", "boolean", "int64", "string", "int32", "bytes", "list", "map", "map"]
        kind = self.chance.choice(kinds[:-3] if depth > 1 else kinds)
        if kind == "list":
            return ["list", self.shape(2)]
        if kind == "map":
            return {name: self.shape(depth + 1) for name in self.chance.sample(NAMES[:5], self.chance.randint(0, 4))}
        return kind

    def of_shape(self, shape: Any) -> Tagged:
        if isinstance(shape, list):
            return ("list", [self.of_shape(shape[1]) for _ in range(self.chance.randint(0, 3))])
        if isinstance(shape, dict):
            parts = {name: None if self.maybe(0.2) else self.of_shape(part) for name, part in shape.items()}
            return ("map", [(("string", name), part) for name, part in parts.items() if self.maybe(0.75)])
        return self.primitive(shape)

    # -- records -----------------------------------------------------------------------------------------------------

    def part(self, rows: int) -> tuple[Schema | None, list[Tagged]]:
        """The schema and the values of keys, values or headers."""
        if self.maybe(0.5):
            schema = self.struct() if self.maybe(0.8) else self.schema()
            return schema, [self.value(schema, null=0.15) for _ in range(rows)]
        if self.maybe(0.05):
            return None, [None] * rows
        shape: Any = self.shape()
        for _ in range(3):
            if not isinstance(shape, dict):
                shape = self.shape()
        return None, [None if self.maybe(0.12) else self.of_shape(shape) for _ in range(rows)]

    def records(self) -> tuple[list[dict[str, Any]], dict[str, Schema | None]]:
        rows = self.chance.randint(1, 5)
        schemas: dict[str, Schema | None] = {}
        columns = {}
        names = self.chance.sample(["h1", "h2", "h3"], self.chance.randint(0, 2))
        for part in ("key", "value", *(f"header {name}" for name in names)):
            schemas[part], columns[part] = self.part(rows)
            while part.startswith("header ") and _refused_in_headers(schemas[part], columns[part]):
                schemas[part], columns[part] = self.part(rows)
        sink = self.maybe(0.5)
        records = []
        for row in range(rows):
            headers = [
                {
                    "name": name,
                    "schema": schema_json(schemas[f"header {name}"]),
                    "value": columns[f"header {name}"][row],
                }
                for name in names
                if self.maybe(0.7)
            ]
            records.append(
                {
                    "topic": self.chance.choice(TOPICS),
                    "partition": self.chance.choice([0, 3]) if sink else self.chance.choice([None, 1, 2]),
                    "timestamp": None if self.maybe(0.1) else self.chance.choice(TIMES[:7]),
                    "offset": row + 100 if sink else None,
                    "keySchema": schema_json(schemas["key"]),
                    "key": columns["key"][row],
                    "valueSchema": schema_json(schemas["value"]),
                    "value": columns["value"][row],
                    "headers": headers,
                }
            )
        return records, schemas

    # -- configurations ----------------------------------------------------------------------------------------------

    def fields(self, low: int = 1, high: int = 3) -> str:
        return ",".join(self.chance.sample(NAMES, self.chance.randint(low, high)))

    def some(self, settings: dict[str, Callable[[], str]], probability: float = 0.5) -> dict[str, str]:
        return {name: make() for name, make in settings.items() if self.maybe(probability)}

    def defaults(self) -> dict[str, str]:
        return self.some({"replace.null.with.default": lambda: self.chance.choice(["true", "false"])})

    def case(self) -> tuple[dict[str, Any], dict[str, Schema | None]]:
        kind = self.chance.choice(list(CONFIGURATIONS))
        name = kind if kind in WHOLE else f"{kind}${self.chance.choice(['Key', 'Value', 'Value'])}"
        records, schemas = self.records()
        case = {"class": KAFKA + name, "config": CONFIGURATIONS[kind](self), "records": records}
        if self.maybe(0.3):
            case["predicate"] = self.predicate()
        return case, schemas

    def predicate(self) -> dict[str, Any]:
        name, config = self.chance.choice(
            [
                ("TopicNameMatches", {"pattern": "orders.*"}),
                ("TopicNameMatches", {"pattern": "orders"}),
                ("HasHeaderKey", {"name": "h1"}),
                ("RecordIsTombstone", {}),
            ]
        )
        return {"class": f"{KAFKA}predicates.{name}", "config": config, "negate": self.maybe(0.5)}

    def cast(self) -> dict[str, str]:
        types = ["int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string", "FLOAT64", "bytes"]
        if self.maybe(0.2):
            return {"spec": self.chance.choice(types)}
        names = self.chance.sample(NAMES, self.chance.randint(1, 3))
        weights = [*[4] * 9, 1]
        return {
            "spec": ",".join(f"{name}:{self.chance.choices(types, weights)[0]}" for name in names),
            **self.defaults(),
        }

    def timestamp_converter(self) -> dict[str, str]:
        config = {"target.type": self.chance.choice(["string", "unix", "Date", "Time", "Timestamp"])}
        if self.maybe(0.8):
            config["field"] = self.chance.choice(NAMES)
        if self.maybe(0.8):
            config["format"] = self.chance.choice(PATTERNS)
        if self.maybe(0.3):
            config["unix.precision"] = self.chance.choice(["seconds", "milliseconds", "microseconds", "nanoseconds"])
        return {**config, **self.defaults()}

    def insert_field(self) -> dict[str, str]:
        def name() -> str:
            return self.chance.choice(["new", "a", "b", "t", "u", "v"]) + self.chance.choice(["", "!", "?"])

        kinds = ["topic.field", "partition.field", "timestamp.field", "static.field"]
        config = self.some(dict.fromkeys(kinds, name), 0.4)
        if self.maybe(0.15):
            config["offset.field"] = name()
        if self.maybe(0.7):
            config["static.value"] = "fixed"
        return {**config, **self.defaults()}

    def mask_field(self) -> dict[str, str]:
        config = {"fields": self.fields(), **self.defaults()}
        if self.maybe(0.4):
            config["replacement"] = self.chance.choice(["5", "-1", "300", "text", "2.75"])
        return config

    def replace_field(self) -> dict[str, str]:
        config = self.some({"exclude": lambda: self.fields(), "include": lambda: self.fields(2, 5)}, 0.4)
        if self.maybe(0.6):
            names = self.chance.sample(NAMES, 2)
            config["renames"] = ",".join(f"{name}:new{name}" for name in names)
        if self.maybe(0.05):
            config["renames"] = self.chance.choice(["a", "a:b:c", "a:"])
        return {**config, **self.defaults()}

    def header_from(self) -> dict[str, str]:
        names = self.chance.sample(NAMES[:5], self.chance.randint(1, 2))
        headers = self.chance.sample(["h1", "h2", "h9"], len(names) if self.maybe(0.95) else 3)
        operation = self.chance.choice(["move", "copy"])
        return {"fields": ",".join(names), "headers": ",".join(headers), "operation": operation, **self.defaults()}

    def extract_field(self) -> dict[str, str]:
        config = {"field": self.chance.choice([*NAMES, "a.b", "b.a", "a.c", "`x.y`", "`x.y`.a", "c.a.b"])}
        if self.maybe(0.6):
            config["field.syntax.version"] = self.chance.choice(["V1", "V2", "v2"])
        return {**config, **self.defaults()}

    def regex_router(self) -> dict[str, str]:
        regex, replacement = self.chance.choice(
            [
                ("orders(.*)", "sales$1"),
                ("(?<head>[a-z]+)-(.*)", "${head}_$2"),
                ("o|orders", "x"),
                ("(.)(.*)", "$2\\$$1"),
                ("t\\d", "digit"),
                ("(.*)", "$10"),
                ("(.*)", "$2"),
                ("(", "x"),
            ]
        )
        return {"regex": regex, "replacement": replacement}

    def set_schema_metadata(self) -> dict[str, str]:
        config = self.some({"schema.name": lambda: "new.Name", "schema.version": lambda: "42"}, 0.6)
        return {**config, **self.defaults()}


def _refused_in_headers(schema: Schema | None, values: list[Tagged]) -> bool:
    """Kafka's headers do not take null for a required schema, even with a default."""
    return schema is not None and not schema.optional and None in values


ELEMENTS = (Schema(SchemaType.INT32), Schema(SchemaType.STRING, True))
LOGICAL = {
    DATE: Schema(SchemaType.INT32, name=DATE),
    TIME: Schema(SchemaType.INT32, name=TIME),
    TIMESTAMP: Schema(SchemaType.INT64, name=TIMESTAMP),
    DECIMAL: Schema(SchemaType.BYTES, name=DECIMAL, parameters={SCALE: "2"}),
}
WHOLE = ("DropHeaders", "Filter", "RegexRouter", "TimestampRouter", "ValueToKey", "InsertHeader")
CONFIGURATIONS: dict[str, Callable[[Cases], dict[str, str]]] = {
    "Cast": Cases.cast,
    "DropHeaders": lambda cases: {"headers": cases.chance.choice(["h1", "h1,h2", "nothing"])},
    "ExtractField": Cases.extract_field,
    "Filter": lambda cases: {},
    "Flatten": lambda cases: cases.some({"delimiter": lambda: "_"}),
    "HeaderFrom": Cases.header_from,
    "HoistField": lambda cases: {"field": "whole"},
    "InsertField": Cases.insert_field,
    "InsertHeader": lambda cases: {"header": "h1", "value.literal": cases.chance.choice(LITERALS)},
    "MaskField": Cases.mask_field,
    "RegexRouter": Cases.regex_router,
    "ReplaceField": Cases.replace_field,
    "SetSchemaMetadata": Cases.set_schema_metadata,
    "TimestampConverter": Cases.timestamp_converter,
    "TimestampRouter": lambda cases: cases.some(
        {
            "topic.format": lambda: cases.chance.choice(["${timestamp}/${topic}", "x-${timestamp}", "fixed"]),
            "timestamp.format": lambda: cases.chance.choice(PATTERNS),
        }
    ),
    "ValueToKey": lambda cases: {"fields": cases.fields(), **cases.defaults()},
}
