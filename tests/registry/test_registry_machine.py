"""Random sequences of writes: what must be true after each of them, and after a restart from the compacted log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from moldau.registry.records import read_record
from moldau.registry.refusals import RegistryRefusal
from moldau.registry.registry import ListedSchema, NewSchema
from moldau.registry.stored_registry import MemoryRegistry
from moldau.registry.subject_names import beside, context_of
from moldau.schemas.schema import SchemaReference
from tests.registry.logs import compacted, state_of

SUBJECTS = ("a", "b", ":.c:a", ":.c:b")
PLAIN = ('"string"', '{"type":"int"}', ' "string" ')
"""Two of them are the same schema."""


def record(*fields: str) -> str:
    listed = ",".join(f'{{"name":"{name}","type":"int"}}' for name in fields)
    return f'{{"type":"record","name":"R","fields":[{listed}]}}'


TEXTS = (*PLAIN, record(), record("x"), record("x", "y"))
REFERRING = '{"type":"record","name":"S","fields":[{"name":"r","type":"R"}]}'

subjects = strategies.sampled_from(SUBJECTS)
versions = strategies.integers(1, 4)
permanent = strategies.booleans()
scopes = strategies.sampled_from((None, ":.c:", ":.__GLOBAL:", *SUBJECTS))


class RegistryMachine(RuleBasedStateMachine):
    """A registry, and what it has said so far."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = MemoryRegistry()
        self.meaning: dict[tuple[str, int], str] = {}
        """The text of every id that was ever given, also of schemas that are gone."""

    def write(self, work: Awaitable[Any]) -> Any:
        """The answer of a write; None if it was refused, and then nothing was written."""
        before = len(self.registry.entries)

        async def run() -> Any:
            return await work

        try:
            return asyncio.run(run())
        except RegistryRefusal:
            assert len(self.registry.entries) == before
            return None

    def given(self, found: ListedSchema | None) -> None:
        if found is not None:
            one = found.registered
            assert one.subject is not None
            key = (context_of(one.subject), one.id)
            assert self.meaning.setdefault(key, one.schema.text) == one.schema.text, f"id {one.id} was given twice"
            assert self.registry.version(one.subject, one.version or 0).registered == one

    @initialize(texts=strategies.lists(strategies.sampled_from(TEXTS), max_size=3))
    def begin(self, texts: list[str]) -> None:
        self.register("a", record())
        self.register_with_reference("b", "a", 1)
        for text in texts:
            self.register("a", text)

    @rule(subject=subjects, text=strategies.sampled_from(TEXTS))
    def register(self, subject: str, text: str) -> None:
        self.given(self.write(self.registry.register(subject, NewSchema(text))))

    @rule(subject=subjects, referred=subjects, version=versions)
    def register_with_reference(self, subject: str, referred: str, version: int) -> None:
        references = (SchemaReference("R", referred, version),)
        self.given(self.write(self.registry.register(subject, NewSchema(REFERRING, references=references))))

    @rule(subject=subjects, properties=strategies.dictionaries(strategies.sampled_from("kl"), strategies.just("v")))
    def register_metadata(self, subject: str, properties: dict[str, str]) -> None:
        new = NewSchema(TEXTS[0], metadata={"properties": properties})
        self.given(self.write(self.registry.register(subject, new)))

    @rule(subject=subjects, text=strategies.sampled_from(TEXTS), schema_id=strategies.integers(1, 9), version=versions)
    def import_schema(self, subject: str, text: str, schema_id: int, version: int) -> None:
        new = NewSchema(text, id=schema_id, version=version)
        found = self.write(self.registry.register(subject, new))
        key = (context_of(subject), schema_id)
        if found is not None and key in self.meaning and not self.registry.store.of_id(*key):
            del self.meaning[key]
        self.given(found)
        if found is not None:
            assert (found.registered.id, found.registered.version) == (schema_id, version)

    @rule(subject=subjects, version=versions, permanent=permanent)
    def delete_version(self, subject: str, version: int, permanent: bool) -> None:
        if self.write(self.registry.delete_version(subject, version, permanent=permanent)) is not None:
            assert version not in self.listed(subject, deleted=permanent)

    @rule(subject=subjects, version=versions)
    def remove_version(self, subject: str, version: int) -> None:
        self.delete_version(subject, version, permanent=False)
        self.delete_version(subject, version, permanent=True)

    @rule(subject=subjects)
    def remove_subject(self, subject: str) -> None:
        self.delete_subject(subject, permanent=False)
        self.delete_subject(subject, permanent=True)

    @rule(subject=subjects, permanent=permanent)
    def delete_subject(self, subject: str, permanent: bool) -> None:
        if self.write(self.registry.delete_subject(subject, permanent=permanent)) is not None:
            assert self.listed(subject, deleted=permanent) == []
            if permanent:
                assert subject not in self.registry.store.configs

    @rule(scope=scopes, level=strategies.sampled_from(["NONE", "BACKWARD", "full", "FORWARD_TRANSITIVE"]))
    def set_level(self, scope: str | None, level: str) -> None:
        if self.write(self.registry.set_config(scope, {"compatibility": level})) is not None:
            assert self.registry.config(scope)["compatibilityLevel"] == level.upper()

    @rule(scope=scopes)
    def delete_config(self, scope: str | None) -> None:
        self.write(self.registry.delete_config(scope))

    @rule(scope=scopes, mode=strategies.sampled_from(["READWRITE", "READONLY", "IMPORT"]), force=strategies.booleans())
    def set_mode(self, scope: str | None, mode: str, force: bool) -> None:
        if self.write(self.registry.set_mode(scope, mode, force=force)) is not None:
            assert self.registry.mode(scope) == mode

    @rule(scope=scopes, recursive=strategies.booleans())
    def delete_mode(self, scope: str | None, recursive: bool) -> None:
        self.write(self.registry.delete_mode(scope, recursive=recursive))

    @rule()
    def delete_context(self) -> None:
        self.write(self.registry.delete_context(".c"))

    @rule()
    def restart(self) -> None:
        """Begin again with what compaction leaves: ids must not begin again with it."""
        self.registry = MemoryRegistry(entries=compacted(self.registry.entries))

    def listed(self, subject: str, *, deleted: bool) -> list[int]:
        try:
            return self.registry.versions(subject, deleted=deleted)
        except RegistryRefusal:
            return []

    @invariant()
    def a_restart_shows_the_same(self) -> None:
        again = MemoryRegistry(entries=compacted(self.registry.entries))
        assert state_of(again) == state_of(self.registry)

    @invariant()
    def ids_are_below_the_next_one(self) -> None:
        for context, schema_id in self.meaning:
            assert schema_id <= self.registry.store.max_id(context)

    @invariant()
    def references_lead_somewhere(self) -> None:
        store = self.registry.store
        for subject in store.subjects():
            for one in store.versions(subject):
                for reference in one.schema.references:
                    assert store.version(beside(reference.subject, subject), reference.version) is not None

    @invariant()
    def equal_schemas_have_one_id_and_are_found(self) -> None:
        for one in self.registry.schemas():
            found = one.registered
            new = NewSchema.of(found.schema)
            assert found.subject is not None
            assert self.registry.lookup(found.subject, new).registered.schema == found.schema
            assert found.subject in self.registry.subjects_of_id(found.id, found.subject)

    @invariant()
    def records_are_read_as_written(self) -> None:
        for key, value in self.registry.entries[-5:]:
            assert read_record(key, value) is not None


TestRegistryMachine = RegistryMachine.TestCase
TestRegistryMachine.settings = settings(stateful_step_count=25, max_examples=settings().max_examples // 2)
