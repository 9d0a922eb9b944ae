"""JSON schemas of the bodies, for the OpenAPI description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Json = Mapping[str, Any]

STRING: Final[Json] = {"type": "string"}
INTEGER: Final[Json] = {"type": "integer", "format": "int32"}
FLAG: Final[Json] = {"type": "boolean"}
ANY_OBJECT: Final[Json] = {"type": "object"}


def reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Json) -> Json:
    return {"type": "array", "items": items}


def _object(required: tuple[str, ...] = (), **properties: Json) -> Json:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


_TYPES: Final[Json] = {"type": "string", "enum": ["AVRO", "JSON", "PROTOBUF"]}
_LEVELS: Final = ["NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"]
_MODES: Final[Json] = {"type": "string", "enum": ["READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD"]}
_CONTENT: Final[Mapping[str, Json]] = {
    "guid": {
        "type": "string",
        "format": "uuid",
        "description": "The identity of the content, equal in all registries.",
    },
    "schemaType": _TYPES,
    "references": array(reference("SchemaReference")),
    "metadata": ANY_OBJECT,
    "ruleSet": ANY_OBJECT,
    "schema": {"type": "string", "description": "The text of the schema."},
    "deleted": FLAG,
}
_CONFIG: Final[Mapping[str, Json]] = {
    "normalize": FLAG,
    "alias": STRING,
    "compatibilityGroup": STRING,
    "defaultMetadata": ANY_OBJECT,
    "overrideMetadata": ANY_OBJECT,
    "defaultRuleSet": ANY_OBJECT,
    "overrideRuleSet": ANY_OBJECT,
}

COMPONENTS: Final[Mapping[str, Json]] = {
    "Error": _object(("error_code", "message"), error_code=INTEGER, message=STRING),
    "SchemaReference": _object(("name", "subject", "version"), name=STRING, subject=STRING, version=INTEGER),
    "NewSchema": _object(
        schema={"type": "string", "description": "The text of the schema; Avro and JSON Schema as JSON in a string."},
        schemaType={**_TYPES, "default": "AVRO"},
        references=array(reference("SchemaReference")),
        metadata=ANY_OBJECT,
        ruleSet=ANY_OBJECT,
        id={**INTEGER, "description": "The id to register under, in mode IMPORT."},
        version={**INTEGER, "description": "The version to register as; without it the next one."},
    ),
    "SchemaString": _object(("schema", "schemaType"), subject=STRING, version=INTEGER, maxId=INTEGER, **_CONTENT),
    "RegisteredVersion": _object(("id",), id=INTEGER, version=INTEGER, **_CONTENT),
    "Schema": _object(
        ("subject", "version", "id", "schema", "schemaType"), subject=STRING, version=INTEGER, id=INTEGER, **_CONTENT
    ),
    "SubjectVersion": _object(("subject", "version"), subject=STRING, version=INTEGER),
    "ContextId": _object(("context", "id"), context=STRING, id=INTEGER),
    "Compatibility": _object(("is_compatible",), is_compatible=FLAG, messages=array(STRING)),
    "Config": _object((), compatibilityLevel={"type": "string", "enum": _LEVELS}, **_CONFIG),
    "ConfigUpdate": _object(
        (),
        compatibility={"type": "string", "enum": [*_LEVELS, None], "nullable": True},
        **{name: {**schema, "nullable": True} for name, schema in _CONFIG.items()},
    ),
    "Mode": _object(("mode",), mode=_MODES),
    "ServerId": _object(("scope", "id"), scope=ANY_OBJECT, id=STRING),
    "ServerVersion": _object(("version", "commitId"), version=STRING, commitId=STRING),
}
