"""protoc as judge: equal descriptors for what it takes, and a refusal for what it refuses."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.schemas.errors import InvalidSchema
from moldau.schemas.protobuf.schema_files import SchemaFiles, schema_files
from moldau.schemas.protobuf.tokenizer import tokens
from tests.schemas.protobuf.protoc import INCLUDES, comparable, protoc_descriptor
from tests.schemas.protobuf.texts import ALL, EDITION, PROTO2, PROTO3


def ours(text: str) -> SchemaFiles | None:
    try:
        return schema_files(text, {})
    except InvalidSchema:
        return None


def assert_same(folder: Path, text: str) -> bool:
    """Check that protoc and we agree on a text; True if both take it."""
    expected, found = protoc_descriptor(folder, text), ours(text)
    if expected is None or found is None:
        assert expected is None, f"protoc takes it, and we refuse it:\n{text}"
        assert found is None, f"protoc refuses it, and we take it:\n{text}"
        return False
    assert comparable(found.linked, found.imports) == comparable(expected, found.imports), text
    return True


@pytest.mark.parametrize("name", ALL)
def test_descriptors_of_each_syntax_equal_those_of_protoc(tmp_path: Path, name: str) -> None:
    assert assert_same(tmp_path, ALL[name])


@pytest.mark.parametrize("path", sorted(INCLUDES.glob("google/protobuf/*.proto")), ids=lambda path: path.name)
def test_descriptors_of_googles_own_files_equal_those_of_protoc(tmp_path: Path, path: Path) -> None:
    assert assert_same(tmp_path, path.read_text())


@pytest.mark.timeout(1800)
def test_changed_texts_are_taken_or_refused_as_by_protoc(
    tmp_path: Path, count: Callable[[int, int], int], seed: int
) -> None:
    choose = random.Random(seed)
    originals = [[token.text for token in tokens(text)[:-1]] for text in (PROTO2, PROTO3, EDITION)]
    words = [word for original in originals for word in original]
    for _ in range(count(120, 5000)):
        changed = _changed(choose, choose.choice(originals), words)
        assert_same(tmp_path, " ".join(changed).replace(" ; ", ";\n"))


def _changed(choose: random.Random, original: list[str], words: list[str]) -> list[str]:
    changed = list(original)
    for _ in range(choose.choice((1, 1, 2))):
        at = choose.randrange(len(changed))
        match choose.randrange(8):
            case 0:
                del changed[at]
            case 1:
                changed.insert(at, changed[at])
            case 2:
                changed[at] = choose.choice(words)
            case 3:
                other = min(at + choose.randrange(1, 6), len(changed) - 1)
                changed[at], changed[other] = changed[other], changed[at]
            case _:
                # Another word of the same kind keeps the grammar and changes the meaning.
                first = changed[at][0]
                alike = [word for word in changed if (word[0].isalpha(), word[0].isdigit()) == _kind(first)]
                changed[at] = choose.choice(alike)
    return changed


def _kind(letter: str) -> tuple[bool, bool]:
    return letter.isalpha(), letter.isdigit()


def body(fields: str, syntax: str = "proto3") -> str:
    return f'syntax = "{syntax}"; message M {{ {fields} }} enum E {{ ZERO = 0; ONE = 1; }}'


REFUSED = {
    # Grammar
    "no end of message": ('syntax = "proto3"; message M { int32 a = 1;', 'has no "}"'),
    "no semicolon": (body("int32 a = 1 int32 b = 2;"), 'expected ";"'),
    "no number": (body("int32 a;"), 'expected "="'),
    "no name": (body("int32 = 1;"), "the name of a field"),
    "unknown statement": ("mesage M {}", 'found "mesage"'),
    "unknown syntax": ('syntax = "proto4";', "proto4"),
    "unknown edition": ('edition = "1999";', "1999"),
    "comment without end": ('syntax = "proto3"; /* here', "comment has no end"),
    "comment in comment": ("/* a /* b */ message M {}", "do not nest"),
    "string without end": ('syntax = "proto3', "no end on its line"),
    "unknown escape": ('syntax = "proto3"; option java_package = "\\q";', "escape"),
    "bad octal number": (body("int32 a = 08;"), "octal"),
    "number and letters": (body("int32 a = 1x;"), "space is missing"),
    "unknown character": (body("int32 a = 1; $"), "no meaning"),
    "two packages": ("package a; package b;", "package already"),
    "empty extend": ('syntax = "proto2"; message M { extensions 1 to 9; } extend M {}', "has no field"),
    "deep nesting": ('syntax = "proto3";' + "message M { " * 40 + "}" * 40, "nested"),
    # Labels and types
    "no label in proto2": (body("int32 a = 1;", "proto2"), '"required"'),
    "required in proto3": (body("required int32 a = 1;"), "no required"),
    "group in proto3": (body("optional group G = 1 {}"), "no groups"),
    "small group": (body("optional group g = 1 {}", "proto2"), "capital"),
    "label in oneof": (body("oneof o { optional int32 a = 1; }"), "has no label"),
    "label on map": (body("repeated map<string, int32> m = 1;"), "no label"),
    "map in oneof": (body("oneof o { map<string, int32> m = 1; }"), "oneof"),
    "key of a map": (body("map<double, int32> m = 1;"), "keys of a map"),
    "enum as key": (body("map<E, int32> m = 1;"), "keys of a map"),
    "empty oneof": (body("oneof o { }"), "has no field"),
    "label in edition": ('edition = "2023"; message M { optional int32 a = 1; }', "field_presence"),
    # Numbers and names
    "number zero": (body("int32 a = 0;"), "begin with 1"),
    "number too large": (body("int32 a = 536870912;"), "536870911"),
    "internal number": (body("int32 a = 19500;"), "19000"),
    "number twice": (body("int32 a = 1; int32 b = 1;"), "have the number 1"),
    "name twice": (body("int32 a = 1; int32 a = 2;"), '"M.a" is defined twice'),
    "message twice": ("message M {} message M {}", '"M" is defined twice'),
    "enum value twice": ('syntax = "proto2"; enum A { X = 1; } enum B { X = 1; }', "scope around"),
    "same name in JSON": (body("int32 a_b = 1; int32 aB = 2;"), "in JSON"),
    "reserved number": (body("int32 a = 5; reserved 4 to 6;"), "reserved"),
    "reserved name": (body('int32 a = 5; reserved "a";'), "reserved"),
    "ranges overlap": (body("reserved 4 to 6, 5;"), "overlap"),
    "range backwards": (body("reserved 6 to 4;"), "ends before"),
    "reserved identifier": (body("reserved a;"), "with quotes"),
    "extension range in proto3": (body("extensions 4 to 6;"), "no extension ranges"),
    "field in extension range": (body("optional int32 a = 5; extensions 4 to 6;", "proto2"), "for extensions"),
    # Enums
    "no value": ('syntax = "proto3"; enum E {}', "has no value"),
    "first value": ('syntax = "proto3"; enum E { A = 1; }', "must be 0"),
    "alias": ('syntax = "proto3"; enum E { A = 0; B = 0; }', "allow_alias"),
    "no alias": ('syntax = "proto3"; enum E { option allow_alias = true; A = 0; }', "no effect"),
    "value too large": ('syntax = "proto3"; enum E { A = 0; B = 2147483648; }', "2147483647"),
    "reserved value": ('syntax = "proto3"; enum E { A = 0; B = 3; reserved 2 to max; }', "reserved"),
    "same short name": ('syntax = "proto3"; enum E { A = 0; E_A = 1; }', "same name"),
    # Resolution
    "unknown type": (body("Unknown a = 1;"), '"Unknown" is not defined'),
    "type in field's scope": (body("M.X a = 1;"), '"M.X"'),
    "not a type": (body("S.Get a = 1;") + " service S { rpc Get (M) returns (M); }", "not a type"),
    "enum as request": (body("") + " service S { rpc Get (E) returns (M); }", "requests and answers"),
    "unknown import": ('import "no.proto";', "not among the references"),
    "import twice": ('import "google/protobuf/any.proto"; import "google/protobuf/any.proto";', "twice"),
    "not imported": (body("google.protobuf.Any a = 1;"), "is not defined"),
    "closed enum in proto3": (
        body("google.protobuf.FieldOptions.CType a = 1;") + ' import "google/protobuf/descriptor.proto";',
        "closed enum",
    ),
    # Defaults and options
    "default in proto3": (body("int32 a = 1 [default = 1];"), "no default"),
    "default of repeated": (body("repeated int32 a = 1 [default = 1];", "proto2"), "no default"),
    "default of message": (body("optional M a = 1 [default = x];", "proto2"), "no default"),
    "default out of range": (body("optional int32 a = 1 [default = 2147483648];", "proto2"), "2147483647"),
    "default of another type": (body("optional bool a = 1 [default = 1];", "proto2"), "true or false"),
    "default of no enum value": (body("optional E a = 1 [default = TWO];", "proto2"), "TWO"),
    "unknown option": (body("int32 a = 1 [nothing = true];"), 'no field "nothing"'),
    "option of another type": (body("int32 a = 1 [deprecated = 1];"), "true or false"),
    "option twice": (body("int32 a = 1 [deprecated = true, deprecated = true];"), "set twice"),
    "unknown custom option": (body("int32 a = 1 [(nothing) = true];"), '"nothing" is not defined'),
    "packed string": (body("repeated string a = 1 [packed = true];"), "packed"),
    "json_name twice": (body('int32 a = 1 [json_name = "b", json_name = "c"];'), "json_name"),
    "feature in proto3": (body("int32 a = 1 [features.field_presence = EXPLICIT];"), "only editions"),
    # Extensions
    "extension out of range": (
        'syntax = "proto2"; message M { extensions 1 to 9; } extend M { optional int32 a = 10; }',
        "no extension range",
    ),
    "extension in proto3": (
        'syntax = "proto3"; import "google/protobuf/any.proto"; extend google.protobuf.Any { int32 a = 10; }',
        "extension",
    ),
    "required extension": (
        'syntax = "proto2"; message M { extensions 1 to 9; } extend M { required int32 a = 1; }',
        "required",
    ),
    "extension number twice": (
        'syntax = "proto2"; message M { extensions 1 to 9; } extend M { optional int32 a = 1; optional int32 b = 1; }',
        "same number",
    ),
    "extended enum": ('syntax = "proto2"; enum E { A = 0; } extend E { optional int32 a = 1; }', "not a message"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_protoc_refuses_is_refused_with_a_reason(tmp_path: Path, name: str) -> None:
    text, reason = REFUSED[name]
    assert protoc_descriptor(tmp_path, text) is None, "protoc takes this text: the test is wrong"
    with pytest.raises(InvalidSchema) as refused:
        schema_files(text, {})
    assert reason in str(refused.value)
