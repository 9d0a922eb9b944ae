"""Check of a new schema against earlier versions, with messages that name version, rule, place and reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.registry.config_scopes import LEVEL
from moldau.registry.records import StoredSchema
from moldau.registry.refusals import invalid_schema
from moldau.registry.schema_metadata import property_of
from moldau.registry.schema_parsing import SchemaParsing
from moldau.schemas.compatibility import CompatibilityLevel, incompatibilities
from moldau.schemas.errors import SchemaError
from moldau.schemas.schema import Schema


class CompatibilityCheck:
    """The check with the parsers of one store."""

    def __init__(self, parsing: SchemaParsing) -> None:
        self._parsing = parsing

    def messages(
        self, new: Schema, subject: str, earlier: Sequence[StoredSchema], config: Mapping[str, Any]
    ) -> list[str]:
        """Why the schema may not follow these versions (oldest first); empty if it may."""
        level = CompatibilityLevel(config[LEVEL])
        if level is CompatibilityLevel.NONE:
            return []
        group = config.get("compatibilityGroup")
        if group:
            own = property_of(new.metadata, group)
            earlier = [one for one in earlier if property_of(one.schema.metadata, group) == own]
        compared = list(reversed(earlier)) if level.is_transitive else list(earlier[-1:])
        for old in compared:
            found = self._between(new, subject, old, level)
            if found:
                return [*found, f"{{oldSchemaVersion: {old.version}}}", f"{{compatibility: '{level}'}}"]
        return []

    def _between(self, new: Schema, subject: str, old: StoredSchema, level: CompatibilityLevel) -> list[str]:
        if (new.type, new.text, new.references) == (old.schema.type, old.schema.text, old.schema.references):
            return []
        try:
            parsed = self._parsing.parsed(new, subject)
            before = self._parsing.parsed(old.schema, old.subject, strict=False)
            found = incompatibilities(parsed, [before], level)
        except (SchemaError, RecursionError) as error:
            raise invalid_schema(f"The schema cannot be compared with version {old.version}: {error}") from error
        return [
            f"{{errorType:'{one.kind}', description:'{one.message}', additionalInfo:'{one.path}'}}" for one in found
        ]
