"""Reads of the registry: what each request sees of the state. They never wait and change nothing.

A subject without a context that is not found in the default one is looked for in the other contexts, as in Confluent's
registry. A subject whose config has an `alias` stands for that other subject.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from moldau.registry.compatibility_check import CompatibilityCheck
from moldau.registry.config_scopes import ConfigScopes
from moldau.registry.records import StoredSchema
from moldau.registry.refusals import (
    config_not_found,
    invalid_version,
    mode_not_found,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from moldau.registry.registry import ListedSchema, NewSchema, SubjectVersion
from moldau.registry.schema_fingerprint import fingerprint, fingerprint_of_guid, guid_of
from moldau.registry.schema_matching import SchemaMatching
from moldau.registry.schema_metadata import has_rule_of
from moldau.registry.schema_parsing import SchemaParsing
from moldau.registry.schema_store import SchemaStore
from moldau.registry.subject_names import (
    ALL_CONTEXTS,
    DEFAULT_CONTEXT,
    SubjectName,
    context_of,
    parse_subject,
    stored_name,
    stored_scope,
)
from moldau.schemas.compatibility import CompatibilityLevel
from moldau.schemas.schema import RegisteredSchema, Schema, SchemaType

LATEST: Final = -1
MAX_VERSION: Final = 2**31 - 1


def listed(stored: StoredSchema) -> ListedSchema:
    """A stored version as the answers show it."""
    guid = guid_of(fingerprint(stored.schema))
    registered = RegisteredSchema(stored.id, stored.schema, stored.subject, stored.version, guid)
    return ListedSchema(registered, guid, stored.deleted)


def version_number(version: int | str) -> int:
    """The number of a version, LATEST for the newest. RegistryRefusal 42202."""
    if version == "latest":
        return LATEST
    try:
        number = int(version)
    except ValueError:
        raise invalid_version(version) from None
    if number == LATEST or 1 <= number <= MAX_VERSION:
        return number
    raise invalid_version(version)


class Lookups:
    """The reads of one store."""

    def __init__(self, store: SchemaStore, default_level: CompatibilityLevel, default_mode: str) -> None:
        self.store = store
        self.parsing = SchemaParsing(store)
        self.scopes = ConfigScopes(store, default_level, default_mode)
        self.matching = SchemaMatching(store, self.parsing, self.scopes)
        self.compatibility = CompatibilityCheck(self.parsing)

    # -- schemas -------------------------------------------------------------------------------------------------------

    def schema_types(self) -> list[str]:
        return [one.value for one in (SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF)]

    def by_id(self, schema_id: int, subject: str | None = None) -> ListedSchema:
        return listed(self._holders(schema_id, subject)[0])

    def _holders(self, schema_id: int, subject: str | None) -> list[StoredSchema]:
        """The versions of an id in the context that the subject means; that subject's own come first."""
        named = parse_subject(subject or "")
        own = self.store.of_id(named.context, schema_id)
        if not named.name:
            found = own
        elif found := [one for one in own if one.subject == named.text]:
            found += [one for one in own if one.subject != named.text]
        elif named.context == DEFAULT_CONTEXT:
            found = self._holders_elsewhere(schema_id, named.name) or own
        if not found:
            raise schema_not_found(schema_id)
        return found

    def _holders_elsewhere(self, schema_id: int, name: str) -> list[StoredSchema]:
        for context in sorted(self.store.contexts):
            found = self.store.of_id(context, schema_id)
            if any(one.subject == SubjectName(context, name).text for one in found):
                return found
        return []

    def by_guid(self, guid: str) -> ListedSchema:
        found = self._of_guid(guid)
        if not found:
            raise schema_not_found(guid)
        return listed(found[0])

    def ids_of_guid(self, guid: str) -> list[tuple[str, int]]:
        return list(dict.fromkeys((context_of(one.subject), one.id) for one in self._of_guid(guid)))

    def _of_guid(self, guid: str) -> list[StoredSchema]:
        wanted = fingerprint_of_guid(guid)
        if wanted is None:
            return []
        return [one for context in self.store.context_names() for one in self.store.of_fingerprint(context, wanted)]

    def max_id(self, subject: str | None = None) -> int:
        return self.store.max_id(context_of(subject or ""))

    def subjects_of_id(self, schema_id: int, subject: str | None = None, *, deleted: bool = False) -> list[str]:
        return list(dict.fromkeys(one.subject for one in self.versions_of_id(schema_id, subject, deleted=deleted)))

    def versions_of_id(
        self, schema_id: int, subject: str | None = None, *, deleted: bool = False
    ) -> list[SubjectVersion]:
        found = self._holders(schema_id, subject)
        return [SubjectVersion(one.subject, one.version) for one in found if deleted or not one.deleted]

    def schemas(
        self,
        prefix: str | None = None,
        *,
        deleted: bool = False,
        latest_only: bool = False,
        aliases: bool = False,
        rule_type: str | None = None,
    ) -> Sequence[ListedSchema]:
        found: list[ListedSchema] = []
        named = self.scopes.aliases() if aliases else {}
        for subject in self._subjects(prefix):
            versions = self.store.versions(subject) if deleted else self.store.live(subject)
            found += [
                replace(listed(stored), aliases=tuple(named.get(subject, ())))
                for stored in (versions[-1:] if latest_only else versions)
                if rule_type is None or has_rule_of(stored.schema.rule_set, rule_type)
            ]
        return found

    # -- subjects ------------------------------------------------------------------------------------------------------

    def subjects(self, prefix: str | None = None, *, deleted: bool = False, deleted_only: bool = False) -> list[str]:
        found = []
        for subject in self._subjects(prefix):
            alive = any(not one.deleted for one in self.store.versions(subject))
            if (not alive) if deleted_only else (deleted or alive):
                found.append(subject)
        return found

    def _subjects(self, prefix: str | None) -> Iterator[str]:
        """Subjects of all contexts, or of the one that the prefix names."""
        if prefix is None or prefix == ALL_CONTEXTS:
            return self.store.subjects()
        if prefix.startswith(ALL_CONTEXTS):
            name = prefix.removeprefix(ALL_CONTEXTS)
            return (one for one in self.store.subjects() if parse_subject(one).name.startswith(name))
        return self.store.subjects(prefix)

    def versions(self, subject: str, *, deleted: bool = False, deleted_only: bool = False) -> list[int]:
        named = self.named(subject)
        found = self.store.versions(named)
        if not any(deleted or deleted_only or not one.deleted for one in found):
            raise subject_not_found(subject)
        return [one.version for one in found if (one.deleted if deleted_only else deleted or not one.deleted)]

    def version(self, subject: str, version: int | str, *, deleted: bool = False) -> ListedSchema:
        return listed(self.stored_version(subject, version, deleted=deleted))

    def stored_version(self, subject: str, version: int | str, *, deleted: bool = False) -> StoredSchema:
        """RegistryRefusal 40401, 40402, 42202."""
        number = version_number(version)
        named = self.named(subject)
        for one in self._everywhere(named):
            found = self.store.latest(one) if number == LATEST else self.store.version(one, number)
            if found is not None and (deleted or not found.deleted):
                return found
        if not any(deleted or not one.deleted for one in self.store.versions(named)):
            raise subject_not_found(subject)
        raise version_not_found(number)

    def latest_with_metadata(
        self, subject: str, properties: Mapping[str, str], *, deleted: bool = False
    ) -> ListedSchema:
        named = self.named(subject)
        found = self.store.versions(named) if deleted else self.store.live(named)
        if not found:
            raise subject_not_found(subject)
        for stored in reversed(found):
            own = (stored.schema.metadata or {}).get("properties") or {}
            if own.items() >= properties.items():
                return listed(stored)
        raise schema_not_found()

    def lookup(
        self, subject: str, schema: NewSchema, *, normalize: bool = False, deleted: bool = False
    ) -> ListedSchema:
        named = self.named(subject)
        for one in self._everywhere(named):
            found = self.matching.lookup(one, schema, normalize=normalize, deleted=deleted)
            if found is not None:
                return listed(found)
        if not any(deleted or not one.deleted for one in self.store.versions(named)):
            raise subject_not_found(subject)
        raise schema_not_found()

    def referenced_by(self, subject: str, version: int | str, *, deleted: bool = False) -> list[int]:
        stored = self.stored_version(subject, version, deleted=True)
        found = self.store.referrers(stored.subject, stored.version)
        return sorted({one.id for one in found if deleted or not one.deleted})

    def check(
        self, subject: str, schema: NewSchema, version: int | str | None = None, *, normalize: bool = False
    ) -> list[str]:
        named = self.named(subject)
        number = None if version is None else version_number(version)
        if number is None:
            earlier = self.store.live(named)
        else:
            found = self.store.latest(named) if number == LATEST else self.store.version(named, number)
            earlier = [] if found is None or found.deleted else [found]
            if not earlier and number != LATEST:
                raise (version_not_found(number) if self.store.live(named) else subject_not_found(subject))
        config = self.scopes.config_of(named)
        new = self.parsing.stored_form(schema, named, normalize=normalize or bool(config.get("normalize")))
        return self.compatibility.messages(new, named, earlier, config)

    def resolved(self, schema: Schema, subject: str = "") -> dict[str, str]:
        return self.parsing.resolved(schema, subject)

    def contexts(self) -> list[str]:
        return self.store.context_names()

    # -- configs and modes ---------------------------------------------------------------------------------------------

    def config(self, subject: str | None = None, *, default_to_global: bool = False) -> dict[str, Any]:
        scope = stored_scope(subject)
        found = self.scopes.config_of(scope) if default_to_global else self.scopes.own_config(scope)
        if found is None:
            raise config_not_found(str(subject))
        return found

    def mode(self, subject: str | None = None, *, default_to_global: bool = False) -> str:
        scope = stored_scope(subject)
        found = self.scopes.mode_of(scope) if default_to_global else self.scopes.own_mode(scope)
        if found is None:
            raise mode_not_found(str(subject))
        return found

    # -- names ---------------------------------------------------------------------------------------------------------

    def named(self, subject: str) -> str:
        """The stored name of the subject that a request means: an alias counts."""
        return self.scopes.behind_alias(stored_name(subject))

    def _everywhere(self, subject: str) -> Iterator[str]:
        """The subject itself, and then those of the same name in other contexts, if it names none."""
        yield subject
        named = parse_subject(subject)
        if named.context == DEFAULT_CONTEXT and named.name:
            for context in sorted(self.store.contexts):
                yield SubjectName(context, named.name).text
