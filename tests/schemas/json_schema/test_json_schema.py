"""JSON Schemas: what is accepted as one, references, the two forms of the text, and validation of values."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from moldau.schemas.errors import InvalidSchema, SchemaError
from moldau.schemas.json_schema.json_schema import MAX_ERROR_TEXT, JsonSchema
from moldau.schemas.parsed_schema import parse
from moldau.schemas.schema import Schema, SchemaType

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def schema(document: Any, **resolved: Any) -> JsonSchema:
    return JsonSchema(json.dumps(document), {name: json.dumps(text) for name, text in resolved.items()})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "a schema is an object"),
        ('"string"', "a schema is an object"),
        ("null", "a schema is an object"),
        ("NaN", "no JSON value"),
        ('{"maximum": Infinity}', "no JSON value"),
        ('{"maximum": 1e999}', "too large"),
        ('{"title": "\\ud800"}', "surrogate"),
        ('{"type": "int"}', "at /type"),
        ('{"type": []}', "at /type"),
        ('{"required": "a"}', "at /required"),
        ('{"properties": {"a": {"minLength": -1}}}', "at /properties/a/minLength"),
        ('{"properties": {"a": 1}}', "at /properties/a"),
        ('{"$ref": "#/definitions/a"}', "leads nowhere"),
        ('{"$ref": "http://127.0.0.1:1/other.json"}', "leads nowhere"),
        ('{"$ref": "file:///etc/passwd"}', "leads nowhere"),
        ('{"properties": {"a": {"items": {"$ref": "other.json"}}}}', "'other.json' leads nowhere"),
        ('{"title": "x", "allOf": [{"$ref": "#/title"}]}', "not a schema"),
        ('{"$ref": "#"}', "without end"),
        ('{"anyOf": [{"type": "null"}, {"$ref": "#"}]}', "without end"),
        ('{"definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}}', "without end"),
        (f'{{"$schema": "{DRAFT_4}", "exclusiveMinimum": 1}}', "draft 4"),
        (f'{{"$schema": "{DRAFT_2020}", "items": [{{}}]}}', "draft 2020-12"),
        ('{"properties": {"a": {"pattern": "["}}}', "not a regular expression"),
        ('{"patternProperties": {"(": {}}}', "not a regular expression"),
        ('{"not":' * 5000 + "{}" + "}" * 5000, "too deep"),
        ('{"not":' * 300 + "{}" + "}" * 300, "too deep"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        JsonSchema(text)


def test_a_reference_with_a_fault_is_named() -> None:
    with pytest.raises(InvalidSchema, match=r"the reference other\.json is not JSON"):
        JsonSchema('{"$ref": "other.json"}', {"other.json": "{"})


@pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07", "draft/2019-09", "draft/2020-12"])
def test_every_draft_is_recognised_with_and_without_a_fragment(draft: str) -> None:
    for scheme in ("http", "https"):
        for end in ("", "#"):
            found = schema({"$schema": f"{scheme}://json-schema.org/{draft}/schema{end}"})
            assert found.root.draft.name == draft.replace("/", " ").replace("-0", " ", 1 if "/" not in draft else 0)


@pytest.mark.parametrize("document", [{}, {"$schema": "urn:unknown"}, True])
def test_draft_7_is_the_default(document: Any) -> None:
    assert schema(document).root.draft.name == "draft 7"


def test_keywords_of_a_later_draft_are_comments() -> None:
    schema({"dependentRequired": {"a": ["b"]}, "prefixItems": [False]}).validate({"a": 1})
    schema({"prefixItems": [False]}).validate([1])
    with pytest.raises(SchemaError):
        schema({"$schema": DRAFT_2020, "prefixItems": [False]}).validate([1])


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"$ref": "address.json"}, "address.json"),
        ({"$ref": "./address.json"}, "address.json"),
        ({"$ref": "address.json"}, "./address.json"),
        ({"$ref": "address.json#"}, "address.json"),
        ({"$ref": "address.json#/definitions/self"}, "address.json"),
        ({"$id": "http://example.com/a/person.json", "$ref": "#/x", "x": {"$ref": "address.json"}}, "address.json"),
        ({"$ref": "http://example.com/schemas/address.json"}, "http://example.com/schemas/address.json"),
        ({"allOf": [{"$id": "http://example.com/in/", "items": {}, "not": {"$ref": "address.json"}}]}, None),
    ],
)
def test_a_ref_finds_its_reference(document: dict[str, Any], name: str | None) -> None:
    address = {"type": "object", "required": ["city"], "definitions": {"self": {"$ref": "#"}}}
    if name is None:
        document["allOf"][0]["not"] = {"$ref": "http://example.com/in/address.json"}
        name = "http://example.com/in/address.json"
        with pytest.raises(SchemaError):
            JsonSchema(json.dumps(document), {name: json.dumps(address)}).validate({"city": "Praha"})
        return
    found = JsonSchema(json.dumps(document), {name: json.dumps(address)})
    found.validate({"city": "Praha"})
    with pytest.raises(SchemaError, match="city"):
        found.validate({})


def test_references_of_references_are_found() -> None:
    texts = {
        "city.json": json.dumps({"type": "string", "minLength": 1}),
        "address.json": json.dumps({"properties": {"city": {"$ref": "city.json"}}}),
    }
    person = JsonSchema('{"properties": {"home": {"$ref": "address.json"}}}', texts)
    person.validate({"home": {"city": "Praha"}})
    with pytest.raises(SchemaError, match="at /home/city"):
        person.validate({"home": {"city": ""}})


def test_a_recursive_schema_validates() -> None:
    tree = schema({"properties": {"children": {"type": "array", "items": {"$ref": "#"}}}})
    tree.validate({"children": [{"children": []}]})
    with pytest.raises(SchemaError, match="at /children/0/children"):
        tree.validate({"children": [{"children": 1}]})


# Texts ----------------------------------------------------------------------------------------------------------------


def test_texts_that_differ_in_white_space_have_one_canonical_form() -> None:
    compact = '{"type":"object","title":"Příklad","maximum":1.5,"x-own":[1,2]}'
    assert JsonSchema(compact).canonical() == compact
    assert JsonSchema(json.dumps(json.loads(compact), indent=4)).canonical() == compact
    assert JsonSchema(" true ").canonical() == "true"


def test_the_canonical_form_keeps_the_order_and_the_normalized_one_does_not() -> None:
    one, other = '{"type":"object","properties":{"b":{},"a":{}}}', '{"properties":{"a":{},"b":{}},"type":"object"}'
    assert JsonSchema(one).canonical() != JsonSchema(other).canonical()
    assert JsonSchema(one).normalized() == JsonSchema(other).normalized() == other
    assert JsonSchema('{"enum":[2,1]}').normalized() == '{"enum":[2,1]}'


def test_the_title_names_the_record() -> None:
    assert schema({"title": "Order"}).name == "Order"
    assert schema({"title": "Order"}).type is SchemaType.JSON
    assert schema({}).name is None
    assert schema(True).name is None


def test_the_common_parser_parses_json_schemas() -> None:
    found = parse(Schema('{"$ref":"a"}', SchemaType.JSON), {"a": "{}"})
    assert found.type is SchemaType.JSON
    assert found.canonical() == '{"$ref":"a"}'


# Validation -----------------------------------------------------------------------------------------------------------


def test_a_wrong_value_is_named_by_place_and_rule() -> None:
    orders = schema({"properties": {"lines": {"items": {"properties": {"count": {"type": "integer"}}}}}})
    with pytest.raises(SchemaError, match=r"at /lines/1/count: 'two' is not of type 'integer' \(rule type\)"):
        orders.validate({"lines": [{"count": 1}, {"count": "two"}]})


def test_the_error_of_a_large_value_is_short() -> None:
    with pytest.raises(SchemaError) as caught:
        schema({"type": "object"}).validate(["x" * 1000])
    assert len(str(caught.value)) < MAX_ERROR_TEXT + 100
    assert "not of type 'object'" in str(caught.value)


def test_a_pattern_that_python_cannot_compile_is_an_error_of_the_schema() -> None:
    with pytest.raises(SchemaError, match="cannot be validated"):
        schema({"pattern": "\\p{L}"}).validate("x")


def test_nothing_heavy_is_imported_with_the_package() -> None:
    code = "import sys, moldau.schemas; sys.exit('jsonschema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
