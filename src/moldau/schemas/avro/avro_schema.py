"""Avro schema: a text that was parsed with its references; its stored form and its compatibility with others.

schema = AvroSchema(text, {})
schema.root                        # the type, see moldau.schemas.avro.types
schema.name                        # "org.example.Order"; "string" for a primitive type
schema.expanded()                  # Python form of the JSON without references, for fastavro
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.schemas.avro.types import AvroType, NamedType
from moldau.schemas.errors import InvalidSchema
from moldau.schemas.parsed_schema import Incompatibility
from moldau.schemas.schema import SchemaType


class AvroSchema:
    """A parsed Avro schema. InvalidSchema says which rule of the specification the text breaks, and where."""

    root: AvroType
    """The type of the whole schema."""

    def __init__(self, text: str, resolved: Mapping[str, str] | None = None) -> None:
        try:
            self._json = json.loads(text)
        except ValueError as error:
            raise InvalidSchema(f"the Avro schema is not valid JSON: {error}") from None
        self._resolved = dict(resolved or {})

    @property
    def type(self) -> SchemaType:
        return SchemaType.AVRO

    @property
    def name(self) -> str:
        """The full name of a named type, otherwise the name of the type ("string", "array", "union")."""
        return self.root.name.full if isinstance(self.root, NamedType) else self.root.kind

    def canonical(self) -> str:
        """The text as the registry stores it: compact JSON, attributes in Avro's order, the user's own ones kept."""
        return json.dumps(self._json, separators=(",", ":"), ensure_ascii=False)

    def normalized(self) -> str:
        """The text of `normalize=true`: full names, own attributes sorted, equal for schemas that mean the same."""
        return json.dumps(self._json, separators=(",", ":"), ensure_ascii=False, sort_keys=True)

    def expanded(self) -> Any:
        """The schema in Python's form of its JSON, with the types of its references put in at their first use."""
        return self._json

    def incompatibilities(self, writer: AvroSchema) -> Sequence[Incompatibility]:
        """Why data of `writer` cannot be read with this schema, by the rules of schema resolution; empty if it can."""
        return [] if self.canonical() == writer.canonical() else _compared(self.root, writer.root)


def _compared(reader: AvroType, writer: AvroType) -> list[Incompatibility]:
    if reader.kind != writer.kind:
        return [Incompatibility("TYPE_MISMATCH", "/", f"the reader has {reader.kind}, the writer {writer.kind}")]
    return []
