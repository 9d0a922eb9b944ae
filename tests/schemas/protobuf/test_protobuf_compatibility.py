"""Compatibility of Protobuf schemas: each rule by its kind and path, and what is allowed."""

from __future__ import annotations

import pytest

from moldau.schemas.compatibility import CompatibilityLevel, incompatibilities
from moldau.schemas.protobuf.protobuf_schema import ProtobufSchema

HOME = 'syntax = "proto3"; package {package}; message Outer {{ message Home {{ {type} rooms = 1; }} }}'


def found(
    old: str, new: str, old_files: dict[str, str] | None = None, new_files: dict[str, str] | None = None
) -> list[str]:
    reader, writer = ProtobufSchema(new, new_files), ProtobufSchema(old, old_files)
    return [f"{one.kind} {one.path}" for one in reader.incompatibilities(writer)]


def message(fields: str, syntax: str = "proto3", more: str = "") -> str:
    return f'syntax = "{syntax}"; package p; message M {{ {fields} }} {more}'


ENUM = "enum E { ZERO = 0; ONE = 1; }"
OTHER = "message N { int32 a = 1; } message O { int32 a = 1; }"

REFUSED = {
    "scalar of another form": (message("int32 a = 1;"), message("sint32 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED #/M/1"]),
    "number to string": (message("int64 a = 1;"), message("string a = 1;"), ["FIELD_SCALAR_KIND_CHANGED #/M/1"]),
    "integer to fixed": (message("uint32 a = 1;"), message("fixed32 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED #/M/1"]),
    "fixed to float": (message("fixed32 a = 1;"), message("float a = 1;"), ["FIELD_SCALAR_KIND_CHANGED #/M/1"]),
    "float to double": (message("float a = 1;"), message("double a = 1;"), ["FIELD_SCALAR_KIND_CHANGED #/M/1"]),
    "number reused": (message("int32 a = 1;"), message("string b = 1;"), ["FIELD_SCALAR_KIND_CHANGED #/M/1"]),
    "scalar to message": (
        message("int32 a = 1;", more=OTHER),
        message("N a = 1;", more=OTHER),
        ["FIELD_KIND_CHANGED #/M/1"],
    ),
    "message to map": (
        message("N a = 1;", more=OTHER),
        message("map<string, N> a = 1;", more=OTHER),
        ["FIELD_KIND_CHANGED #/M/1"],
    ),
    "another message": (
        message("N a = 1;", more=OTHER),
        message("O a = 1;", more=OTHER),
        ["FIELD_NAMED_TYPE_CHANGED #/M/1"],
    ),
    "key of a map": (
        message("map<string, int32> a = 1;"),
        message("map<int32, int32> a = 1;"),
        ["FIELD_SCALAR_KIND_CHANGED #/M/1"],
    ),
    "value of a map": (
        message("map<string, N> a = 1;", more=OTHER),
        message("map<string, O> a = 1;", more=OTHER),
        ["FIELD_NAMED_TYPE_CHANGED #/M/1"],
    ),
    "message gone": (message("", more=OTHER), message("", more="message N { int32 a = 1; }"), ["MESSAGE_REMOVED #/O"]),
    "nested message gone": (message("message N {}"), message(""), ["MESSAGE_REMOVED #/M/N"]),
    "nested field": (
        message("message N { int32 a = 7; }"),
        message("message N { string a = 7; }"),
        ["FIELD_SCALAR_KIND_CHANGED #/M/N/7"],
    ),
    "package": (message(""), message("").replace("package p", "package q"), ["PACKAGE_CHANGED #/"]),
    "required added": (
        message("", "proto2"),
        message("required int32 a = 1;", "proto2"),
        ["REQUIRED_FIELD_ADDED #/M/1"],
    ),
    "required removed": (
        message("required int32 a = 1;", "proto2"),
        message("", "proto2"),
        ["REQUIRED_FIELD_REMOVED #/M/1"],
    ),
    "required in an edition": (
        'edition = "2023"; message M {}',
        'edition = "2023"; message M { int32 a = 1 [features.field_presence = LEGACY_REQUIRED]; }',
        ["REQUIRED_FIELD_ADDED #/M/1"],
    ),
    "optional to repeated": (
        message("optional int32 a = 1;", "proto2"),
        message("repeated int32 a = 1;", "proto2"),
        ["FIELD_NUMERIC_LABEL_CHANGED #/M/1"],
    ),
    "packed list to one number": (
        message("repeated int32 a = 1;"),
        message("int32 a = 1;"),
        ["FIELD_NUMERIC_LABEL_CHANGED #/M/1"],
    ),
    "two fields into a oneof": (
        message("int32 a = 1; int32 b = 2;"),
        message("oneof o { int32 a = 1; int32 b = 2; }"),
        ["MULTIPLE_FIELDS_MOVED_TO_ONEOF #/M/o"],
    ),
    "field into an existing oneof": (
        message("int32 a = 1; oneof o { int32 b = 2; }"),
        message("oneof o { int32 a = 1; int32 b = 2; }"),
        ["FIELD_MOVED_TO_EXISTING_ONEOF #/M/o"],
    ),
    "two oneofs become one": (
        message("oneof o { int32 a = 1; } oneof q { int32 b = 2; }"),
        message("oneof o { int32 a = 1; int32 b = 2; }"),
        ["FIELD_MOVED_TO_EXISTING_ONEOF #/M/o"],
    ),
    "field of a oneof gone": (
        message("oneof o { int32 a = 1; int32 b = 2; }"),
        message("oneof o { int32 a = 1; }"),
        ["ONEOF_FIELD_REMOVED #/M/o/2"],
    ),
    "type in a renamed oneof": (
        message("oneof o { int32 a = 1; }"),
        message("oneof q { string a = 1; }"),
        ["FIELD_SCALAR_KIND_CHANGED #/M/q/1"],
    ),
    "group to message": (
        message("optional group G = 1 {}", "proto2"),
        message("message G {} optional G g = 1;", "proto2"),
        ["FIELD_KIND_CHANGED #/M/1"],
    ),
}

ALLOWED = {
    "the same": (message("int32 a = 1;"), message("int32 a = 1;")),
    "field added": (message("int32 a = 1;"), message("int32 a = 1; string b = 2;")),
    "field removed": (message("int32 a = 1; string b = 2;"), message("int32 a = 1;")),
    "field renamed": (message("int32 a = 1;"), message("int32 b = 1;")),
    "integers": (message("int32 a = 1; bool b = 2;"), message("uint64 a = 1; int64 b = 2;")),
    "enum and integer": (message("E a = 1; int32 b = 2;", more=ENUM), message("int32 a = 1; E b = 2;", more=ENUM)),
    "string and bytes": (message("string a = 1; bytes b = 2;"), message("bytes a = 1; string b = 2;")),
    "signed and unsigned": (message("fixed64 a = 1;"), message("sfixed64 a = 1;")),
    "repeated string": (message("string a = 1;"), message("repeated string a = 1;")),
    "number to list": (message("int32 a = 1;"), message("repeated int32 a = 1;")),
    "optional and plain": (
        message("optional int32 a = 1; int32 b = 2;"),
        message("int32 a = 1; optional int32 b = 2;"),
    ),
    "field into a new oneof": (message("int32 a = 1;"), message("oneof o { int32 a = 1; int32 b = 2; }")),
    "field out of a oneof": (message("oneof o { int32 a = 1; int32 b = 2; }"), message("int32 a = 1; int32 b = 2;")),
    "oneof renamed": (
        message("oneof o { int32 a = 1; int32 b = 2; }"),
        message("oneof q { int32 a = 1; int32 b = 2; }"),
    ),
    "oneof gone": (message("oneof o { int32 a = 1; int32 b = 2; }"), message("")),
    "field added to a oneof": (message("oneof o { int32 a = 1; }"), message("oneof o { int32 a = 1; int32 b = 2; }")),
    "messages moved": (
        message("", more=OTHER),
        ('syntax = "proto3"; package p; message O { int32 a = 1; } message N { int32 a = 1; } message M {}'),
    ),
    "enum changed": (message("", more=ENUM), message("", more="enum E { NONE = 0; TWO = 2; }")),
    "enum removed": (message("", more=ENUM), message("")),
    "recursive message": (message("M m = 1;"), message("M m = 1; int32 b = 2;")),
    "map gone": (message("map<string, int32> a = 1;"), message("")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_change_that_breaks_readers_is_found_with_its_rule_and_place(name: str) -> None:
    old, new, expected = REFUSED[name]
    assert found(old, new) == expected


@pytest.mark.parametrize("name", ALLOWED)
def test_a_change_that_readers_bear_is_allowed(name: str) -> None:
    old, new = ALLOWED[name]
    assert found(old, new) == []


def test_messages_name_the_field_and_both_types() -> None:
    old, new = ProtobufSchema(message("int32 count = 3;")), ProtobufSchema(message("string count = 3;"))
    (problem,) = new.incompatibilities(old)
    for part in ("#/M/3", '"count"', "int32", "string", "new number"):
        assert part in problem.message


USE = 'syntax = "proto3"; import "{file}"; message M {{ {package}.Outer.Home home = 1; }}'


def test_an_imported_type_is_compared_by_what_it_has() -> None:
    old, old_files = USE.format(file="a.proto", package="a"), {"a.proto": HOME.format(package="a", type="int32")}
    new = USE.format(file="b.proto", package="b")
    assert found(old, new, old_files, {"b.proto": HOME.format(package="b", type="int64")}) == []
    assert found(old, new, old_files, {"b.proto": HOME.format(package="b", type="string")}) == [
        "FIELD_SCALAR_KIND_CHANGED #/Outer/Home/1",
        "FIELD_NAMED_TYPE_CHANGED #/M/1",
    ]


def test_a_type_may_move_from_an_import_into_the_file_and_not_out_of_it() -> None:
    imported = USE.format(file="a.proto", package="a")
    files = {"a.proto": HOME.format(package="a", type="int32")}
    local = 'syntax = "proto3"; message M { Outer.Home home = 1; } message Outer { message Home { int32 rooms = 1; } }'
    assert found(imported, local, files) == []
    assert found(local, imported, None, files) == ["MESSAGE_REMOVED #/Outer"]


def test_levels_choose_the_direction() -> None:
    old, new = ProtobufSchema(message("message N {}")), ProtobufSchema(message("message N {} message O {}"))
    assert incompatibilities(new, [old], CompatibilityLevel.BACKWARD) == []
    kinds = [one.kind for one in incompatibilities(new, [old], CompatibilityLevel.FORWARD)]
    assert kinds == ["MESSAGE_REMOVED"]
