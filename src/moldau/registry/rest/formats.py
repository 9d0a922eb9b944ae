"""Output formats of schemas: the query parameter `format`, and references with their context."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from moldau.registry.registry import ListedSchema, Registry
from moldau.registry.rest.paths import QUALIFIED
from moldau.schemas.schema import SchemaReference, SchemaType

RESOLVED: Final = "resolved"
SERIALIZED: Final = "serialized"
QUALIFIED_REFERENCES: Final = "qualified"


def formatted(registry: Registry, listed: ListedSchema, format_: str) -> str:
    """The text of a schema in the format that was asked for. One that its type does not have is ignored.

    `resolved`: an Avro schema with its references put in. `serialized`: the descriptor of a Protobuf file in base64.
    """
    schema = listed.registered.schema
    if format_ == RESOLVED and schema.type is SchemaType.AVRO:
        from moldau.schemas.avro.avro_schema import AvroSchema

        avro = AvroSchema(schema.text, registry.resolved(schema, listed.registered.subject or ""))
        return json.dumps(avro.expanded(), separators=(",", ":"), ensure_ascii=False)
    if format_ == SERIALIZED and schema.type is SchemaType.PROTOBUF:
        from moldau.schemas.protobuf.protobuf_schema import ProtobufSchema

        return ProtobufSchema(schema.text, registry.resolved(schema, listed.registered.subject or "")).serialized
    return schema.text


def references_of(listed: ListedSchema, reference_format: str) -> Sequence[SchemaReference]:
    """The references; with `qualified`, those of a schema in a context name that context."""
    references = listed.registered.schema.references
    subject = listed.registered.subject or ""
    if reference_format != QUALIFIED_REFERENCES or not subject.startswith(":."):
        return references
    prefix = subject[: subject.index(":", 1) + 1]
    return [
        one if one.subject.startswith(QUALIFIED) else SchemaReference(one.name, prefix + one.subject, one.version)
        for one in references
    ]
