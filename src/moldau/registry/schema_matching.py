"""Matching of a schema with the versions of a subject, to find one that is registered already.

A schema matches a version if text, references, metadata and rules are equal in their stored form. A schema that is
sent without metadata or rules also matches a version that took them from the version before it or from the config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from moldau.registry.config_scopes import ConfigScopes
from moldau.registry.records import StoredSchema
from moldau.registry.registry import NewSchema
from moldau.registry.schema_fingerprint import fingerprint
from moldau.registry.schema_metadata import (
    VERSION_PROPERTY,
    merged_metadata,
    merged_rule_set,
    property_of,
    with_version,
    without_version,
)
from moldau.registry.schema_parsing import SchemaParsing
from moldau.registry.schema_store import SchemaStore
from moldau.registry.subject_names import context_of
from moldau.schemas.schema import Schema


class SchemaMatching:
    """The matching in one store. Subjects are given as they are stored."""

    def __init__(self, store: SchemaStore, parsing: SchemaParsing, scopes: ConfigScopes) -> None:
        self._store = store
        self._parsing = parsing
        self._scopes = scopes

    def lookup(self, subject: str, new: NewSchema, *, normalize: bool, deleted: bool) -> StoredSchema | None:
        """The version of the subject that has the schema. RegistryRefusal 42201 if it is no valid schema."""
        config = self._scopes.config_of(subject)
        normalize = normalize or bool(config.get("normalize"))
        schema = self._parsing.stored_form(new, subject, normalize=normalize)
        found = self.version_of(subject, schema, deleted=deleted)
        latest = self._store.latest(subject)
        if found is not None or latest is None:
            return found
        completed = complete(schema, config, latest.schema)
        return None if completed == schema else self.version_of(subject, completed, deleted=deleted)

    def version_of(self, subject: str, schema: Schema, *, deleted: bool) -> StoredSchema | None:
        """The newest version of the subject with exactly this schema, but for the version in its metadata."""
        known = self._store.of_fingerprint(context_of(subject), fingerprint(schema))
        usable = [one for one in known if one.subject == subject and (deleted or not one.deleted)]
        if usable:
            return max(usable, key=lambda one: one.version)
        if property_of(schema.metadata, VERSION_PROPERTY) is not None:
            return None
        for one in reversed(self._store.versions(subject)):
            tagged = property_of(one.schema.metadata, VERSION_PROPERTY) is not None
            if tagged and (deleted or not one.deleted) and _untagged(one.schema) == _untagged(schema):
                return one
        return None


def complete(schema: Schema, config: Mapping[str, Any], before: Schema | None) -> Schema:
    """The schema with the metadata and rules that it takes from the version before it and from the config."""
    metadata, rules = schema.metadata, schema.rule_set
    if before is not None:
        metadata = before.metadata if metadata is None else metadata
        rules = before.rule_set if rules is None else rules
    metadata = merged_metadata(config.get("defaultMetadata"), metadata)
    metadata = merged_metadata(metadata, config.get("overrideMetadata"))
    rules = merged_rule_set(config.get("defaultRuleSet"), rules)
    rules = merged_rule_set(rules, config.get("overrideRuleSet"))
    return replace(schema, metadata=metadata, rule_set=rules)


def tag_version(schema: Schema, version: int, *, always: bool) -> Schema:
    """The schema with its version in its metadata, if that is asked for or the metadata has one already."""
    if not always and property_of(schema.metadata, VERSION_PROPERTY) is None:
        return schema
    return replace(schema, metadata=with_version(schema.metadata, version))


def _untagged(schema: Schema) -> tuple[object, ...]:
    return schema.type, schema.text, schema.references, without_version(schema.metadata) or None, schema.rule_set
