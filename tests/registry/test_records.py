"""Records of the topic `_schemas`: bytes as Confluent's registry writes them, and old forms that it still reads."""

from __future__ import annotations

import pytest

from moldau.registry import records
from moldau.registry.records import (
    ClearSubjectRecord,
    ConfigRecord,
    ContextRecord,
    DeleteSubjectRecord,
    ModeRecord,
    NoopRecord,
    RecordError,
    SchemaRecord,
    StoredSchema,
    read_record,
)
from moldau.schemas.schema import Schema, SchemaReference, SchemaType

STORED = StoredSchema(
    "orders-value",
    2,
    7,
    Schema(
        'syntax = "proto3";',
        SchemaType.PROTOBUF,
        (SchemaReference("a.proto", "a", 1),),
        {"tags": {"**.ssn": ["PII"]}, "properties": {"owner": "ü"}},
        {
            "domainRules": [
                {"name": "n", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "1", "disabled": False}
            ]
        },
    ),
    deleted=True,
)

CASES = {
    "schema": (
        records.schema_entry(StoredSchema("orders-value", 1, 7, Schema('"string"'))),
        b'{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}',
        b'{"subject":"orders-value","version":1,"id":7,"schemaType":"AVRO","schema":"\\"string\\"","deleted":false}',
    ),
    "schema with everything": (
        records.schema_entry(STORED),
        b'{"keytype":"SCHEMA","subject":"orders-value","version":2,"magic":1}',
        '{"subject":"orders-value","version":2,"id":7,"schemaType":"PROTOBUF",'
        '"references":[{"name":"a.proto","subject":"a","version":1}],'
        '"metadata":{"tags":{"**.ssn":["PII"]},"properties":{"owner":"ü"}},'
        '"ruleSet":{"domainRules":[{"name":"n","kind":"CONDITION","mode":"WRITE","type":"CEL","expr":"1",'
        '"disabled":false}]},"schema":"syntax = \\"proto3\\";","deleted":true}'.encode(),
    ),
    "tombstone": (
        records.tombstone("a", 3),
        b'{"keytype":"SCHEMA","subject":"a","version":3,"magic":1}',
        None,
    ),
    "config": (
        records.config_entry("a", {"compatibilityLevel": "FULL", "alias": "b", "normalize": True}),
        b'{"keytype":"CONFIG","subject":"a","magic":0}',
        b'{"subject":"a","alias":"b","normalize":true,"compatibilityLevel":"FULL"}',
    ),
    "global config": (
        records.config_entry(None, {"compatibilityLevel": "NONE"}),
        b'{"keytype":"CONFIG","magic":0}',
        b'{"compatibilityLevel":"NONE"}',
    ),
    "mode": (
        records.mode_entry(":.c:", "IMPORT"),
        b'{"keytype":"MODE","subject":":.c:","magic":0}',
        b'{"subject":":.c:","mode":"IMPORT"}',
    ),
    "global mode deleted": (records.mode_entry(None, None), b'{"keytype":"MODE","magic":0}', None),
    "subject deleted": (
        records.delete_subject_entry("a", 4),
        b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}',
        b'{"subject":"a","version":4}',
    ),
    "subject cleared": (
        records.clear_subject_entry("a"),
        b'{"keytype":"CLEAR_SUBJECT","subject":"a","magic":0}',
        b'{"subject":"a"}',
    ),
    "context": (
        records.context_entry(".c"),
        b'{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}',
        b'{"tenant":"default","context":".c"}',
    ),
    "largest ids": (
        records.noop_entry({".c": 2, ".": 9}),
        b'{"keytype":"NOOP","magic":0}',
        b'{"moldauMaxIds":{".":9,".c":2}}',
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_records_have_the_bytes_of_confluents_registry(case: tuple[records.Entry, bytes, bytes | None]) -> None:
    entry, key, value = case
    assert entry == (key, value)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_record_is_read_as_it_was_meant(case: tuple[records.Entry, bytes, bytes | None]) -> None:
    (key, value), _, _ = case
    found = read_record(key, value)
    expected = {
        records.schema_entry(STORED): SchemaRecord("orders-value", 2, STORED),
        records.tombstone("a", 3): SchemaRecord("a", 3, None),
        records.config_entry(None, {"compatibilityLevel": "NONE"}): ConfigRecord(None, {"compatibilityLevel": "NONE"}),
        records.mode_entry(":.c:", "IMPORT"): ModeRecord(":.c:", "IMPORT"),
        records.mode_entry(None, None): ModeRecord(None, None),
        records.delete_subject_entry("a", 4): DeleteSubjectRecord("a", 4),
        records.clear_subject_entry("a"): ClearSubjectRecord("a"),
        records.context_entry(".c"): ContextRecord(".c", True),
        records.noop_entry({".c": 2, ".": 9}): NoopRecord({".": 9, ".c": 2}),
    }
    assert found is not None
    assert expected.get((key, value), found) == found


def test_records_of_older_registries_are_read() -> None:
    key = b'{"magic":0,"keytype":"CONFIG","subject":null}'
    assert read_record(key, b'{"compatibilityLevel":"FULL"}') == ConfigRecord(None, {"compatibilityLevel": "FULL"})
    found = read_record(
        b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":0}',
        b'{"subject":"a","version":1,"id":3,"schema":"\\"int\\""}',
    )
    assert found == SchemaRecord("a", 1, StoredSchema("a", 1, 3, Schema('"int"')))
    assert read_record(b'{"keytype":"NOOP","magic":0}', None) == NoopRecord({})


def test_what_newer_registries_add_is_ignored() -> None:
    added = b'{"subject":"a","version":1,"id":3,"schema":"\\"int\\"","deleted":false,"offset":7,"ts":1700000000000}'
    found = read_record(b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', added)
    assert found == SchemaRecord("a", 1, StoredSchema("a", 1, 3, Schema('"int"')))
    assert read_record(b'{"keytype":"ASSOC","tenant":"default","magic":0}', b"{}") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"", b"{}"),
        (b"[]", b"{}"),
        (b"\xff", b"{}"),
        (b"{}", b"{}"),
        (b'{"keytype":"SCHEMA","subject":"a"}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', b"not JSON"),
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', b'{"id":1}'),
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', b'{"id":1,"schema":"x","schemaType":"XML"}'),
        (b'{"keytype":"MODE","subject":"a"}', b"[1]"),
        (b'{"keytype":"DELETE_SUBJECT","subject":"a"}', b"{}"),
    ],
)
def test_a_record_of_another_format_is_an_error(key: bytes | None, value: bytes) -> None:
    with pytest.raises(RecordError):
        read_record(key, value)
