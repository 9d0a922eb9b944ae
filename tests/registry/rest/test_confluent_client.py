"""confluent-kafka's registry client as a judge: every call of it, against the REST API over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    MetadataTags,
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry._async.schema_registry_client import AsyncSchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from moldau.testing import Registry


def record(*fields: tuple[str, Any], name: str = "Order", **defaults: Any) -> str:
    listed = [
        {"name": one, "type": kind, **({"default": defaults[one]} if one in defaults else {})} for one, kind in fields
    ]
    return json.dumps({"type": "record", "name": name, "fields": listed})


ONE = Schema(record(("id", "int")), "AVRO")
TWO = Schema(record(("id", "int"), ("note", "string"), note=""), "AVRO")
BROKEN = Schema(record(("id", "int"), ("note", "string")), "AVRO")
OTHER = Schema(record(("price", "double")), "AVRO")


@pytest.fixture
def url() -> Iterator[str]:
    with Registry() as registry:
        yield registry.url


@pytest.fixture
def client(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": url, "max.retries": 0}) as found:
        yield found


@pytest.fixture
def fresh(url: str) -> Iterator[SchemaRegistryClient]:
    """A second client, whose caches do not know what the first one did."""
    with SchemaRegistryClient({"url": url, "max.retries": 0}) as found:
        yield found


def refused(code: int, call: Any, *arguments: Any, **more: Any) -> str:
    with pytest.raises(SchemaRegistryError) as caught:
        call(*arguments, **more)
    assert caught.value.error_code == code, caught.value
    assert caught.value.http_status_code == (code // 100 if code > 1_000 else code)
    return str(caught.value.error_message)


def test_a_schema_is_registered_and_found_by_all_its_names(
    client: SchemaRegistryClient, fresh: SchemaRegistryClient
) -> None:
    first = client.register_schema("orders-value", ONE)
    again = client.register_schema_full_response("orders-value", ONE)
    assert (again.schema_id, again.version) == (first, 1)
    assert client.register_schema("other-value", ONE) == first, "one content, one id"
    assert client.register_schema("orders-value", TWO) != first

    assert json.loads(fresh.get_schema(first).schema_str) == json.loads(ONE.schema_str)
    by_guid = fresh.get_schema_by_guid(again.guid)
    assert json.loads(by_guid.schema_str) == json.loads(ONE.schema_str)
    assert fresh.get_subjects_by_schema_id(first) == ["orders-value", "other-value"]
    assert [(one.subject, one.version) for one in fresh.get_schema_versions(first)] == [
        ("orders-value", 1),
        ("other-value", 1),
    ]
    latest = fresh.get_latest_version("orders-value")
    assert (latest.subject, latest.version, latest.schema_id) == ("orders-value", 2, first + 1)
    assert fresh.get_version("orders-value", 1).schema_id == first
    assert fresh.get_version("orders-value", "latest").version == 2
    found = fresh.lookup_schema("orders-value", ONE)
    assert (found.schema_id, found.version, found.guid) == (first, 1, again.guid)
    assert fresh.get_versions("orders-value") == [1, 2]
    assert set(fresh.get_schema_types()) == {"AVRO", "JSON", "PROTOBUF"}


def test_what_is_not_there_has_its_own_code(client: SchemaRegistryClient) -> None:
    refused(40401, client.get_latest_version, "nothing")
    refused(40401, client.get_versions, "nothing")
    refused(40401, client.lookup_schema, "nothing", ONE)
    refused(40401, client.delete_subject, "nothing")
    refused(40403, client.get_schema, 17)
    refused(40403, client.get_schema_by_guid, "00000000-0000-0000-0000-000000000000")
    refused(40403, client.get_subjects_by_schema_id, 17)
    client.register_schema("orders-value", ONE)
    refused(40402, client.get_version, "orders-value", 9)
    refused(42202, client.get_version, "orders-value", "newest")
    refused(42202, client.get_version, "orders-value", 0)
    refused(40403, client.lookup_schema, "orders-value", OTHER)
    refused(40408, client.get_compatibility, "orders-value")
    refused(40409, client.get_mode, "orders-value")


def test_schemas_that_are_none_are_refused_with_the_reason(client: SchemaRegistryClient) -> None:
    refused(42201, client.register_schema, "a", Schema('{"type": "record"}', "AVRO"))
    refused(42201, client.register_schema, "a", Schema("not json", "AVRO"))
    refused(42201, client.register_schema, "a", Schema('"string"', "YAML"))
    refused(42201, client.register_schema, "a", Schema("message {", "PROTOBUF"))
    refused(42201, client.register_schema, "a", Schema('{"type": 7}', "JSON"))
    missing = SchemaReference("Item", "items-value", 1)
    refused(42201, client.register_schema, "a", Schema(record(("item", "Item")), "AVRO", [missing]))
    assert client.get_subjects() == []


def test_an_incompatible_schema_is_refused_and_the_message_names_the_field(client: SchemaRegistryClient) -> None:
    client.register_schema("orders-value", ONE)
    message = refused(409, client.register_schema, "orders-value", BROKEN)
    assert "note" in message and "READER_FIELD_MISSING_DEFAULT_VALUE" in message
    assert client.get_versions("orders-value") == [1]
    assert not client.test_compatibility("orders-value", BROKEN)
    assert not client.test_compatibility("orders-value", BROKEN, version=1, verbose=True)
    assert not client.test_compatibility_all_versions("orders-value", BROKEN, verbose=True)
    assert client.test_compatibility("orders-value", TWO)
    assert client.test_compatibility_all_versions("orders-value", TWO, normalize=True)
    refused(40402, client.test_compatibility, "orders-value", TWO, version=7)
    refused(42202, client.test_compatibility, "orders-value", TWO, version="first")


def test_levels_are_set_for_all_and_for_one_subject(client: SchemaRegistryClient) -> None:
    assert client.get_compatibility() == "BACKWARD"
    assert client.set_compatibility(level="full") == {"compatibility": "FULL"}
    assert client.get_compatibility() == "FULL"
    client.register_schema("orders-value", ONE)
    client.set_compatibility("orders-value", "NONE")
    assert client.get_compatibility("orders-value") == "NONE"
    client.register_schema("orders-value", OTHER)
    refused(42203, client.set_compatibility, level="SIDEWAYS")
    assert client.delete_config("orders-value").compatibility_level is ConfigCompatibilityLevel.NONE
    refused(40401, client.delete_config, "orders-value")
    assert client.get_compatibility() == "FULL"


def test_a_config_keeps_its_further_fields(client: SchemaRegistryClient) -> None:
    metadata = Metadata(None, MetadataProperties({"owner": "shop"}), [])
    level = ConfigCompatibilityLevel.FORWARD
    config = ServerConfig(compatibility=level, compatibility_group="major", default_metadata=metadata)
    client.set_config("orders-value", config)
    found = client.get_config("orders-value")
    assert found.compatibility_group == "major"
    assert found.compatibility_level is level
    assert found.default_metadata == metadata
    client.set_config(config=ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
    assert client.get_config().compatibility_level is ConfigCompatibilityLevel.NONE
    client.delete_config()
    assert client.get_config().compatibility_level is ConfigCompatibilityLevel.BACKWARD


def test_deleted_versions_and_subjects_can_be_listed_and_come_back(
    client: SchemaRegistryClient, fresh: SchemaRegistryClient
) -> None:
    client.register_schema("orders-value", ONE)
    second = client.register_schema("orders-value", TWO)
    refused(40407, client.delete_version, "orders-value", 1, permanent=True)
    assert client.delete_version("orders-value", 1) == 1
    refused(40406, client.delete_version, "orders-value", 1)
    assert client.get_versions("orders-value") == [2]
    assert client.get_versions("orders-value", deleted=True) == [1, 2]
    assert client.get_versions("orders-value", deleted_only=True) == [1]
    assert client.get_version("orders-value", 1, deleted=True).version == 1
    assert client.delete_version("orders-value", 1, permanent=True) == 1
    assert client.get_versions("orders-value", deleted=True) == [2]

    refused(40405, client.delete_subject, "orders-value", permanent=True)
    assert client.delete_subject("orders-value") == [2]
    refused(40404, client.delete_subject, "orders-value")
    assert client.get_subjects() == []
    assert client.get_subjects(deleted=True) == client.get_subjects(deleted_only=True) == ["orders-value"]
    assert fresh.lookup_schema("orders-value", TWO, deleted=True).version == 2
    assert client.register_schema("orders-value", TWO) == second, "the id of a content never changes"
    assert client.get_versions("orders-value") == [3]
    client.delete_subject("orders-value")
    assert client.delete_subject("orders-value", permanent=True) == [3]
    refused(40401, client.get_versions, "orders-value", deleted=True)


def test_references_are_kept_and_protect_what_they_name(
    client: SchemaRegistryClient, fresh: SchemaRegistryClient
) -> None:
    client.register_schema("items-value", Schema(record(("sku", "string"), name="Item"), "AVRO"))
    using = Schema(record(("item", "Item")), "AVRO", [SchemaReference("Item", "items-value", 1)])
    order = client.register_schema("orders-value", using)
    found = fresh.get_schema(order)
    assert [(one.name, one.subject, one.version) for one in found.references] == [("Item", "items-value", 1)]
    assert client.get_referenced_by("items-value", 1) == [order]
    refused(42206, client.delete_version, "items-value", 1)
    refused(42206, client.delete_subject, "items-value")
    assert "sku" in str(client.get_latest_version("orders-value", fmt="resolved").schema.schema_str)
    client.delete_subject("orders-value")
    client.delete_subject("orders-value", permanent=True)
    assert client.delete_subject("items-value") == [1]


def test_metadata_and_rules_are_stored_and_returned(client: SchemaRegistryClient, fresh: SchemaRegistryClient) -> None:
    metadata = Metadata(MetadataTags({"**.ssn": ["PII"]}), MetadataProperties({"application.version": "1"}), [])
    rule = Rule(
        "encrypt", "keep it secret", RuleKind.TRANSFORM, RuleMode.WRITEREAD, "ENCRYPT", ["PII"],
        RuleParams({"encrypt.kek.name": "key"}), None, None, "ERROR,NONE", False,
    )  # fmt: skip
    with_rules = Schema(ONE.schema_str, "AVRO", [], metadata, RuleSet(None, [rule]))
    first = client.register_schema("orders-value", with_rules)
    found = fresh.get_schema(first)
    assert found.metadata == metadata
    assert [one.name for one in found.rule_set.domain_rules] == ["encrypt"]
    newest = client.get_latest_with_metadata("orders-value", {"application.version": "1"})
    assert newest.schema_id == first
    refused(40403, client.get_latest_with_metadata, "orders-value", {"application.version": "9"})


def test_modes_say_what_may_be_written(client: SchemaRegistryClient) -> None:
    client.register_schema("orders-value", ONE)
    assert client.get_global_mode() == "READWRITE"
    assert client.update_mode("orders-value", "READONLY") == "READONLY"
    refused(42205, client.register_schema, "orders-value", TWO)
    refused(42205, client.delete_subject, "orders-value")
    assert client.get_mode("orders-value") == "READONLY"
    assert client.delete_mode("orders-value") == "READONLY"
    client.register_schema("orders-value", TWO)
    refused(42204, client.update_global_mode, "SLEEPING")
    refused(42205, client.update_global_mode, "IMPORT")
    assert client.update_global_mode("IMPORT", force=True) == "IMPORT"
    assert client.update_global_mode("READWRITE") == "READWRITE"


def test_contexts_have_ids_of_their_own(client: SchemaRegistryClient, fresh: SchemaRegistryClient) -> None:
    assert client.register_schema("orders-value", ONE) == 1
    assert client.register_schema(":.staging:orders-value", OTHER) == 1
    assert client.get_contexts() == [".", ".staging"]
    assert json.loads(fresh.get_schema(1).schema_str) == json.loads(ONE.schema_str)
    assert json.loads(client.get_schema(1, ":.staging:orders-value").schema_str) == json.loads(OTHER.schema_str)
    assert fresh.get_subjects(subject_prefix=":.staging:") == [":.staging:orders-value"]
    assert fresh.get_subjects() == ["orders-value", ":.staging:orders-value"]


def test_lists_come_in_pages(client: SchemaRegistryClient) -> None:
    for number in range(5):
        client.register_schema(f"s{number}", ONE)
    assert client.get_subjects(offset=1, limit=2) == ["s1", "s2"]
    assert client.get_subjects(offset=4, limit=2) == ["s4"]
    assert client.get_subjects(subject_prefix="s3") == ["s3"]
    assert client.get_subjects(limit=0) == []
    assert client.get_subjects_by_schema_id(1, offset=3) == ["s3", "s4"]
    assert client.get_contexts(offset=1) == []


def test_names_with_any_characters_are_subjects(client: SchemaRegistryClient) -> None:
    for subject in ("a/b", "a b?c=d&e#f", "žluťoučký kůň", "100%", "a.b:c", "日本"):
        client.register_schema(subject, ONE)
        assert client.get_latest_version(subject).subject == subject
        assert client.get_versions(subject) == [1]
        assert client.delete_subject(subject) == [1]


def test_normalized_schemas_are_found_whatever_their_form(
    client: SchemaRegistryClient, fresh: SchemaRegistryClient
) -> None:
    plain = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": {"type": "int"}}]}
    first = client.register_schema("orders-value", Schema(json.dumps(plain), "AVRO"), normalize_schemas=True)
    turned = {"fields": [{"type": "int", "name": "id"}], "name": "Order", "type": "record"}
    found = fresh.lookup_schema("orders-value", Schema(json.dumps(turned), "AVRO"), normalize_schemas=True)
    assert found.schema_id == first


def test_the_three_types_are_registered_and_returned(client: SchemaRegistryClient, fresh: SchemaRegistryClient) -> None:
    proto = 'syntax = "proto3";\npackage shop;\n\nmessage Order {\n  int32 id = 1;\n}\n'
    json_schema = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})
    ids = [
        client.register_schema("p", Schema(proto, "PROTOBUF")),
        client.register_schema("j", Schema(json_schema, "JSON")),
        client.register_schema("a", ONE),
    ]
    assert [fresh.get_schema(one).schema_type for one in ids] == ["PROTOBUF", "JSON", "AVRO"]
    from base64 import b64decode

    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    serialized = client.get_latest_version("p", fmt="serialized").schema.schema_str
    file = FileDescriptorProto.FromString(b64decode(str(serialized)))
    assert [one.name for one in file.message_type] == ["Order"]


def test_the_asyncio_client_works_too() -> None:
    async def main(url: str) -> None:
        async with AsyncSchemaRegistryClient({"url": url}) as client:
            first = await client.register_schema("orders-value", ONE)
            assert (await client.get_latest_version("orders-value")).schema_id == first
            assert await client.get_subjects() == ["orders-value"]

    with Registry() as registry:
        asyncio.run(main(registry.url))
