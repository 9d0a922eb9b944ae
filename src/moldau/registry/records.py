"""Records of the topic `_schemas`, in the JSON that Confluent's registry writes and reads.

    key    {"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}
    value  {"subject":"orders-value","version":1,"id":7,"schemaType":"AVRO","schema":"…","deleted":false}

Fields are in Confluent's order and empty ones are left out, so that a key has one form only and compaction finds it.
Keys of older versions (another order, `"subject":null`) are read too. Unknown fields of values are ignored.

NOOP is Confluent's mark that a leader has begun; its value is empty there, and ignored. Here it holds the largest ids
that were given: without it, an id whose schema was deleted permanently could be given again after compaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.registry.subject_names import DEFAULT_CONTEXT
from moldau.schemas.schema import Schema, SchemaReference, SchemaType

DEFAULT_TENANT: Final = "default"
MAX_IDS: Final = "moldauMaxIds"
CONFIG_FIELDS: Final = (
    "alias",
    "aliasForDeks",
    "normalize",
    "validateFields",
    "validateNewSchemas",
    "validateRules",
    "compatibilityLevel",
    "compatibilityPolicy",
    "compatibilityGroup",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)
"""The fields of a config, in the order in which they are stored."""

Entry = tuple[bytes, bytes | None]
"""A record to write: key, and value or None (tombstone)."""


class RecordError(ValueError):
    """A record that is not of the registry's format."""


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """One version of a subject as it is stored."""

    subject: str
    version: int
    id: int
    schema: Schema
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class SchemaRecord:
    """A version was registered or deleted softly; None: it was deleted permanently."""

    subject: str
    version: int
    stored: StoredSchema | None


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """The config of a subject, a context or (None) the default context was set or deleted."""

    scope: str | None
    config: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ModeRecord:
    """The mode of the same."""

    scope: str | None
    mode: str | None


@dataclass(frozen=True, slots=True)
class DeleteSubjectRecord:
    """All versions of a subject up to this one were deleted softly."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class ClearSubjectRecord:
    """What was deleted softly of a subject or context is forgotten (it was deleted permanently)."""

    scope: str | None


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """A context was created or deleted."""

    context: str
    exists: bool


@dataclass(frozen=True, slots=True)
class NoopRecord:
    """The largest id of each context; empty in records of Confluent's registry."""

    max_ids: Mapping[str, int]


RegistryRecord = (
    SchemaRecord | ConfigRecord | ModeRecord | DeleteSubjectRecord | ClearSubjectRecord | ContextRecord | NoopRecord
)


# -- writing ---------------------------------------------------------------------------------------------------------


def schema_entry(stored: StoredSchema) -> Entry:
    schema = stored.schema
    value: dict[str, Any] = {
        **({"subject": stored.subject} if stored.subject else {}),
        "version": stored.version,
        "id": stored.id,
        "schemaType": schema.type.value,
    }
    if schema.references:
        value["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references
        ]
    if schema.metadata is not None:
        value["metadata"] = schema.metadata
    if schema.rule_set is not None:
        value["ruleSet"] = schema.rule_set
    value |= {"schema": schema.text, "deleted": stored.deleted}
    return _schema_key(stored.subject, stored.version), _json(value)


def tombstone(subject: str, version: int) -> Entry:
    return _schema_key(subject, version), None


def config_entry(scope: str | None, config: Mapping[str, Any] | None) -> Entry:
    key = _scope_key("CONFIG", scope)
    if config is None:
        return key, None
    ordered = {name: config[name] for name in CONFIG_FIELDS if config.get(name) not in (None, "")}
    return key, _json({**({"subject": scope} if scope else {}), **ordered})


def mode_entry(scope: str | None, mode: str | None) -> Entry:
    key = _scope_key("MODE", scope)
    return key, None if mode is None else _json({**({"subject": scope} if scope else {}), "mode": mode})


def delete_subject_entry(subject: str, version: int) -> Entry:
    return _scope_key("DELETE_SUBJECT", subject), _json({"subject": subject, "version": version})


def clear_subject_entry(scope: str | None) -> Entry:
    return _scope_key("CLEAR_SUBJECT", scope), _json({"subject": scope} if scope else {})


def context_entry(context: str, *, exists: bool = True) -> Entry:
    named = {"tenant": DEFAULT_TENANT, "context": context}
    return _json({"keytype": "CONTEXT", **named, "magic": 0}), _json(named) if exists else None


def noop_entry(max_ids: Mapping[str, int]) -> Entry:
    return _json({"keytype": "NOOP", "magic": 0}), _json({MAX_IDS: dict(sorted(max_ids.items()))})


def _schema_key(subject: str, version: int) -> bytes:
    named = {"subject": subject} if subject else {}
    return _json({"keytype": "SCHEMA", **named, "version": version, "magic": 1})


def _scope_key(kind: str, scope: str | None) -> bytes:
    return _json({"keytype": kind, **({"subject": scope} if scope else {}), "magic": 0})


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


# -- reading ---------------------------------------------------------------------------------------------------------


def read_record(key: bytes | None, value: bytes | None) -> RegistryRecord | None:
    """The record of a key and value; None for a type that this registry does not have. Raises RecordError."""
    try:
        named = _object(key)
        found = None if value is None else _object(value)
        return _record(named, found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"the record with key {key!r} is not of the registry's format: {error!r}") from error


def _record(key: Mapping[str, Any], value: Mapping[str, Any] | None) -> RegistryRecord | None:
    scope = key.get("subject") or None
    match key["keytype"]:
        case "SCHEMA":
            subject, version = scope or "", int(key["version"])
            return SchemaRecord(subject, version, None if value is None else _stored(subject, version, value))
        case "CONFIG":
            return ConfigRecord(scope, None if value is None else _config(value))
        case "MODE":
            return ModeRecord(scope, None if value is None else str(value["mode"]))
        case "DELETE_SUBJECT" if value is not None:
            return DeleteSubjectRecord(scope or "", int(value["version"]))
        case "CLEAR_SUBJECT" if value is not None:
            return ClearSubjectRecord(scope)
        case "CONTEXT":
            return ContextRecord(str(key.get("context") or DEFAULT_CONTEXT), value is not None)
        case "NOOP":
            return NoopRecord({str(name): int(one) for name, one in ((value or {}).get(MAX_IDS) or {}).items()})
        case _:
            return None


def _stored(subject: str, version: int, value: Mapping[str, Any]) -> StoredSchema:
    schema = Schema(
        value["schema"],
        SchemaType(value.get("schemaType") or SchemaType.AVRO),
        tuple(
            SchemaReference(one["name"], one["subject"], int(one["version"])) for one in value.get("references") or ()
        ),
        value.get("metadata"),
        value.get("ruleSet"),
    )
    return StoredSchema(subject, version, int(value["id"]), schema, bool(value.get("deleted")))


def _config(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value[name] for name in CONFIG_FIELDS if value.get(name) is not None}


def _object(data: bytes | None) -> Mapping[str, Any]:
    found = json.loads(data or b"")
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    return found
