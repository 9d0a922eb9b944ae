"""Logs of registries in tests: compaction, and the state in a form that can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moldau.registry.records import Entry
from moldau.registry.stored_registry import MemoryRegistry


def compacted(entries: Iterable[Entry]) -> list[Entry]:
    """What compaction leaves of a log in the end: the newest record of each key, without tombstones."""
    newest: dict[bytes, bytes | None] = {}
    for key, value in entries:
        newest.pop(key, None)  # the newest record keeps its place in the log
        newest[key] = value
    return [(key, value) for key, value in newest.items() if value is not None]


def state_of(registry: MemoryRegistry) -> dict[str, Any]:
    """Everything that requests can see."""
    store = registry.store
    return {
        "versions": [
            (one.subject, one.version, one.id, one.schema, one.deleted)
            for subject in store.subjects()
            for one in store.versions(subject)
        ],
        "referrers": {
            (one.subject, one.version): registry.referenced_by(one.subject, one.version, deleted=True)
            for subject in store.subjects()
            for one in store.versions(subject)
        },
        "max ids": store.max_ids(),
        "configs": dict(store.configs),
        "modes": dict(store.modes),
        "contexts": store.context_names(),
    }
