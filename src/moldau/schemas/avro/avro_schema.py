"""Avro schema: a text that was parsed with its references; its stored form and its compatibility with others.

schema = AvroSchema(text, {})
schema.root                        # the type, see moldau.schemas.avro.types
schema.name                        # "org.example.Order"; "string" for a primitive type
schema.expanded()                  # Python form of the JSON without references, for fastavro
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.schemas.avro.schema_json import compact_json
from moldau.schemas.avro.schema_parser import SchemaParser
from moldau.schemas.avro.schema_resolution import reading_problems
from moldau.schemas.avro.schema_text import schema_json
from moldau.schemas.avro.types import AvroType, NamedType
from moldau.schemas.errors import InvalidSchema
from moldau.schemas.parsed_schema import Incompatibility
from moldau.schemas.schema import SchemaType


class AvroSchema:
    """A parsed Avro schema. InvalidSchema says which rule of the specification the text breaks, and where.

    `resolved` has the texts of the references, dependencies first. A schema that exists already is parsed with
    `strict=False`: names with letters of all languages and defaults that do not fit are accepted then.
    """

    root: AvroType
    """The type of the whole schema."""

    def __init__(self, text: str, resolved: Mapping[str, str] | None = None, *, strict: bool = True) -> None:
        parser = SchemaParser(strict=strict)
        for reference, referenced in (resolved or {}).items():
            try:
                parser.parse(referenced)
            except InvalidSchema as error:
                raise InvalidSchema(f"in the referenced schema '{reference}': {error}") from None
        self._referenced = frozenset(parser.names)
        self.root = parser.parse(text)
        self._canonical: str | None = None

    @property
    def type(self) -> SchemaType:
        return SchemaType.AVRO

    @property
    def name(self) -> str:
        """The full name of a named type, otherwise the name of the type ("string", "array", "union")."""
        return self.root.name.full if isinstance(self.root, NamedType) else self.root.kind

    def canonical(self) -> str:
        """The text as the registry stores it: compact JSON, attributes in Avro's order, the user's own ones kept."""
        if self._canonical is None:
            self._canonical = compact_json(self._json(self._referenced))
        return self._canonical

    def normalized(self) -> str:
        """The text of `normalize=true`: own attributes and aliases sorted, defaults in one form, equal names."""
        return compact_json(self._json(self._referenced, normalize=True))

    def expanded(self) -> Any:
        """The schema in Python's form of its JSON, with the types of its references put in at their first use."""
        return self._json(frozenset())

    def _json(self, known: frozenset[str], *, normalize: bool = False) -> Any:
        try:
            return schema_json(self.root, known, normalize=normalize)
        except RecursionError:
            raise InvalidSchema("the schema and its references are nested too deeply") from None

    def incompatibilities(self, writer: AvroSchema) -> Sequence[Incompatibility]:
        """Why data of `writer` cannot be read with this schema, by the rules of schema resolution; empty if it can."""
        return reading_problems(self.root, writer.root)
