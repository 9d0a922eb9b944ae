"""State of the registry: subjects with versions, ids, references, configs, modes and contexts.

It changes by records only (`apply`), in their order: every registry that has read the topic to the same offset has the
same state. It decides nothing; `lookups.py` and `operations.py` do.

Ids belong to a context: two contexts may have the same id for different schemas. A schema has the same id in all
subjects of its context.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from moldau.host.event_log import event_logger
from moldau.registry.records import (
    ClearSubjectRecord,
    ConfigRecord,
    ContextRecord,
    DeleteSubjectRecord,
    ModeRecord,
    NoopRecord,
    RegistryRecord,
    SchemaRecord,
    StoredSchema,
)
from moldau.registry.schema_fingerprint import fingerprint
from moldau.registry.subject_names import DEFAULT_CONTEXT, beside, context_of, parse_subject

log = event_logger(__name__)

NOTHING: Final[Mapping[int, StoredSchema]] = {}

Version = tuple[str, int]
"""A subject and a version."""


@dataclass(slots=True)
class _Context:
    """The ids of one context."""

    max_id: int = 0
    by_id: dict[int, dict[Version, None]] = field(default_factory=dict)
    """The versions that have the schema of an id, in the order of their registration."""
    by_fingerprint: dict[bytes, dict[Version, None]] = field(default_factory=dict)
    """The same, by the content of the schema. An import may give one content two ids."""


class SchemaStore:
    """The state. Subjects are given as they are stored (`subject_names.stored_name`)."""

    def __init__(self) -> None:
        self.configs: dict[str | None, Mapping[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self.contexts: set[str] = set()
        """Contexts beside the default one."""
        self.removals = 0
        """How many versions were removed: a text that was parsed with references may mean something else then."""
        self._subjects: dict[str, dict[int, StoredSchema]] = {}
        self._ids: defaultdict[str, _Context] = defaultdict(_Context)
        self._referrers: defaultdict[Version, dict[Version, None]] = defaultdict(dict)
        self._sorted: list[str] | None = None

    # -- reads ---------------------------------------------------------------------------------------------------------

    def version(self, subject: str, version: int) -> StoredSchema | None:
        return self._subjects.get(subject, NOTHING).get(version)

    def versions(self, subject: str) -> list[StoredSchema]:
        """All versions, deleted ones too, oldest first."""
        found = self._subjects.get(subject, NOTHING)
        return [found[number] for number in sorted(found)]

    def live(self, subject: str) -> list[StoredSchema]:
        return [one for one in self.versions(subject) if not one.deleted]

    def latest(self, subject: str) -> StoredSchema | None:
        live = self.live(subject)
        return live[-1] if live else None

    def subjects(self, prefix: str | None = None) -> Iterator[str]:
        """Names of subjects with at least one version, deleted or not, in order.

        A prefix is looked for in the context that it names; None: all contexts.
        """
        if self._sorted is None:
            self._sorted = sorted(self._subjects, key=parse_subject)
        if prefix is None:
            return iter(self._sorted)
        wanted = parse_subject(prefix)
        return (one for one in self._sorted if one.startswith(wanted.text) and context_of(one) == wanted.context)

    def of_id(self, context: str, schema_id: int) -> list[StoredSchema]:
        """The versions that have the schema of an id, in the order of their registration."""
        found = self._ids[context].by_id.get(schema_id, ()) if context in self._ids else ()
        return [self._subjects[subject][version] for subject, version in found]

    def of_fingerprint(self, context: str, wanted: bytes) -> list[StoredSchema]:
        """The versions that have a schema with this content, in the order of their registration."""
        found = self._ids[context].by_fingerprint.get(wanted, ()) if context in self._ids else ()
        return [self._subjects[subject][version] for subject, version in found]

    def max_id(self, context: str) -> int:
        return self._ids[context].max_id if context in self._ids else 0

    def max_ids(self) -> dict[str, int]:
        return {name: one.max_id for name, one in self._ids.items() if one.max_id}

    def referrers(self, subject: str, version: int) -> list[StoredSchema]:
        """Versions, deleted ones too, that refer to this one."""
        found = self._referrers.get((subject, version), {})
        return [self._subjects[one][number] for one, number in found]

    def context_names(self) -> list[str]:
        """The default context first."""
        return [DEFAULT_CONTEXT, *sorted(self.contexts)]

    # -- changes -------------------------------------------------------------------------------------------------------

    def apply(self, record: RegistryRecord) -> None:
        match record:
            case SchemaRecord(subject, version, None):
                self._remove(subject, version)
            case SchemaRecord(_, _, stored):
                assert stored is not None
                self._put(stored)
            case ConfigRecord(scope, config):
                _put_or_drop(self.configs, scope, config)
            case ModeRecord(scope, mode):
                _put_or_drop(self.modes, scope, mode)
            case DeleteSubjectRecord(subject, version):
                self._delete(subject, version)
            case ClearSubjectRecord(scope):
                self._clear(scope)
            case ContextRecord(context, exists):
                (self.contexts.add if exists else self.contexts.discard)(context)
            case NoopRecord(max_ids):
                for context, largest in max_ids.items():
                    self._ids[context].max_id = max(self._ids[context].max_id, largest)

    def _put(self, stored: StoredSchema) -> None:
        context = self._ids[context_of(stored.subject)]
        holders = self.of_id(context_of(stored.subject), stored.id)
        if holders and holders[0].schema.text != stored.schema.text:
            # Confluent's registry ignores it too: consumers rely on an id having one meaning for ever.
            facts = {"id": stored.id, "subject": stored.subject, "version": stored.version}
            log.error("record ignored: its id belongs to another schema", extra=facts)
            return
        if stored.version in self._subjects.get(stored.subject, NOTHING):
            self._forget(stored.subject, stored.version)
        if stored.subject not in self._subjects:
            self._subjects[stored.subject] = {}
            self._sorted = None
        self._subjects[stored.subject][stored.version] = stored
        key = (stored.subject, stored.version)
        context.max_id = max(context.max_id, stored.id)
        context.by_id.setdefault(stored.id, {})[key] = None
        context.by_fingerprint.setdefault(fingerprint(stored.schema), {})[key] = None
        for one in stored.schema.references:
            self._referrers[beside(one.subject, stored.subject), one.version][key] = None

    def _remove(self, subject: str, version: int) -> None:
        if version not in self._subjects.get(subject, NOTHING):
            return
        self._forget(subject, version)
        if not self._subjects[subject]:
            del self._subjects[subject]
            self._sorted = None
        self.removals += 1

    def _forget(self, subject: str, version: int) -> None:
        """Take a version out of all indexes. The largest id stays."""
        stored = self._subjects[subject].pop(version)
        key = (subject, version)
        context = self._ids[context_of(subject)]
        _take_out(context.by_id, stored.id, key)
        _take_out(context.by_fingerprint, fingerprint(stored.schema), key)
        for target in {(beside(one.subject, subject), one.version) for one in stored.schema.references}:
            _take_out(self._referrers, target, key)

    def _delete(self, subject: str, up_to: int) -> None:
        versions = self._subjects.get(subject, {})
        for number, stored in versions.items():
            if number <= up_to and not stored.deleted:
                versions[number] = replace(stored, deleted=True)

    def _clear(self, scope: str | None) -> None:
        wanted = parse_subject(scope or "")
        for subject in list(self.subjects(wanted.scope)):
            if not wanted.name or subject == wanted.text:
                for stored in self.versions(subject):
                    if stored.deleted:
                        self._remove(subject, stored.version)


def _take_out(index: dict[Any, dict[Version, None]], name: object, key: Version) -> None:
    del index[name][key]
    if not index[name]:
        del index[name]


def _put_or_drop(table: dict[str | None, Any], scope: str | None, value: Any) -> None:
    if value is None:
        table.pop(scope, None)
    else:
        table[scope] = value
