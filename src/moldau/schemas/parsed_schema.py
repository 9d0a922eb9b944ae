"""Parsed schema: what each type of schema can do, and the one entry to the three parsers.

parsed = parse(schema, resolved)      # InvalidSchema says what is wrong, and where
parsed.canonical()                    # the text that the registry stores and compares
reader.incompatibilities(writer)      # why data of `writer` cannot be read with `reader`; empty: it can
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from moldau.schemas.schema import Schema, SchemaType


@dataclass(frozen=True)
class Incompatibility:
    """One reason why data of one schema cannot be read with another."""

    kind: str
    """Confluent's name of the rule, for example READER_FIELD_MISSING_DEFAULT_VALUE."""
    path: str
    """The place in the reader's schema, as a JSON pointer ("/fields/2") or the full name of a Protobuf field."""
    message: str
    """A sentence that names the field, the rule and what would help."""


class ParsedSchema(Protocol):
    """A schema that was parsed with its references."""

    @property
    def type(self) -> SchemaType: ...

    def canonical(self) -> str:
        """The text in the form in which the registry stores it: equal for texts that differ in white space only."""
        ...

    def normalized(self) -> str:
        """The text in the form of `normalize=true`: equal for schemas that mean the same."""
        ...

    def incompatibilities(self, writer: Any) -> Sequence[Incompatibility]:
        """Why data that was written with `writer` cannot be read with this schema; empty if it can.

        `writer` is of the same type.
        """
        ...


def parse(schema: Schema, resolved: Mapping[str, str], *, strict: bool = True) -> ParsedSchema:
    """Parse a schema. `resolved` has the text of every reference, also indirect ones, by name, dependencies first.

    `strict=False` is for a schema that is registered already, perhaps by another registry: what is wrong with it but
    does not keep data from being read is accepted.
    """
    match schema.type:
        case SchemaType.AVRO:
            from moldau.schemas.avro.avro_schema import AvroSchema

            return AvroSchema(schema.text, resolved, strict=strict)
        case SchemaType.JSON:
            from moldau.schemas.json_schema.json_schema import JsonSchema

            return JsonSchema(schema.text, resolved)
        case SchemaType.PROTOBUF:
            from moldau.schemas.protobuf.protobuf_schema import ProtobufSchema

            return ProtobufSchema(schema.text, resolved)
