"""Configs and modes in their scopes: what counts for a subject.

A subject's own comes first, then that of its context (for the default context: the global one), then that of
`:.__GLOBAL:`, then the default of the registry's settings. A mode READONLY_OVERRIDE counts for everything below it.
"""

from __future__ import annotations

from typing import Any, Final

from moldau.registry.schema_store import SchemaStore
from moldau.registry.subject_names import GLOBAL_SCOPE, beside, parse_subject
from moldau.schemas.compatibility import CompatibilityLevel

READ_WRITE: Final = "READWRITE"
READ_ONLY_OVERRIDE: Final = "READONLY_OVERRIDE"
IMPORT: Final = "IMPORT"
FORWARD: Final = "FORWARD"
READ_ONLY_MODES: Final = frozenset({"READONLY", READ_ONLY_OVERRIDE})
IMPORT_MODES: Final = frozenset({IMPORT, FORWARD})
MODES: Final = frozenset({READ_WRITE, IMPORT, FORWARD, *READ_ONLY_MODES})
LEVEL: Final = "compatibilityLevel"
INHERITED: Final = (
    "normalize",
    "validateFields",
    "validateNewSchemas",
    "validateRules",
    "compatibilityPolicy",
    "compatibilityGroup",
)
"""Fields that a subject's config takes from the global one, if it has none itself."""


class ConfigScopes:
    """The configs and modes of one store. A scope is a key of these (`subject_names.stored_scope`)."""

    def __init__(self, store: SchemaStore, default_level: CompatibilityLevel, default_mode: str = READ_WRITE) -> None:
        self._store = store
        self._default_level = default_level
        self._default_mode = default_mode

    def own_config(self, scope: str | None) -> dict[str, Any] | None:
        """The config of the scope alone; the global one always exists."""
        found = self._store.configs.get(scope)
        if found is None:
            return {LEVEL: self._default_level.value} if scope in (None, GLOBAL_SCOPE) else None
        return {LEVEL: self._default_level.value, **found}

    def config_of(self, scope: str | None) -> dict[str, Any]:
        """The config that counts for the scope."""
        own = self._store.configs.get(scope)
        above = next((found for one in _above(scope) if (found := self._store.configs.get(one)) is not None), {})
        if own is None:
            return {LEVEL: self._default_level.value, **above}
        inherited = {name: above[name] for name in INHERITED if name in above}
        return {LEVEL: above.get(LEVEL, self._default_level.value), **inherited, **own}

    def own_mode(self, scope: str | None) -> str | None:
        found = self._store.modes.get(scope)
        return self._default_mode if found is None and scope in (None, GLOBAL_SCOPE) else found

    def mode_of(self, scope: str | None) -> str:
        """The mode that counts for the scope."""
        found = [mode for one in (scope, *_above(scope)) if (mode := self._store.modes.get(one)) is not None]
        if READ_ONLY_OVERRIDE in found:
            return READ_ONLY_OVERRIDE
        return found[0] if found else self._default_mode

    def behind_alias(self, subject: str) -> str:
        """The subject that an alias in the config of this one names; otherwise the subject itself."""
        alias = (self._store.configs.get(subject) or {}).get("alias")
        return beside(alias, subject) if alias else subject

    def aliases(self) -> dict[str, list[str]]:
        """The subjects whose alias is a subject, by that subject."""
        found: dict[str, list[str]] = {}
        for scope, config in self._store.configs.items():
            if scope is not None and config.get("alias"):
                found.setdefault(beside(config["alias"], scope), []).append(scope)
        return found


def _above(scope: str | None) -> list[str | None]:
    """The scopes above this one, the nearest first."""
    if scope is None:
        return [GLOBAL_SCOPE]
    named = parse_subject(scope)
    context = named.scope or None
    return [*([context] if named.name else []), GLOBAL_SCOPE]
