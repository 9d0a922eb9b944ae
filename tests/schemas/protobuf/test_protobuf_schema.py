"""Protobuf schemas: message types, imports, serialized descriptors and their canonical texts."""

from __future__ import annotations

import base64

import pytest
from google.protobuf import descriptor_pb2, message_factory, timestamp_pb2

from moldau.schemas.errors import InvalidSchema, SchemaError
from moldau.schemas.parsed_schema import parse
from moldau.schemas.protobuf.common_types import COMMON_TYPES
from moldau.schemas.protobuf.protobuf_schema import ProtobufSchema
from moldau.schemas.protobuf.well_known_files import well_known_file
from moldau.schemas.schema import Schema, SchemaType
from tests.schemas.protobuf.texts import ALL, PROTO3

ORDER = """
syntax = "proto3";
package shop;
import "common/money.proto";
import "google/protobuf/timestamp.proto";
message Order {
  message Line { string item = 1; int32 count = 2; }
  map<string, string> labels = 4;
  repeated Line lines = 1;
  common.Money total = 2;
  google.protobuf.Timestamp at = 3;
}
message Cancelled { string id = 1; }
"""
MONEY = 'syntax = "proto3"; package common; message Money { int64 units = 1; string currency = 2; }'
REFERENCES = {"common/money.proto": MONEY}


# Message types --------------------------------------------------------------------------------------------------------


def test_a_message_class_writes_what_another_reads() -> None:
    order = ProtobufSchema(ORDER, REFERENCES).message_class("shop.Order")
    written = order(total={"units": 3, "currency": "EUR"}, lines=[{"item": "a", "count": 2}])
    written.at.FromSeconds(7)
    read = ProtobufSchema(ORDER, REFERENCES).message_class([0]).FromString(written.SerializeToString())
    assert (read.total.units, read.lines[0].item, read.at.seconds) == (3, "a", 7)


@pytest.mark.parametrize(
    ("message", "path"),
    [("shop.Order", [0]), ("Order", [0]), (".shop.Order", [0]), ("Order.Line", [0, 0]), ("shop.Cancelled", [1])],
)
def test_a_message_is_found_by_its_full_and_its_short_name(message: str, path: list[int]) -> None:
    schema = ProtobufSchema(ORDER, REFERENCES)
    assert schema.message_path(message) == path
    assert schema.message_descriptor(path).full_name == schema.message_descriptor(message).full_name


def test_without_a_name_the_first_message_is_meant() -> None:
    assert ProtobufSchema(ORDER, REFERENCES).message_descriptor().full_name == "shop.Order"


@pytest.mark.parametrize("message", ["Missing", "shop.Missing", [2], [0, 5], [-1], []])
def test_a_message_that_does_not_exist_is_an_error(message: str | list[int]) -> None:
    with pytest.raises(SchemaError):
        ProtobufSchema(ORDER, REFERENCES).message_class(message)


def test_a_message_of_an_import_has_a_class_and_no_path() -> None:
    schema = ProtobufSchema(ORDER, REFERENCES)
    assert schema.message_class("common.Money")(units=1).units == 1
    with pytest.raises(SchemaError, match=r"common/money\.proto"):
        schema.message_path("common.Money")


def test_two_schemas_may_define_the_same_names() -> None:
    one = ProtobufSchema('syntax = "proto3"; message M { string a = 1; }').message_class()
    other = ProtobufSchema('syntax = "proto3"; message M { int32 b = 2; }').message_class()
    assert one(a="x").a == "x" and other(b=5).b == 5


# Imports --------------------------------------------------------------------------------------------------------------


def test_an_import_without_a_reference_is_named() -> None:
    with pytest.raises(InvalidSchema, match=r"common/money\.proto"):
        ProtobufSchema(ORDER)


def test_files_that_import_each_other_are_refused() -> None:
    files = {"a.proto": 'import "b.proto"; message A {}', "b.proto": 'import "a.proto"; message B {}'}
    with pytest.raises(InvalidSchema, match="import each other"):
        ProtobufSchema('import "a.proto";', files)


def test_an_error_in_an_import_names_the_import() -> None:
    with pytest.raises(InvalidSchema, match=r'"common/money\.proto": line 1'):
        ProtobufSchema(ORDER, {"common/money.proto": "mesage"})


def test_a_type_of_an_indirect_import_is_hidden_and_that_of_a_public_one_is_not() -> None:
    text = 'syntax = "proto3"; import "middle.proto"; message M { common.Money m = 1; }'
    hidden = {"middle.proto": 'syntax = "proto3"; import "common/money.proto";', **REFERENCES}
    public = {"middle.proto": 'syntax = "proto3"; import public "common/money.proto";', **REFERENCES}
    with pytest.raises(InvalidSchema, match="does not import"):
        ProtobufSchema(text, hidden)
    assert ProtobufSchema(text, public).message_descriptor().full_name == "M"


def test_a_reference_that_is_not_imported_is_not_read() -> None:
    assert ProtobufSchema("message M {}", {"other.proto": "broken"}).message_path("M") == [0]


def test_a_reference_may_have_the_name_that_we_give_to_the_schema() -> None:
    text = 'syntax = "proto3"; import "schema.proto"; message A { B b = 1; }'
    assert ProtobufSchema(text, {"schema.proto": 'syntax = "proto3"; message B {}'}).message_path("A") == [0]


@pytest.mark.parametrize("path", COMMON_TYPES)
def test_common_types_are_built_in(path: str) -> None:
    assert ProtobufSchema(f'syntax = "proto3"; import "{path}"; message M {{}}').message_path("M") == [0]


def test_confluents_types_are_those_of_its_client() -> None:
    from confluent_kafka.schema_registry.confluent import meta_pb2
    from confluent_kafka.schema_registry.confluent.type import decimal_pb2, variant_pb2

    for module in (meta_pb2, decimal_pb2, variant_pb2):
        expected = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        assert _types(well_known_file(expected.name)) == _types(expected)


@pytest.mark.parametrize("name", [path for path in COMMON_TYPES if path.startswith("google/type/")])
def test_googles_common_types_are_as_published(name: str) -> None:
    module = pytest.importorskip(f"google.type.{name.rpartition('/')[2].removesuffix('.proto')}_pb2")
    expected = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    assert _types(well_known_file(name)) == _types(expected)


def _types(file: object) -> list[str]:
    """All types of a file without the default of json_name, which a generated module leaves out."""
    copied = descriptor_pb2.FileDescriptorProto.FromString(file.SerializeToString())  # type: ignore[attr-defined]
    fields = [*copied.extension, *(field for message in copied.message_type for field in _fields(message))]
    for field in fields:
        field.ClearField("json_name")
    return [str(one) for one in [*copied.message_type, *copied.enum_type, *copied.extension]]


def _fields(message: descriptor_pb2.DescriptorProto) -> list[descriptor_pb2.FieldDescriptorProto]:
    return [*message.field, *(field for nested in message.nested_type for field in _fields(nested))]


# Serialized descriptors -----------------------------------------------------------------------------------------------


def test_the_serialized_form_of_a_generated_class_is_read() -> None:
    serialized = base64.b64encode(timestamp_pb2.DESCRIPTOR.serialized_pb).decode()
    schema = ProtobufSchema(serialized)
    assert schema.message_descriptor().full_name == "google.protobuf.Timestamp"
    assert "int64 seconds = 1;" in schema.canonical()


def test_a_reference_may_be_serialized() -> None:
    serialized = ProtobufSchema(MONEY).serialized
    schema = ProtobufSchema(ORDER, {"common/money.proto": serialized})
    assert schema.message_class()(total={"units": 1}).total.units == 1


@pytest.mark.parametrize("text", ["", "AAAA", "Zm9v", "not a schema", "{}", '{"type": "string"}', "CgNhYmM=\x00"])
def test_what_is_neither_text_nor_descriptor_has_no_message(text: str) -> None:
    with pytest.raises(SchemaError):
        ProtobufSchema(text).message_class()


def test_a_broken_descriptor_is_refused() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="x.proto")
    file.message_type.add(name="M").field.add(name="f", number=1, label=1, type=11, type_name=".Missing")
    with pytest.raises(InvalidSchema, match="Missing"):
        ProtobufSchema(base64.b64encode(file.SerializeToString()).decode())


def test_parse_knows_protobuf() -> None:
    parsed = parse(Schema(PROTO3, SchemaType.PROTOBUF), {})
    assert parsed.type is SchemaType.PROTOBUF
    assert parsed.canonical().startswith('syntax = "proto3";\npackage a.b;\n')


# Canonical texts ------------------------------------------------------------------------------------------------------


def test_the_canonical_text_has_one_layout() -> None:
    assert ProtobufSchema(ORDER, REFERENCES).canonical() == (
        'syntax = "proto3";\n'
        "package shop;\n"
        "\n"
        'import "common/money.proto";\n'
        'import "google/protobuf/timestamp.proto";\n'
        "\n"
        "message Order {\n"
        "  repeated Line lines = 1;\n"
        "  common.Money total = 2;\n"
        "  google.protobuf.Timestamp at = 3;\n"
        "\n"
        "  message Line {\n"
        "    string item = 1;\n"
        "    int32 count = 2;\n"
        "  }\n"
        "  map<string, string> labels = 4;\n"
        "}\n"
        "message Cancelled {\n"
        "  string id = 1;\n"
        "}\n"
    )


def test_the_normalized_text_has_full_names_and_an_order() -> None:
    text = """
    syntax = "proto2"; package p;
    message M { optional E e = 5 [json_name = "x", deprecated = true]; repeated M m = 1; oneof o { int32 b = 4; int32 a = 3; } }
    enum E { B = 2; C = 3; A = 1; }
    """  # noqa: E501
    assert ProtobufSchema(text).normalized() == (
        "package p;\n\nmessage M {\n"
        "  repeated .p.M m = 1;\n"
        '  optional .p.E e = 5 [\n    deprecated = true,\n    json_name = "x"\n  ];\n'
        "\n"
        "  oneof o {\n    int32 a = 3;\n    int32 b = 4;\n  }\n"
        "}\n"
        "enum E {\n  B = 2;\n  A = 1;\n  C = 3;\n}\n"
    )


def test_white_space_and_comments_do_not_matter() -> None:
    spread = 'syntax="proto3";\n\n// a\nmessage  M{/* b */string s=1 ; }\n\n'
    assert (
        ProtobufSchema(spread).canonical()
        == ProtobufSchema('syntax = "proto3"; message M { string s = 1; }').canonical()
    )


def test_what_means_the_same_has_one_normalized_text() -> None:
    one = 'syntax = "proto3"; package p; message M { N n = 2; int32 i = 1; message N {} }'
    other = 'syntax = "proto3"; package p; message M { message N {} int32 i = 1; .p.M.N n = 2; }'
    assert ProtobufSchema(one).canonical() != ProtobufSchema(other).canonical()
    assert ProtobufSchema(one).normalized() == ProtobufSchema(other).normalized()


def messages(schema: ProtobufSchema) -> dict[str, list[int]]:
    """The paths of all messages that are no entries of maps."""
    found: dict[str, list[int]] = {}

    def walk(message: descriptor_pb2.DescriptorProto, name: str, path: list[int]) -> None:
        if not message.options.map_entry:
            found[name] = path
        for index, nested in enumerate(message.nested_type):
            walk(nested, f"{name}.{nested.name}", [*path, index])

    file = descriptor_pb2.FileDescriptorProto.FromString(schema.file_descriptor.serialized_pb)
    for index, message in enumerate(file.message_type):
        walk(message, message.name, [index])
    return found


@pytest.mark.parametrize("name", ALL)
def test_printed_texts_mean_the_same_and_keep_the_paths_of_messages(name: str) -> None:
    schema = ProtobufSchema(ALL[name])
    serialized = ProtobufSchema(schema.serialized)
    again = ProtobufSchema(schema.canonical())
    assert again.canonical() == schema.canonical()
    assert ProtobufSchema(serialized.canonical()).canonical() == serialized.canonical()
    for other in (
        again,
        serialized,
        ProtobufSchema(serialized.canonical()),
        ProtobufSchema(schema.normalized()),
    ):
        assert other.normalized() == schema.normalized()
        assert messages(other) == messages(schema)


def test_a_map_after_a_nested_message_keeps_the_path_of_the_message() -> None:
    text = 'syntax = "proto3"; message M { message N {} map<string, N> m = 1; map<string, N> k = 2; message O {} }'
    schema = ProtobufSchema(text)
    assert schema.message_path("M.O") == [0, 3]
    for printed in (schema.canonical(), schema.normalized()):
        assert ProtobufSchema(printed).message_path("M.O") == [0, 3]
        assert ProtobufSchema(printed).message_path("M.N") == [0, 0]


def test_a_serialized_map_is_printed_with_its_entry_as_java_clients_need_it() -> None:
    schema = ProtobufSchema(ProtobufSchema('syntax = "proto3"; message M { map<string, int32> m = 1; }').serialized)
    assert "repeated .M.MEntry m = 1;" in schema.canonical()
    assert "option map_entry = true;" in schema.canonical()
    assert "map<string, int32> m = 1;" in schema.normalized()
    assert ProtobufSchema(schema.canonical()).message_class()(m={"a": 1}).m["a"] == 1


def test_a_map_entry_of_another_form_is_refused() -> None:
    text = 'syntax = "proto3"; message M { repeated E e = 1; message E { option map_entry = true; string key = 1; } }'
    with pytest.raises(InvalidSchema, match="map_entry"):
        ProtobufSchema(text)


def test_custom_options_are_kept_in_both_forms() -> None:
    text = (
        'syntax = "proto3"; import "confluent/meta.proto"; '
        'message M { string s = 1 [(confluent.field_meta) = { tags: ["PII", "x"] params { key: "k" value: "v" } }]; }'
    )
    schema = ProtobufSchema(text)
    assert '(confluent.field_meta) = {\n    tags: [\n      "PII",\n      "x"\n    ],' in schema.canonical()
    assert ProtobufSchema(schema.normalized()).normalized() == schema.normalized()
    assert ProtobufSchema(schema.serialized).normalized() == schema.normalized()
    options = schema.message_descriptor().fields_by_name["s"].GetOptions()
    extension = schema.file_descriptor.pool.FindExtensionByName("confluent.field_meta")
    known = message_factory.GetMessageClass(extension.containing_type).FromString(options.SerializeToString())
    assert list(known.Extensions[extension].tags) == ["PII", "x"]


def test_several_values_in_brackets_are_read_as_confluent_stores_them() -> None:
    start = 'syntax = "proto2"; import "google/protobuf/descriptor.proto"; '
    start += "extend google.protobuf.FieldOptions { repeated string tag = 50001; } message M { optional int32 a = 1 "
    listed, repeated = '[(tag) = ["x", "y"]]; }', '[(tag) = "x", (tag) = "y"]; }'
    assert ProtobufSchema(start + listed).canonical() == ProtobufSchema(start + repeated).canonical()
