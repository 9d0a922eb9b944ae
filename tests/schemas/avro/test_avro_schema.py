"""Avro schemas: the specification's rules for a text, its stored and normalized form, messages of the comparison."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from moldau.schemas.avro.avro_schema import AvroSchema
from moldau.schemas.avro.schema_json import java_double
from moldau.schemas.avro.schema_parser import MAX_DEPTH
from moldau.schemas.compatibility import CompatibilityLevel, incompatibilities
from moldau.schemas.errors import InvalidSchema
from moldau.schemas.parsed_schema import parse
from moldau.schemas.schema import Schema


def record(*fields: dict[str, Any], name: str = "R", **attributes: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **attributes}


def field(name: str, avro: Any, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "type": avro, **attributes}


def schema(value: Any, **references: Any) -> AvroSchema:
    return AvroSchema(json.dumps(value), {name: json.dumps(text) for name, text in references.items()})


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 4}

REFUSED: list[tuple[Any, str]] = [
    # JSON that is no type
    (7, "at /: a type is a name, an object or an array, not 7"),
    (None, "not null"),
    ({}, "the attribute 'type'"),
    ({"type": {"type": "string"}}, "the attribute 'type'"),
    ({"type": "array"}, "an array needs the attribute 'items'"),
    ({"type": "map"}, "a map needs the attribute 'values'"),
    ("Missing", "the type 'Missing' is not defined"),
    (record(field("x", "Missing"), namespace="a.b"), "at /fields/0/type: the type 'a.b.Missing' is not defined"),
    # Names
    ({"type": "record", "fields": []}, "a type 'record' needs the attribute 'name'"),
    (record(name="1st"), "the name '1st' is not a valid name"),
    (record(name="a-b"), "not a valid name"),
    (record(name=""), "not a valid name"),
    (record(name="Straße"), "not a valid name"),
    (record(name="R", namespace="a..b"), "the namespace 'a..b' is not a valid name"),
    (record(name="R", namespace="a.1"), "the namespace 'a.1' is not a valid name"),
    (record(name="int"), "'int' is a primitive type"),
    (record(field("a b", "int")), "the field 'a b' is not a valid name"),
    (record(aliases=["1"]), "the alias '1' is not a valid name"),
    (record(aliases="Old"), "the attribute 'aliases' of 'R' is a list of strings"),
    (record(field("x", "int", aliases=[1])), "the attribute 'aliases' of the field 'x' is a list of strings"),
    (record(field("x", ENUM), field("y", record(name="E"))), "at /fields/1/type: the name 'E' is defined twice"),
    (record(field("x", record())), "the name 'R' is defined twice"),
    # Fields
    ({"type": "record", "name": "R"}, "needs the attribute 'fields'"),
    ({"type": "record", "name": "R", "fields": ["x"]}, 'a field is an object, not "x"'),
    (record({"type": "int"}), "at /fields/0: a field of the record 'R' has no name"),
    (record({"name": "x"}), "the field 'x' has no type"),
    (record(field("x", "int"), field("x", "int")), "at /fields/1: the record 'R' has the field 'x' twice"),
    (record(field("x", "int", order="up")), "the order of the field 'x' is one of ascending, descending, ignore"),
    # Enums, fixed, unions
    ({"type": "enum", "name": "E"}, "needs the attribute 'symbols'"),
    ({"type": "enum", "name": "E", "symbols": ["a b"]}, "the symbol 'a b' is not a valid name"),
    ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "has the symbol 'A' twice"),
    ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "is not a symbol"),
    ({"type": "fixed", "name": "F"}, "needs the attribute 'size'"),
    ({"type": "fixed", "name": "F", "size": -1}, "needs the attribute 'size'"),
    ({"type": "fixed", "name": "F", "size": "4"}, "needs the attribute 'size'"),
    (["int", ["string"]], "at /1: a union may not contain a union directly"),
    (["int", "int"], "at /1: the union contains 'int' twice"),
    ([{"type": "array", "items": "int"}, {"type": "array", "items": "long"}], "the union contains 'array' twice"),
    ([record(name="a.R"), {"type": "a.R"}], "the union contains 'a.R' twice"),
    # Defaults
    (record(field("x", "int", default="1")), "the default \"1\" of the field 'x' of 'R' does not fit its type, int"),
    (record(field("x", "int", default=2**31)), "does not fit its type, int"),
    (record(field("x", "int", default=1.0)), "does not fit"),
    (record(field("x", "long", default=2**63)), "does not fit"),
    (record(field("x", "boolean", default=0)), "does not fit"),
    (record(field("x", "int", default=True)), "does not fit"),
    (record(field("x", "double", default="one")), "is not a number"),
    (record(field("x", "string", default=None)), "does not fit"),
    (record(field("x", ["null", "int"], default="a")), "does not fit its type, the union of null, int"),
    (record(field("x", {"type": "array", "items": "int"}, default=[1, "2"])), "does not fit its type, array"),
    (record(field("x", {"type": "map", "values": "int"}, default={"a": None})), "does not fit"),
    (record(field("x", record(field("y", "int"), name="S"), default={})), "does not fit its type, record 'S'"),
    (record(field("x", ["null", "R"], default={})), "does not fit"),
]


@pytest.mark.parametrize(("value", "message"), REFUSED)
def test_what_breaks_a_rule_is_refused_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(InvalidSchema) as refusal:
        schema(value)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"),
        ("string", "not valid JSON"),
        ('{"type": "int"} x', "not valid JSON"),
        ('{"type": "int", "a": NaN}', "NaN is not a number of JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"type":"array","items":' * 400 + '"int"' + "}" * 400, f"more than {MAX_DEPTH} types inside each other"),
        ('{"type": "int", "doc2": "\\ud800"}', "half of a surrogate pair"),
    ],
)
def test_a_text_that_is_no_json_of_a_schema_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidSchema, match=message):
        AvroSchema(text)


def test_a_chain_of_references_is_bounded() -> None:
    chain = {"r0": json.dumps(record(name="R0"))}
    for index in range(1, 2000):
        chain[f"r{index}"] = json.dumps(record(field("x", f"R{index - 1}"), name=f"R{index}"))
    deep = AvroSchema('"R1999"', chain)
    assert deep.canonical() == '"R1999"'
    with pytest.raises(InvalidSchema, match="nested too deeply"):
        deep.incompatibilities(AvroSchema('"R1999"', chain))
    with pytest.raises(InvalidSchema, match="nested too deeply"):
        deep.expanded()


ACCEPTED: list[tuple[Any, Any]] = [
    ("string", '"string"'),
    ({"type": "string"}, '"string"'),
    ({"type": "string", "avro.java.string": "String"}, '{"type":"string","avro.java.string":"String"}'),
    (["null", {"type": "int"}], '["null","int"]'),
    (record(name="a.b.R"), '{"type":"record","name":"R","namespace":"a.b","fields":[]}'),
    (record(name="a.b.R", namespace="c"), '{"type":"record","name":"R","namespace":"a.b","fields":[]}'),
    # Attributes come in Avro's order, the user's own in that of the text.
    (
        {"zulu": 1, "fields": [], "alpha": 2, "aliases": ["O"], "doc": "d", "name": "R", "type": "record"},
        '{"type":"record","name":"R","doc":"d","fields":[],"zulu":1,"alpha":2,"aliases":["O"]}',
    ),
    (
        record({"aliases": ["y"], "order": "IGNORE", "p": 1, "default": 1, "doc": "d", "type": "int", "name": "x"}),
        '{"type":"record","name":"R","fields":[{FIELD}]}'.replace(
            "{FIELD}", '{"name":"x","type":"int","doc":"d","default":1,"order":"ignore","aliases":["y"],"p":1}'
        ),
    ),
    # A name may be used before its definition; the definition is then written at the first use.
    (
        record(field("x", "E"), field("y", ENUM)),
        record(field("x", ENUM), field("y", "E")),
    ),
    # The same enum or fixed again, as Apache Avro allows.
    (record(field("x", FIXED), field("y", FIXED)), record(field("x", FIXED), field("y", "F"))),
    (record(field("x", ["null", "int"], default=7)), record(field("x", ["null", "int"], default=7))),
    (record(field("x", "R")), record(field("x", "R"))),
    (
        record(field("x", ["null", "R"], default={"x": None})),
        record(field("x", ["null", "R"], default={"x": None})),
    ),
]


@pytest.mark.parametrize(("value", "text"), ACCEPTED)
def test_the_stored_text_has_avros_order(value: Any, text: Any) -> None:
    canonical = schema(value).canonical()
    if isinstance(text, str):
        assert canonical == text
    else:
        assert json.loads(canonical) == text
    assert AvroSchema(canonical).canonical() == canonical


def test_comments_are_allowed_but_not_kept() -> None:
    text = '// the key\n{"type": "string", /* of\n two lines */ "url": "http://a//b", "c": "/* no */"} // end'
    assert AvroSchema(text).canonical() == '{"type":"string","url":"http://a//b","c":"/* no */"}'


def test_a_schema_that_exists_already_is_read_with_what_java_allows() -> None:
    text = json.dumps(record(field("größe", "int", default="none"), name="Straße"))
    assert AvroSchema(text, strict=False).name == "Straße"
    with pytest.raises(InvalidSchema, match="Straße"):
        AvroSchema(text)


def test_an_alias_without_namespace_keeps_its_meaning() -> None:
    text = schema(record(name="a.R", aliases=[".Old", "b.Old", "Old"])).canonical()
    assert json.loads(text)["aliases"] == [".Old", "b.Old", "Old"]
    assert AvroSchema(text).canonical() == text


def test_a_name_of_a_type_is_written_in_full() -> None:
    value = record(field("x", record(name="array")), field("y", "n.array"), namespace="n")
    assert json.loads(schema(value).canonical())["fields"][1]["type"] == "n.array"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1e10, "1.0E10"),
        (0.001, "0.001"),
        (1.25e-7, "1.25E-7"),
        (1e7, "1.0E7"),
        (-0.0, "-0.0"),
        (9999999.5, "9999999.5"),
    ],
)
def test_numbers_are_written_as_in_java(number: float, text: str) -> None:
    assert java_double(number) == text


# Normalized form ------------------------------------------------------------------------------------------------------


def test_the_normalized_text_does_not_depend_on_how_it_was_written() -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    one = record(
        field("x", decimal, zulu={"b": 1, "a": 2}, alpha=1),
        field("y", {"type": "map", "values": "double"}, default={"b": 1, "a": 2.0}),
        field("z", "float", default=0.1, aliases=["c", "b"]),
        name="n.R",
        doc="",
        aliases=["n.B", "A"],
    )
    other = {
        "aliases": ["n.A", "B"],
        "namespace": "n",
        "name": "R",
        "fields": [
            {"alpha": 1, "zulu": {"a": 2, "b": 1}, "type": dict(reversed(decimal.items())), "name": "x"},
            field("y", {"values": {"type": "double"}, "type": "map"}, default={"a": 2, "b": 1.0}, order="ascending"),
            field("z", "float", aliases=["b", "c"], default=0.10000000001),
        ],
        "type": "record",
    }
    assert schema(one).canonical() != schema(other).canonical()
    assert schema(one).normalized() == schema(other).normalized()
    assert schema(one).normalized() == (
        '{"type":"record","name":"R","namespace":"n","fields":['
        '{"name":"x","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":2},"alpha":1,"zulu":{"a":2,"b":1}},'
        '{"name":"y","type":{"type":"map","values":"double"},"default":{"a":2.0,"b":1.0}},'
        '{"name":"z","type":"float","default":0.1,"aliases":["b","c"]}],"aliases":["A","B"]}'
    )


@pytest.mark.parametrize(
    "different",
    [
        record(field("x", "long")),
        record(field("y", "int")),
        record(field("x", "int"), doc="d"),
        record(field("x", "int", default=0)),
        record(field("x", "int"), own=1),
        record(field("x", "int"), namespace="n"),
    ],
)
def test_the_normalized_text_keeps_what_differs(different: Any) -> None:
    assert schema(different).normalized() != schema(record(field("x", "int"))).normalized()


# References and fastavro ----------------------------------------------------------------------------------------------


def test_references_stay_names_and_are_put_in_for_fastavro() -> None:
    item = record(field("price", "int"), name="Item", namespace="shop")
    order = schema(record(field("items", {"type": "array", "items": "Item"}), name="shop.Order"), item=item)
    assert json.loads(order.canonical())["fields"][0]["type"] == {"type": "array", "items": "Item"}
    value = {"items": [{"price": 3}]}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(order.expanded()), value)
    out.seek(0)
    assert fastavro.schemaless_reader(out, fastavro.parse_schema(order.expanded()), None) == value
    assert order.name == "shop.Order"
    with pytest.raises(InvalidSchema, match="in the referenced schema 'item': at /: the type 'Nope' is not defined"):
        schema("string", item="Nope")


# Compatibility --------------------------------------------------------------------------------------------------------

READER_WRITER: list[tuple[Any, Any, str, str, str]] = [
    ("int", "string", "TYPE_MISMATCH", "/", "the type is int in the reader's schema and string in the writer's"),
    (
        record(field("a", "int"), field("b", "string")),
        record(field("a", "int")),
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        "/fields/1",
        "the field 'b' of 'R' in the reader's schema has no default value, and 'R' in the writer's schema does not",
    ),
    (record(name="A"), record(name="n.B"), "NAME_MISMATCH", "/name", "the alias 'n.B' would make the reader accept it"),
    (FIXED, FIXED | {"size": 8}, "FIXED_SIZE_MISMATCH", "/size", "has 4 bytes in the reader's schema and 8 in the"),
    (ENUM, ENUM | {"symbols": ["C", "A", "D"]}, "MISSING_ENUM_SYMBOLS", "/symbols", "writer's has: C, D; a default"),
    (
        record(field("u", ["null", "int"])),
        record(field("u", ["null", "string"])),
        "MISSING_UNION_BRANCH",
        "/fields/0/type/1",
        "the union of the reader's schema has no branch that reads the writer's string",
    ),
    (
        record(field("a", "int", aliases=["b"])),
        record(field("a", "int"), field("b", "int")),
        "AMBIGUOUS_FIELD",
        "/fields/0",
        "the field 'a' of the reader's schema matches the fields 'a', 'b' of the writer's: remove an alias",
    ),
]


@pytest.mark.parametrize(("reader", "writer", "kind", "path", "message"), READER_WRITER)
def test_the_message_names_field_and_rule(reader: Any, writer: Any, kind: str, path: str, message: str) -> None:
    (found,) = schema(reader).incompatibilities(schema(writer))
    assert (found.kind, found.path) == (kind, path)
    assert message in found.message


PROMOTIONS = {
    ("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"), ("float", "double"),
    ("string", "bytes"), ("bytes", "string"),
}  # fmt: skip


@pytest.mark.parametrize("writer", ["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
@pytest.mark.parametrize("reader", ["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
def test_only_the_promotions_of_the_specification_are_allowed(reader: str, writer: str) -> None:
    allowed = reader == writer or (writer, reader) in PROMOTIONS
    assert (schema(reader).incompatibilities(schema(writer)) == []) == allowed
    assert (schema([reader]).incompatibilities(schema(writer)) == []) == allowed
    array = {"type": "array", "items": writer}
    assert (schema({"type": "array", "items": reader}).incompatibilities(schema(array)) == []) == allowed


def test_aliases_and_enum_defaults_make_a_reader_accept_more() -> None:
    old = record(field("price", "int"), field("kind", ENUM), name="shop.Old")
    kind = {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"}
    new = record(field("cost", "long", aliases=["price"]), field("kind", kind), name="New", aliases=["shop.Old"])
    assert not schema(new).incompatibilities(schema(old))
    assert [one.kind for one in schema(old).incompatibilities(schema(new))] == [
        "NAME_MISMATCH",
        "READER_FIELD_MISSING_DEFAULT_VALUE",
    ]


def test_a_self_referential_type_that_changed_inside_is_found_once() -> None:
    def tree(value: str) -> AvroSchema:
        return schema(record(field("left", ["null", "R"]), field("value", value), field("right", ["null", "R"])))

    assert not tree("long").incompatibilities(tree("int"))
    found = tree("int").incompatibilities(tree("long"))
    assert "TYPE_MISMATCH" in {one.kind for one in found}
    assert "/fields/1/type" in {one.path for one in found}


@pytest.mark.parametrize(
    ("level", "allowed"),
    [
        ("NONE", True),
        ("BACKWARD", True),
        ("BACKWARD_TRANSITIVE", False),
        ("FORWARD", False),
        ("FORWARD_TRANSITIVE", False),
        ("FULL", False),
        ("FULL_TRANSITIVE", False),
    ],
)
def test_levels_choose_versions_and_direction(level: str, allowed: bool) -> None:
    texts = [
        record(field("a", "int")),
        record(field("a", "int"), field("b", "int", default=0)),
        record(field("b", "long")),
    ]
    first, second, third = (parse(Schema(json.dumps(text)), {}) for text in texts)
    assert (incompatibilities(third, [first, second], CompatibilityLevel(level)) == []) == allowed


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("default", [1.7976931348623157e308, 10**400, -(10**400), 5e-324, 3.4028235e38, "NaN"])
def test_the_normalized_text_of_extreme_numbers_is_a_schema(kind: str, default: Any) -> None:
    one = schema(record(field("x", kind, default=default), field("y", {"type": "array", "items": kind}, default=[1])))
    assert AvroSchema(one.normalized()).normalized() == one.normalized()
    assert '"default":[1.0]' in one.normalized()
