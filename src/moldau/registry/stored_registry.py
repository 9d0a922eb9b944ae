"""Registry over a log: reads from the state, writes as decisions that a subclass commits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from moldau.registry.config_scopes import READ_WRITE
from moldau.registry.lookups import Lookups
from moldau.registry.operations import Operations, WriteDecision
from moldau.registry.records import Entry, RecordError, read_record
from moldau.registry.registry import ListedSchema, NewSchema
from moldau.registry.schema_store import SchemaStore
from moldau.schemas.compatibility import CompatibilityLevel

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class RegistryRules:
    """What counts where the stored configs and modes say nothing."""

    level: CompatibilityLevel = CompatibilityLevel.BACKWARD
    mode: str = READ_WRITE
    mode_changes: bool = True
    """Whether modes may be changed (setting `mode.mutability`)."""


class StoredRegistry(Lookups, ABC):
    """A registry whose state is made by the records of a log."""

    def __init__(self, rules: RegistryRules) -> None:
        super().__init__(SchemaStore(), rules.level, rules.mode)
        self._operations = Operations(self, mode_changes=rules.mode_changes)

    @property
    @abstractmethod
    def leads(self) -> bool:
        """Whether this process carries out writes."""

    @abstractmethod
    async def _commit(self, decide: Callable[[], WriteDecision[Answer]]) -> Answer:
        """Decide on the newest state, write the records, and return the answer when they are applied."""

    def _apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply a record of the log. Raises RecordError if it is not of the registry's format."""
        record = read_record(key, value)
        if record is not None:
            self.store.apply(record)

    async def register(
        self, subject: str, schema: NewSchema, *, normalize: bool = False, force: bool = False
    ) -> ListedSchema:
        return await self._commit(lambda: self._operations.register(subject, schema, normalize=normalize, force=force))

    async def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        return await self._commit(lambda: self._operations.delete_version(subject, version, permanent=permanent))

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        return await self._commit(lambda: self._operations.delete_subject(subject, permanent=permanent))

    async def set_config(self, subject: str | None, update: Mapping[str, Any]) -> dict[str, Any]:
        return await self._commit(lambda: self._operations.set_config(subject, update))

    async def delete_config(self, subject: str | None) -> dict[str, Any]:
        return await self._commit(lambda: self._operations.delete_config(subject))

    async def set_mode(self, subject: str | None, mode: str, *, force: bool = False) -> str:
        return await self._commit(lambda: self._operations.set_mode(subject, mode, force=force))

    async def delete_mode(self, subject: str | None, *, recursive: bool = False) -> str | None:
        return await self._commit(lambda: self._operations.delete_mode(subject, recursive=recursive))

    async def delete_context(self, context: str) -> None:
        return await self._commit(lambda: self._operations.delete_context(context))


class MemoryRegistry(StoredRegistry):
    """A registry whose log is in memory: alone, always the leader, ready at once, and gone at its end."""

    def __init__(self, rules: RegistryRules | None = None, entries: list[Entry] | None = None) -> None:
        """`entries`: records to begin with. An entry that is not of the registry's format is refused (RecordError)."""
        super().__init__(rules or RegistryRules())
        self.entries: list[Entry] = []
        """Every record that was written, in the form of the topic `_schemas`."""
        for key, value in entries or ():
            self._append(key, value)

    @property
    def leads(self) -> bool:
        return True

    @property
    def leader_url(self) -> str | None:
        return None

    @property
    def problem(self) -> str | None:
        return None

    async def fresh(self) -> None:
        """Every write is visible at once."""

    async def _commit(self, decide: Callable[[], WriteDecision[Answer]]) -> Answer:
        decision = decide()
        for key, value in decision.entries:
            self._append(key, value)
        return decision.answer

    def _append(self, key: bytes, value: bytes | None) -> None:
        self._apply(key, value)
        self.entries.append((key, value))


__all__ = ["MemoryRegistry", "RecordError", "RegistryRules", "StoredRegistry"]
