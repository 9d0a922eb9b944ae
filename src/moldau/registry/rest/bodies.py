"""Bodies of requests and answers: JSON as in Confluent's API, and the registry's own types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from moldau.registry.registry import ListedSchema, NewSchema
from moldau.registry.rest.endpoint import MAX_INT, MIN_INT
from moldau.registry.rest.errors import ApiError
from moldau.schemas.schema import SchemaReference

INVALID_SCHEMA: Final = 42201

Body = dict[str, Any]


def schema_body(listed: ListedSchema, text: str, references: Sequence[SchemaReference] | None = None) -> Body:
    """A schema with its subject, version and id. What is empty is left out, as in Confluent's registry."""
    registered = listed.registered
    schema = registered.schema
    body: Body = {}
    if registered.subject is not None:
        body |= {"subject": registered.subject, "version": registered.version}
    body |= {"id": registered.id, "guid": listed.guid, "schemaType": schema.type.value}
    used = schema.references if references is None else references
    if used:
        body["references"] = [{"name": one.name, "subject": one.subject, "version": one.version} for one in used]
    if schema.metadata:
        body["metadata"] = schema.metadata
    if schema.rule_set:
        body["ruleSet"] = schema.rule_set
    body["schema"] = text
    if listed.deleted:
        body["deleted"] = True
    return body


def new_schema(body: Mapping[str, Any]) -> NewSchema:
    """The schema of a request. Raises ApiError: 42201 names the field that is not as it should be."""
    return NewSchema(
        _text(body, "schema") or "",
        _text(body, "schemaType") or "AVRO",
        tuple(_reference(one) for one in _list(body, "references")),
        _object(body, "metadata"),
        _object(body, "ruleSet"),
        _integer(body, "id"),
        _integer(body, "version"),
    )


def mode_of(body: Mapping[str, Any]) -> str:
    """The mode of a request. Raises ApiError: 42204."""
    mode = body.get("mode")
    if not isinstance(mode, str):
        raise ApiError(422, 42204, 'the body must be {"mode": "READWRITE"}, or another mode')
    return mode


def _wrong(name: str, what: str) -> ApiError:
    return ApiError(422, INVALID_SCHEMA, f"the field {name!r} of the body must be {what}")


def _text(body: Mapping[str, Any], name: str) -> str | None:
    found = body.get(name)
    if found is not None and not isinstance(found, str):
        raise _wrong(name, "a string (a schema is JSON in a string)" if name == "schema" else "a string")
    return found


def _integer(body: Mapping[str, Any], name: str) -> int | None:
    found = body.get(name)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or not MIN_INT <= found <= MAX_INT:
        raise _wrong(name, "a number from -2^31 to 2^31-1")
    return found


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    found = body.get(name)
    if found is not None and not isinstance(found, dict):
        raise _wrong(name, "an object")
    return found


def _list(body: Mapping[str, Any], name: str) -> list[Any]:
    found = body.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise _wrong(name, "a list")
    return found


def _reference(value: Any) -> SchemaReference:
    if not isinstance(value, dict):
        raise _wrong("references", "a list of objects with name, subject and version")
    name, subject, version = _text(value, "name"), _text(value, "subject"), _integer(value, "version")
    if name is None or subject is None or version is None:
        raise _wrong("references", "a list of objects with name, subject and version")
    return SchemaReference(name, subject, version)
