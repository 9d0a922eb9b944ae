"""Compatibility of JSON Schemas: each rule with its kind and place, and the changes that are allowed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from moldau.schemas.compatibility import CompatibilityLevel, incompatibilities
from moldau.schemas.json_schema import comparison
from moldau.schemas.json_schema.json_schema import JsonSchema

MODERN = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
OLD = {"$schema": "http://json-schema.org/draft-04/schema#"}


def broken(writer: Any, reader: Any) -> list[tuple[str, str]]:
    found = JsonSchema(json.dumps(reader)).incompatibilities(JsonSchema(json.dumps(writer)))
    return [(one.kind, one.path) for one in found]


STRING, INTEGER, NUMBER, NULL = ({"type": name} for name in ("string", "integer", "number", "null"))


def props(*, closed: Any = None, required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if closed is not None:
        found["additionalProperties"] = False if closed is True else closed
    if required is not None:
        found["required"] = required
    return found


ONE_WAY = [
    # the writer's schema, the reader's, the rule in this direction. In the other direction the change is allowed.
    ({"type": ["string", "null"]}, STRING, "SUM_TYPE_NARROWED", "/"),
    ({}, STRING, "TYPE_CHANGED", "/"),
    (NUMBER, INTEGER, "TYPE_NARROWED", "/"),
    (True, False, "TYPE_CHANGED", "/"),
    (STRING, {**STRING, "minLength": 1}, "MIN_LENGTH_ADDED", "/minLength"),
    ({**STRING, "minLength": 1}, {**STRING, "minLength": 2}, "MIN_LENGTH_INCREASED", "/minLength"),
    (STRING, {**STRING, "maxLength": 1}, "MAX_LENGTH_ADDED", "/maxLength"),
    ({**STRING, "maxLength": 2}, {**STRING, "maxLength": 1}, "MAX_LENGTH_DECREASED", "/maxLength"),
    (STRING, {**STRING, "pattern": "a"}, "PATTERN_ADDED", "/pattern"),
    (NUMBER, {**NUMBER, "minimum": 0}, "MINIMUM_ADDED", "/minimum"),
    ({**NUMBER, "minimum": 0}, {**NUMBER, "minimum": 1}, "MINIMUM_INCREASED", "/minimum"),
    ({**NUMBER, "minimum": 1}, {**NUMBER, "exclusiveMinimum": 1}, "EXCLUSIVE_MINIMUM_INCREASED", "/exclusiveMinimum"),
    (NUMBER, {**NUMBER, "exclusiveMinimum": 1}, "EXCLUSIVE_MINIMUM_ADDED", "/exclusiveMinimum"),
    (NUMBER, {**NUMBER, "maximum": 0}, "MAXIMUM_ADDED", "/maximum"),
    ({**NUMBER, "maximum": 1}, {**NUMBER, "maximum": 0.5}, "MAXIMUM_DECREASED", "/maximum"),
    ({**NUMBER, "maximum": 1}, {**NUMBER, "exclusiveMaximum": 1}, "EXCLUSIVE_MAXIMUM_DECREASED", "/exclusiveMaximum"),
    (
        {**OLD, "maximum": 1, "type": "number"},
        {**OLD, "maximum": 1, "exclusiveMaximum": True, "type": "number"},
        "EXCLUSIVE_MAXIMUM_DECREASED",
        "/exclusiveMaximum",
    ),
    (NUMBER, {**NUMBER, "multipleOf": 2}, "MULTIPLE_OF_ADDED", "/multipleOf"),
    ({**NUMBER, "multipleOf": 2}, {**NUMBER, "multipleOf": 4}, "MULTIPLE_OF_EXPANDED", "/multipleOf"),
    ({"enum": [1, 2]}, {"enum": [1]}, "ENUM_ARRAY_NARROWED", "/enum"),
    ({"enum": [1, 2]}, {"const": 2}, "ENUM_ARRAY_CHANGED", "/const"),
    (STRING, {**STRING, "enum": ["a"]}, "PRODUCT_TYPE_EXTENDED", "/enum"),
    (props(a=STRING), props(a=STRING, required=["a"]), "REQUIRED_ATTRIBUTE_ADDED", "/required/a"),
    (props(), props(required=["a"]), "REQUIRED_ATTRIBUTE_ADDED", "/required/a"),
    (props(), props(a=STRING), "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", "/properties/a"),
    (props(), props(a={}, required=["a"]), "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", "/properties/a"),
    (props(a=STRING, closed=True), props(closed=True), "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", "/properties/a"),
    (props(), props(closed=True), "ADDITIONAL_PROPERTIES_REMOVED", "/additionalProperties"),
    (props(closed=STRING), props(closed=True), "ADDITIONAL_PROPERTIES_REMOVED", "/additionalProperties"),
    (props(), props(closed=STRING), "ADDITIONAL_PROPERTIES_NARROWED", "/additionalProperties"),
    (props(closed=NUMBER), props(closed=INTEGER), "TYPE_NARROWED", "/additionalProperties"),
    (props(), {**props(), "minProperties": 1}, "MIN_PROPERTIES_ADDED", "/minProperties"),
    (props(), {**props(), "maxProperties": 1}, "MAX_PROPERTIES_ADDED", "/maxProperties"),
    (props(), {**props(), "propertyNames": {"maxLength": 1}}, "SCHEMA_ADDED", "/propertyNames"),
    (props(), {**props(), "dependencies": {"a": ["b"]}}, "DEPENDENCY_ARRAY_ADDED", "/dependencies/a"),
    (
        {**props(), "dependencies": {"a": ["b"]}},
        {**props(), "dependencies": {"a": ["b", "c"]}},
        "DEPENDENCY_ARRAY_EXTENDED",
        "/dependencies/a",
    ),
    (props(), {**props(), "dependencies": {"a": {"minProperties": 2}}}, "DEPENDENCY_SCHEMA_ADDED", "/dependencies/a"),
    (
        {**MODERN, "dependentRequired": {}},
        {**MODERN, "dependentRequired": {"a": ["b"]}},
        "DEPENDENCY_ARRAY_ADDED",
        "/dependentRequired/a",
    ),
    (
        {**MODERN},
        {**MODERN, "unevaluatedProperties": False},
        "UNEVALUATED_PROPERTIES_REMOVED",
        "/unevaluatedProperties",
    ),
    ({"type": "array"}, {"type": "array", "items": STRING}, "SCHEMA_ADDED", "/items"),
    ({"items": NUMBER}, {"items": INTEGER}, "TYPE_NARROWED", "/items"),
    ({"items": [NUMBER]}, {"items": [NUMBER, NUMBER]}, "ITEM_ADDED_TO_OPEN_CONTENT_MODEL", "/items/1"),
    ({**MODERN, "prefixItems": [{}]}, {**MODERN, "prefixItems": [NULL]}, "TYPE_CHANGED", "/prefixItems/0"),
    ({"items": [{}]}, {"items": [{}], "additionalItems": False}, "ADDITIONAL_ITEMS_REMOVED", "/additionalItems"),
    ({"items": [{}]}, {"items": [{}], "additionalItems": NULL}, "ADDITIONAL_ITEMS_NARROWED", "/additionalItems"),
    ({"type": "array"}, {"type": "array", "minItems": 1}, "MIN_ITEMS_ADDED", "/minItems"),
    ({"maxItems": 2}, {"maxItems": 1}, "MAX_ITEMS_DECREASED", "/maxItems"),
    ({"type": "array"}, {"type": "array", "uniqueItems": True}, "UNIQUE_ITEMS_ADDED", "/uniqueItems"),
    ({"type": "array"}, {"type": "array", "contains": NULL}, "SCHEMA_ADDED", "/contains"),
    (
        {**MODERN, "contains": NULL},
        {**MODERN, "contains": NULL, "minContains": 2},
        "MIN_CONTAINS_INCREASED",
        "/minContains",
    ),
    (
        {**MODERN, "contains": NULL, "maxContains": 3},
        {**MODERN, "contains": NULL, "maxContains": 2},
        "MAX_CONTAINS_DECREASED",
        "/maxContains",
    ),
    ({"anyOf": [STRING, INTEGER, NULL]}, {"anyOf": [STRING, NULL]}, "SUM_TYPE_NARROWED", "/"),
    ({"oneOf": [STRING, {"minimum": 2}]}, {"oneOf": [STRING, {"minimum": 3}]}, "COMBINED_TYPE_SUBSCHEMAS_CHANGED", "/"),
    ({"anyOf": [STRING, {"minLength": 1}]}, {"oneOf": [STRING, {"minLength": 1}]}, "COMBINED_TYPE_CHANGED", "/"),
    ({"allOf": [NUMBER]}, {"allOf": [NUMBER, {"minimum": 1}]}, "MINIMUM_ADDED", "/minimum"),
    ({"not": STRING}, {"not": {"type": ["string", "null"]}}, "NOT_TYPE_EXTENDED", "/not"),
    ({}, {"not": STRING}, "PRODUCT_TYPE_EXTENDED", "/not"),
    ({}, {"if": STRING, "then": {"minLength": 1}}, "PRODUCT_TYPE_EXTENDED", "/if"),
    (
        {"if": STRING, "then": {"minLength": 1}},
        {"if": STRING, "then": {"minLength": 2}},
        "MIN_LENGTH_INCREASED",
        "/then/minLength",
    ),
]


@pytest.mark.parametrize(("writer", "reader", "kind", "path"), ONE_WAY)
def test_a_rule_is_broken_in_one_direction_only(writer: Any, reader: Any, kind: str, path: str) -> None:
    assert broken(writer, reader) == [(kind, path)]
    backward = broken(reader, writer)
    if kind != "COMBINED_TYPE_CHANGED" and reader is not False:
        assert backward == []


BOTH_WAYS = [
    (STRING, INTEGER, "TYPE_CHANGED", "/"),
    ({"type": ["string", "null"]}, {"type": ["integer", "null"]}, "COMBINED_TYPE_SUBSCHEMAS_CHANGED", "/"),
    ({**STRING, "pattern": "a"}, {**STRING, "pattern": "b"}, "PATTERN_CHANGED", "/pattern"),
    ({**NUMBER, "multipleOf": 2}, {**NUMBER, "multipleOf": 3}, "MULTIPLE_OF_CHANGED", "/multipleOf"),
    ({"const": 1}, {"const": True}, "ENUM_ARRAY_CHANGED", "/const"),
    (props(a=STRING), props(a=INTEGER), "TYPE_CHANGED", "/properties/a"),
    (props(**{"a/b~": STRING}), props(**{"a/b~": INTEGER}), "TYPE_CHANGED", "/properties/a~1b~0"),
    (
        {"patternProperties": {"^a": STRING}},
        {"patternProperties": {"^a": NULL}},
        "TYPE_CHANGED",
        "/patternProperties/^a",
    ),
    (
        {**props(), "dependencies": {"a": ["b"]}},
        {**props(), "dependencies": {"a": ["c"]}},
        "DEPENDENCY_ARRAY_CHANGED",
        "/dependencies/a",
    ),
    ({"if": STRING, "then": False}, {"if": NULL, "then": False}, "COMBINED_TYPE_SUBSCHEMAS_CHANGED", "/if"),
]


@pytest.mark.parametrize(("one", "other", "kind", "path"), BOTH_WAYS)
def test_a_rule_is_broken_in_both_directions(one: Any, other: Any, kind: str, path: str) -> None:
    assert broken(one, other) == [(kind, path)]
    assert broken(other, one) == [(kind, path)]


ALLOWED = [
    ({"title": "A", "description": "x", "$id": "http://x/a"}, {"title": "B", "default": 1}),
    (False, STRING),
    (STRING, True),
    (props(closed=True), props(a=STRING, closed=True)),
    (props(closed=True), props(a={**STRING, "default": "x"}, required=["a"], closed=True)),
    (props(a=STRING), props(a={**STRING, "default": "x"}, required=["a"])),
    (props(), props(a={})),
    (props(a=False, closed=True), props(closed=True)),
    (props(closed=INTEGER), props(a=NUMBER, closed=INTEGER)),
    (props(a=INTEGER, closed=True), props(closed=NUMBER)),
    ({**props(closed=True), "patternProperties": {"^a": INTEGER}}, props(abc=NUMBER, closed=NUMBER)),
    (props(required=["a", "b"]), {**props(), "minProperties": 2}),
    (props(a={}, b={}, closed=True), {**props(), "maxProperties": 2}),
    (props(required=["b"]), {**props(), "dependencies": {"a": ["b"]}}),
    ({"items": [INTEGER], "additionalItems": False}, {"items": [INTEGER, STRING], "additionalItems": False}),
    ({"items": [INTEGER], "additionalItems": INTEGER}, {"items": NUMBER}),
    ({"type": "array", "maxItems": 1}, {"type": "array", "items": [{}, NULL], "uniqueItems": True}),
    ({"enum": ["a", "bc"]}, {"type": "string", "minLength": 1, "maxLength": 2, "pattern": "^[abc]+$"}),
    ({"enum": [2, 4]}, {"type": "integer", "minimum": 2, "maximum": 4, "multipleOf": 2}),
    ({"type": "boolean"}, {"enum": [True, False, None]}),
    ({"const": 1}, {"const": 1.0}),
    (INTEGER, {**NUMBER, "multipleOf": 0.5}),
    (STRING, {"oneOf": [NULL, STRING]}),
    ({"type": ["string", "null"]}, {"oneOf": [NULL, STRING]}),
    ({"oneOf": [NULL, STRING]}, {"type": ["string", "null"]}),
    ({"oneOf": [STRING, NULL]}, {"oneOf": [NULL, INTEGER, STRING]}),
    ({"oneOf": [STRING, NULL]}, {"anyOf": [STRING, NULL]}),
    ({"anyOf": [STRING, NULL]}, {"oneOf": [STRING, NULL]}),
    ({"allOf": [NUMBER, {"minimum": 1}]}, {"allOf": [NUMBER]}),
    ({"allOf": [NUMBER, {"minimum": 1}]}, {**NUMBER, "minimum": 1}),
    ({"$ref": "#/definitions/a", "definitions": {"a": STRING}}, STRING),
    (STRING, {"$ref": "#/definitions/a", "minLength": 9, "definitions": {"a": STRING}}),
    (STRING, {"not": NULL}),
    ({"not": {"type": ["string", "null"]}}, {"not": STRING}),
]


@pytest.mark.parametrize(("writer", "reader"), ALLOWED)
def test_a_change_is_allowed(writer: Any, reader: Any) -> None:
    assert broken(writer, reader) == []


def test_a_union_of_record_types_gets_one_more() -> None:
    """The documented way to have several types in a topic. The branches are open objects, which overlap."""
    texts = {f"{name}.json": json.dumps(props(**{name: STRING})) for name in ("a", "b", "c")}
    two, three = ([{"$ref": f"{name}.json"} for name in names] for names in ("ab", "abc"))
    writer, reader = JsonSchema(json.dumps({"oneOf": two}), texts), JsonSchema(json.dumps({"oneOf": three}), texts)
    assert reader.incompatibilities(writer) == []
    assert [one.kind for one in writer.incompatibilities(reader)] == ["SUM_TYPE_NARROWED"]


def test_siblings_of_a_ref_count_since_2019() -> None:
    with_sibling = {"$ref": "#/$defs/a", "minLength": 9, "$defs": {"a": STRING}}
    assert broken({**MODERN, **STRING}, {**MODERN, **with_sibling}) == [("MIN_LENGTH_ADDED", "/minLength")]


def test_unevaluated_properties_see_what_is_combined() -> None:
    def person(**properties: Any) -> dict[str, Any]:
        parts = [{"properties": {name: content}} for name, content in properties.items()]
        return {**MODERN, "type": "object", "allOf": parts, "unevaluatedProperties": False}

    unevaluated = [("UNEVALUATED_PROPERTIES_NARROWED", "/unevaluatedProperties")]
    assert broken(person(a=INTEGER, b=STRING), person(b=STRING, a=NUMBER)) == []
    assert broken(person(a=INTEGER, b=STRING), person(a=INTEGER)) == unevaluated


def tree(leaf: Any) -> dict[str, Any]:
    return {
        "definitions": {
            "branch": props(left={"$ref": "#/definitions/node"}, right={"$ref": "#/definitions/node"}, closed=True),
            "node": {"oneOf": [{"$ref": "#/definitions/branch"}, leaf]},
        },
        "$ref": "#/definitions/branch",
    }


def test_recursive_schemas_are_compared() -> None:
    assert broken(tree(INTEGER), tree(NUMBER)) == []
    assert {kind for kind, _ in broken(tree(NUMBER), tree(INTEGER))} == {"COMBINED_TYPE_SUBSCHEMAS_CHANGED"}


def test_an_assumption_about_a_cycle_does_not_outlive_its_failure() -> None:
    """`a` is met inside of `b`, taken as compatible there, and is not: nothing that relied on it may remain."""

    def document(own: Any) -> dict[str, Any]:
        a = props(b={"$ref": "#/definitions/b"}, own=own)
        b = props(a={"$ref": "#/definitions/a"})
        first = {"anyOf": [{"$ref": "#/definitions/a"}, {"type": "object"}]}
        return props(first=first, second={"$ref": "#/definitions/b"}) | {"definitions": {"a": a, "b": b}}

    assert broken(document(STRING), document(INTEGER)) == [
        ("TYPE_CHANGED", "/properties/second/properties/a/properties/own")
    ]


def test_a_comparison_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = [props(**{f"p{number}": STRING}, closed=True) for number in range(12)]
    assert broken({"anyOf": wide}, {"anyOf": wide[::-1]}) == []
    monkeypatch.setattr(comparison, "MAX_COMPARISONS", 20)
    assert broken({"anyOf": wide}, {"anyOf": wide[::-1]}) == [("SCHEMA_TOO_COMPLEX", "/")]


def test_many_definitions_that_refer_to_each_other_are_compared_in_time() -> None:
    def mesh(leaf: Any) -> dict[str, Any]:
        names = [f"d{number}" for number in range(12)]
        refs = {name: {"$ref": f"#/definitions/{name}"} for name in names}
        return {"definitions": {name: props(**refs, leaf=leaf) for name in names}, "oneOf": list(refs.values())}

    assert broken(mesh(INTEGER), mesh(NUMBER)) == []
    assert broken(mesh(NUMBER), mesh(INTEGER)) != []


def test_a_message_names_field_and_rule() -> None:
    writer, reader = props(order=props(closed=True)), props(order=props(count=INTEGER, required=["count"], closed=True))
    (found,) = JsonSchema(json.dumps(reader)).incompatibilities(JsonSchema(json.dumps(writer)))
    assert re.search(
        r'at /properties/order/properties/count: the property "count" .* required.* no default', found.message
    )


@pytest.mark.parametrize(
    ("level", "kinds"),
    [
        (CompatibilityLevel.BACKWARD, {"REQUIRED_ATTRIBUTE_ADDED"}),
        (CompatibilityLevel.FORWARD, {"TYPE_NARROWED"}),
        (CompatibilityLevel.FULL, {"REQUIRED_ATTRIBUTE_ADDED", "TYPE_NARROWED"}),
        (CompatibilityLevel.NONE, set()),
    ],
)
def test_a_level_chooses_the_direction(level: CompatibilityLevel, kinds: set[str]) -> None:
    earlier = JsonSchema(json.dumps(props(a=INTEGER, b=STRING)))
    later = JsonSchema(json.dumps(props(a=NUMBER, b=STRING, required=["b"])))
    assert {one.kind for one in incompatibilities(later, [earlier], level)} == kinds
