"""Writes of the registry, as decisions: state and request → records to write and the answer, or a refusal.

Nothing is written here, and the state does not change: the caller writes the records in one transaction, and the state
follows when they are read back. Decisions are made one after another, each on the state after the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from moldau.registry.config_scopes import FORWARD, IMPORT, IMPORT_MODES, LEVEL, MODES, READ_ONLY_MODES, READ_WRITE
from moldau.registry.lookups import LATEST, Lookups, listed, version_number
from moldau.registry.records import (
    CONFIG_FIELDS,
    Entry,
    StoredSchema,
    clear_subject_entry,
    config_entry,
    context_entry,
    delete_subject_entry,
    mode_entry,
    noop_entry,
    schema_entry,
    tombstone,
)
from moldau.registry.refusals import (
    RegistryRefusal,
    context_not_empty,
    incompatible,
    invalid_level,
    invalid_mode,
    invalid_schema,
    invalid_subject,
    not_permitted,
    reference_exists,
    schema_too_large,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from moldau.registry.registry import ListedSchema, NewSchema
from moldau.registry.schema_fingerprint import fingerprint
from moldau.registry.schema_matching import complete, tag_version
from moldau.registry.schema_metadata import stored_metadata, stored_rule_set
from moldau.registry.subject_names import (
    DEFAULT_CONTEXT,
    GLOBAL_SCOPE,
    context_of,
    is_valid_scope,
    is_valid_subject,
    parse_subject,
    stored_name,
    stored_scope,
)
from moldau.schemas.compatibility import CompatibilityLevel
from moldau.schemas.schema import Schema

MAX_ID: Final = 2**31 - 1
MAX_RECORD_BYTES: Final = 1_000_000
"""The largest record of a schema: a little less than the `max.message.bytes` that topics have by default."""
BOOLEANS: Final = frozenset({"normalize", "validateFields", "validateNewSchemas", "validateRules"})
TEXTS: Final = frozenset({"alias", "aliasForDeks", "compatibilityPolicy", "compatibilityGroup"})
DEFAULTS: Final = frozenset({"defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"})
"""Fields of a config that change what is registered."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class WriteDecision(Generic[Answer]):
    """What a write does: the records, in one transaction, and the answer that is true once they are stored."""

    answer: Answer
    entries: tuple[Entry, ...] = ()


class Operations:
    """The decisions on the state of one registry."""

    def __init__(self, lookups: Lookups, *, mode_changes: bool = True) -> None:
        """`mode_changes`: whether modes may be changed (setting `mode.mutability`)."""
        self._lookups = lookups
        self._store = lookups.store
        self._scopes = lookups.scopes
        self._mode_changes = mode_changes

    # -- register ------------------------------------------------------------------------------------------------------

    def register(
        self, subject: str, new: NewSchema, *, normalize: bool = False, force: bool = False
    ) -> WriteDecision[ListedSchema]:
        if not is_valid_subject(subject):
            raise invalid_subject(subject)
        named = self._lookups.named(subject)
        wanted_id = None if new.id is None or new.id < 0 else new.id
        importing = self._check_register_mode(named, wanted_id)
        if wanted_id is not None and not 1 <= wanted_id <= MAX_ID:
            raise invalid_schema(f"Schema id {wanted_id} is not between 1 and {MAX_ID}")
        config = self._scopes.config_of(named)
        versions = self._store.versions(named)
        live = [one for one in versions if not one.deleted]
        next_version = versions[-1].version + 1 if versions else 1
        found = self._as_sent(named, new, config, normalize, importing)
        schema = self._schema_to_register(named, new, live, config, next_version, normalize, importing)
        if found is None and new.version in (None, 0, -1):
            found = self._lookups.matching.version_of(named, schema, deleted=False)
        if found is not None and wanted_id in (None, found.id):
            return WriteDecision(listed(found))
        if not importing and not force:
            messages = self._lookups.compatibility.messages(schema, named, live, config)
            if messages:
                raise incompatible(
                    "Schema being registered is incompatible with an earlier schema for subject "
                    f'"{named}", details: [{", ".join(messages)}]'
                )
        version = self._version_to_register(new.version, next_version, importing)
        stored = StoredSchema(named, version, self._id_to_register(named, schema, wanted_id), schema)
        return WriteDecision(listed(stored), self._entries_of(stored, versions))

    def _check_register_mode(self, subject: str, wanted_id: int | None) -> bool:
        """Whether schemas are imported. RegistryRefusal 42205."""
        mode = self._scopes.mode_of(subject)
        self._check_writable(subject)
        if wanted_id is not None and mode not in IMPORT_MODES:
            raise not_permitted(f"Subject {subject} is not in import mode, so the registry chooses ids itself")
        if wanted_id is None and mode != READ_WRITE:
            raise not_permitted(f"Subject {subject} is in mode {mode}, not in read-write mode")
        return mode in IMPORT_MODES

    def _check_writable(self, scope: str | None) -> None:
        if self._scopes.mode_of(scope) in READ_ONLY_MODES:
            raise not_permitted(f"{'The registry' if scope is None else f'Subject {scope}'} is in read-only mode")

    def _schema_to_register(
        self,
        subject: str,
        new: NewSchema,
        live: list[StoredSchema],
        config: Mapping[str, Any],
        next_version: int,
        normalize: bool,
        importing: bool,
    ) -> Schema:
        """The schema in its stored form, with what it takes from the version before it and from the config."""
        before = live[-1].schema if live and not importing else None
        if before is not None and not new.text.strip():
            new = replace(new, text=before.text, type=before.type.value, references=before.references)
        normalize = (normalize or bool(config.get("normalize"))) and not importing
        schema = self._lookups.parsing.stored_form(new, subject, normalize=normalize)
        if importing:
            return schema
        return tag_version(complete(schema, config, before), next_version, always=new.version not in (None, 0))

    def _as_sent(
        self, subject: str, new: NewSchema, config: Mapping[str, Any], normalize: bool, importing: bool
    ) -> StoredSchema | None:
        """The version that is registered with exactly what was sent: nothing is taken over or added then."""
        if importing or new.version not in (None, 0, -1) or not new.text.strip() or not DEFAULTS.isdisjoint(config):
            return None
        normalize = normalize or bool(config.get("normalize"))
        schema = self._lookups.parsing.stored_form(new, subject, normalize=normalize)
        found = self._lookups.matching.version_of(subject, schema, deleted=False)
        return found if new.version != -1 or found == self._store.latest(subject) else None

    def _version_to_register(self, wanted: int | None, next_version: int, importing: bool) -> int:
        if wanted is None or wanted <= 0:
            return next_version
        if wanted != next_version and not importing:
            raise invalid_schema(f"Version {wanted} is not one more than the previous version, {next_version - 1}")
        return version_number(wanted)

    def _id_to_register(self, subject: str, schema: Schema, wanted: int | None) -> int:
        context = context_of(subject)
        if wanted is None:
            known = self._store.of_fingerprint(context, fingerprint(schema))
            if known:
                return known[0].id
            if self._store.max_id(context) >= MAX_ID:
                raise not_permitted(f"Context {context} has used all ids up to {MAX_ID}")
            return self._store.max_id(context) + 1
        holders = self._store.of_id(context, wanted)
        if holders and fingerprint(holders[0].schema) != fingerprint(schema):
            raise not_permitted(f"Id {wanted} of context {context} belongs to another schema")
        return wanted

    def _entries_of(self, stored: StoredSchema, versions: list[StoredSchema]) -> tuple[Entry, ...]:
        entries: list[Entry] = []
        context = context_of(stored.subject)
        if any(one.version == stored.version for one in versions):
            entries.append(self._ids_kept())  # an import replaces the version, perhaps one with the largest id
        if context != DEFAULT_CONTEXT and context not in self._store.contexts:
            entries.append(context_entry(context))
        # A deleted version with the same id is removed, unless another schema refers to it by its number.
        entries += [
            tombstone(one.subject, one.version)
            for one in versions
            if one.deleted
            and one.id == stored.id
            and one.version < stored.version
            and not self._store.referrers(one.subject, one.version)
        ]
        key, value = schema_entry(stored)
        size = len(key) + len(value or b"")
        if size > MAX_RECORD_BYTES:
            raise schema_too_large(size, MAX_RECORD_BYTES)
        return (*entries, (key, value))

    # -- delete --------------------------------------------------------------------------------------------------------

    def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> WriteDecision[int]:
        number, named = version_number(version), self._lookups.named(subject)
        if not self._store.versions(named):
            raise subject_not_found(subject)
        stored = self._store.latest(named) if number == LATEST else self._store.version(named, number)
        if stored is None:
            raise version_not_found(number)
        if stored.deleted and not permanent:
            raise version_soft_deleted(subject, stored.version)
        self._check_writable(named)
        self._check_referrers(stored, permanent, within=None)
        if not permanent:
            return WriteDecision(stored.version, (schema_entry(replace(stored, deleted=True)),))
        if not stored.deleted:
            raise version_not_soft_deleted(subject, stored.version)
        last = len(self._store.versions(named)) == 1
        entries = [tombstone(named, stored.version), *(self._settings_removed(named) if last else ())]
        return WriteDecision(stored.version, (self._ids_kept(), *entries))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> WriteDecision[list[int]]:
        named = self._lookups.named(subject)
        versions = self._store.versions(named)
        live = [one for one in versions if not one.deleted]
        if not versions:
            raise subject_not_found(subject)
        if not live and not permanent:
            raise subject_soft_deleted(subject)
        self._check_writable(named)
        doomed = versions if permanent else live
        for one in doomed:
            self._check_referrers(one, permanent, within=named)
        if not permanent:
            return WriteDecision([one.version for one in live], (delete_subject_entry(named, live[-1].version),))
        if live:
            raise subject_not_soft_deleted(subject)
        # Newest first: a version may refer to an earlier one of its own subject.
        entries = [tombstone(named, one.version) for one in reversed(doomed)]
        numbers = [one.version for one in doomed]
        return WriteDecision(numbers, (self._ids_kept(), *entries, *self._settings_removed(named)))

    def _check_referrers(self, stored: StoredSchema, permanent: bool, *, within: str | None) -> None:
        """RegistryRefusal 42206 if schemas of other subjects than `within` refer to the version."""
        for one in self._store.referrers(stored.subject, stored.version):
            if (permanent or not one.deleted) and one.subject != within:
                raise reference_exists(stored.subject, stored.version)

    def _settings_removed(self, subject: str) -> list[Entry]:
        entries = [mode_entry(subject, None)] if subject in self._store.modes else []
        return [*entries, config_entry(subject, None)] if subject in self._store.configs else entries

    def _ids_kept(self) -> Entry:
        """The record that keeps the largest ids when the records that had them go."""
        return noop_entry(self._store.max_ids())

    def delete_context(self, context: str) -> WriteDecision[None]:
        name = context.strip(":") or DEFAULT_CONTEXT
        scope = f":{name}:"
        if name == DEFAULT_CONTEXT or any(self._store.subjects(scope)):
            raise context_not_empty(name)
        if name not in self._store.contexts:
            raise RegistryRefusal(404, 40401, f"Context '{name}' not found.")
        return WriteDecision(None, (self._ids_kept(), context_entry(name, exists=False)))

    # -- configs and modes ---------------------------------------------------------------------------------------------

    def set_config(self, subject: str | None, update: Mapping[str, Any]) -> WriteDecision[dict[str, Any]]:
        scope = self._scope(subject)
        self._check_writable(scope)
        config = dict(self._store.configs.get(scope) or {})
        for name, value in _checked_update(update).items():
            if value is None:
                config.pop(name, None)
            else:
                config[name] = value
        answer = {"compatibility" if name == LEVEL else name: value for name, value in config.items()}
        return WriteDecision(answer, (config_entry(scope, config),))

    def delete_config(self, subject: str | None) -> WriteDecision[dict[str, Any]]:
        scope = self._scope(subject)
        self._check_writable(scope)
        found = self._scopes.own_config(scope)
        if found is None:
            raise subject_not_found(str(subject))
        return WriteDecision(found, (config_entry(scope, None),) if scope in self._store.configs else ())

    def set_mode(self, subject: str | None, mode: str, *, force: bool = False) -> WriteDecision[str]:
        scope = self._scope(subject)
        wanted = mode.upper()
        if wanted not in MODES or (wanted == FORWARD and scope != GLOBAL_SCOPE):
            raise invalid_mode(mode)
        self._check_mode_changes()
        entries: list[Entry] = []
        if wanted == IMPORT and self._scopes.mode_of(scope) != IMPORT and not force:
            entries += self._emptied(scope)
        return WriteDecision(wanted, (*entries, mode_entry(scope, wanted)))

    def delete_mode(self, subject: str | None, *, recursive: bool = False) -> WriteDecision[str | None]:
        scope = self._scope(subject)
        self._check_mode_changes()
        found = self._scopes.own_mode(scope)
        if found is None and not recursive:
            raise subject_not_found(str(subject))
        doomed = [scope] if scope in self._store.modes else []
        named = parse_subject(scope or "")
        if recursive and not named.name:
            inside = [one for one in self._store.modes if one is not None and one not in (scope, GLOBAL_SCOPE)]
            doomed += [one for one in inside if context_of(one) == named.context]
        return WriteDecision(found, tuple(mode_entry(one, None) for one in doomed))

    def _check_mode_changes(self) -> None:
        if not self._mode_changes:
            raise not_permitted("Mode changes are not allowed: mode.mutability is false")

    def _emptied(self, scope: str | None) -> list[Entry]:
        """Records that remove deleted versions before an import. RegistryRefusal 42205 if live ones exist."""
        named = parse_subject(scope or "")
        prefix = None if scope == GLOBAL_SCOPE else named.scope
        subjects = [named.text] if named.name else list(self._store.subjects(prefix))
        versions = [one for subject in subjects for one in self._store.versions(subject)]
        if any(not one.deleted for one in versions):
            raise not_permitted("Cannot import since found existing subjects; delete them, or use force=true")
        for one in versions:
            for referrer in self._store.referrers(one.subject, one.version):
                if referrer.subject not in subjects:
                    raise reference_exists(one.subject, one.version)
        removed = [tombstone(one.subject, one.version) for one in reversed(versions)]
        return [self._ids_kept(), *removed, clear_subject_entry(scope)] if removed else []

    def _scope(self, subject: str | None) -> str | None:
        if subject is not None and not is_valid_scope(subject):
            raise invalid_subject(subject)
        return stored_scope(None if subject is None else stored_name(subject))


def _checked_update(update: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request that changes a config, by their stored names."""
    found: dict[str, Any] = {}
    for name, value in update.items():
        stored = LEVEL if name == "compatibility" else name
        if stored not in CONFIG_FIELDS:
            raise RegistryRefusal(422, 422, f"a config has no field {name!r}")
        found[stored] = None if value is None else _checked_field(stored, value)
    return found


def _checked_field(name: str, value: Any) -> Any:
    if name == LEVEL:
        try:
            return CompatibilityLevel(str(value).upper()).value
        except ValueError:
            raise invalid_level(value) from None
    if name.endswith("Metadata"):
        return stored_metadata(value)
    if name.endswith("RuleSet"):
        return stored_rule_set(value)
    if (name in BOOLEANS and isinstance(value, bool)) or (name in TEXTS and isinstance(value, str)):
        return value
    raise RegistryRefusal(
        422, 422, f"{name} of a config must be {'true or false' if name in BOOLEANS else 'a string'}, not {value!r}"
    )
