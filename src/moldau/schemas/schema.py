"""Schema: its text with type, references, metadata and rules, as the registry's API knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class SchemaType(StrEnum):
    """The type of a schema, in the registry's words."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True)
class SchemaReference:
    """Another registered schema that a schema uses.

    `name` is what the text calls it: the full name of an Avro type, the path of a Protobuf import, the URL of a `$ref`.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Schema:
    """A schema as it is registered."""

    text: str
    type: SchemaType = SchemaType.AVRO
    references: tuple[SchemaReference, ...] = ()
    metadata: Mapping[str, Any] | None = None
    """`tags`, `properties` and `sensitive`, as in the REST API."""
    rule_set: Mapping[str, Any] | None = None
    """Rules for migration, domain and encoding. They are stored and returned, and not executed."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema of the registry under its id; in a subject also with its version."""

    id: int
    schema: Schema
    subject: str | None = None
    version: int | None = None
    guid: str | None = None
    """The globally unique id, a UUID, of registries that have one. Ids in headers of records are written with it."""
