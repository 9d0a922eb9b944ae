"""Decisions of the registry: what it refuses, with which code, and that a refused write changes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from moldau.registry.refusals import RegistryRefusal
from moldau.registry.registry import NewSchema
from moldau.registry.stored_registry import MemoryRegistry, RegistryRules
from moldau.schemas.compatibility import CompatibilityLevel
from moldau.schemas.schema import SchemaReference

T = TypeVar("T")

INT, STRING = '"int"', '"string"'
OPEN = RegistryRules(CompatibilityLevel.NONE)


def done(work: Awaitable[T]) -> T:
    async def run() -> T:
        return await work

    return asyncio.run(run())


def register(registry: MemoryRegistry, subject: str, text: str, **others: Any) -> tuple[int, int | None]:
    found = done(registry.register(subject, NewSchema(text, **others))).registered
    return found.id, found.version


def refused(registry: MemoryRegistry, ask: Callable[[], Any]) -> tuple[int, int]:
    """Status and code of a refusal. Nothing was written."""
    before = list(registry.entries)

    async def run() -> None:
        found = ask()
        if asyncio.iscoroutine(found):
            await found

    with pytest.raises(RegistryRefusal) as refusal:
        asyncio.run(run())
    assert registry.entries == before
    return refusal.value.status, refusal.value.code


@pytest.fixture
def open_registry() -> MemoryRegistry:
    """A registry in which everything is compatible; subject `a` has versions 1 (int) and 2 (string)."""
    registry = MemoryRegistry(OPEN)
    assert register(registry, "a", INT) == (1, 1)
    assert register(registry, "a", STRING) == (2, 2)
    return registry


def record(name: str, *fields: str) -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": one, "type": "int"} for one in fields]})


# -- register ----------------------------------------------------------------------------------------------------------


def test_the_same_schema_has_one_id_in_all_subjects_of_a_context(open_registry: MemoryRegistry) -> None:
    assert register(open_registry, "a", ' "int" ') == (1, 1)
    assert register(open_registry, "b", INT) == (1, 1)
    assert register(open_registry, ":.c:b", STRING) == (1, 1)
    assert open_registry.subjects_of_id(1) == ["a", "b"]
    assert open_registry.subjects_of_id(1, ":.c:") == [":.c:b"]
    assert open_registry.contexts() == [".", ".c"]
    assert open_registry.subjects() == ["a", "b", ":.c:b"]
    assert open_registry.subjects("") == ["a", "b"]
    assert open_registry.subjects(":.c:") == [":.c:b"]
    assert open_registry.subjects(":*:b") == ["b", ":.c:b"]


def test_a_schema_that_breaks_a_rule_is_refused_with_the_rule_and_the_version() -> None:
    registry = MemoryRegistry()
    register(registry, "a", record("R"))
    new = NewSchema(record("R", "x"))
    with pytest.raises(RegistryRefusal) as refusal:
        done(registry.register("a", new))
    assert (refusal.value.status, refusal.value.code) == (409, 409)
    for part in ('subject "a"', "READER_FIELD_MISSING_DEFAULT_VALUE", "oldSchemaVersion: 1", "'BACKWARD'", "'x'"):
        assert part in refusal.value.message
    assert registry.check("a", new) != []
    assert registry.check("a", new, "latest") != []
    assert registry.check("unknown", new) == []
    assert done(registry.register("a", new, force=True)).registered.version == 2


def test_transitive_levels_compare_with_every_version() -> None:
    registry = MemoryRegistry(OPEN)
    for text in (record("R", "x"), record("R")):
        register(registry, "a", text)
    new = NewSchema(
        json.dumps(
            {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", "string"], "default": None}]}
        )
    )
    done(registry.set_config("a", {"compatibility": "BACKWARD"}))
    assert registry.check("a", new) == []
    done(registry.set_config("a", {"compatibility": "BACKWARD_TRANSITIVE"}))
    assert any("oldSchemaVersion: 1" in one for one in registry.check("a", new))
    done(registry.delete_config("a"))
    assert registry.check("a", new) == []


def test_versions_of_another_compatibility_group_are_not_compared() -> None:
    registry = MemoryRegistry()
    done(registry.set_config("a", {"compatibilityGroup": "major"}))
    one, two = ({"properties": {"major": number}} for number in "12")
    register(registry, "a", record("R"), metadata=one)
    broken = NewSchema(record("R", "x"), metadata=one)
    assert refused(registry, lambda: registry.register("a", broken)) == (409, 409)
    assert register(registry, "a", record("R", "x"), metadata=two) == (2, 2)


@pytest.mark.parametrize(
    ("subject", "code"),
    [("", 42208), ("*", 42208), ("a\nb", 42208), ("__GLOBAL", 42208), (":.c:", 42208), (":.__GLOBAL:a", 42208)],
)
def test_some_names_are_no_subjects(subject: str, code: int) -> None:
    registry = MemoryRegistry()
    assert refused(registry, lambda: registry.register(subject, NewSchema(INT))) == (422, code)


@pytest.mark.parametrize(
    "new",
    [
        NewSchema(""),
        NewSchema("  "),
        NewSchema("not JSON"),
        NewSchema('"unknown"'),
        NewSchema(INT, type="XML"),
        NewSchema('"\ud800"', type="JSON"),
        NewSchema(record("S", "x"), references=(SchemaReference("R", "gone", 1),)),
        NewSchema(INT, metadata={"properties": {"a": 1}}),
        NewSchema(INT, metadata={"tags": {"a": "b"}}),
        NewSchema(INT, version=7),
        NewSchema("[" * 100_000),
    ],
    ids=str,
)
def test_an_invalid_schema_is_refused(new: NewSchema) -> None:
    registry = MemoryRegistry()
    assert refused(registry, lambda: registry.register("a", new)) == (422, 42201)


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"name": "1", "type": "CEL", "mode": "WRITE"},
        {"name": "a", "mode": "WRITE"},
        {"name": "a", "type": "CEL", "mode": "UPGRADE"},
        {"name": "a", "type": "CEL", "mode": "WRITE", "kind": "OTHER"},
        {"name": "a", "type": "CEL", "mode": "WRITE", "onSuccess": "NONE,ERROR"},
        {"name": "a", "type": "CEL", "mode": "WRITE", "params": {"a": 1}},
    ],
    ids=str,
)
def test_an_invalid_rule_is_refused(rule: dict[str, Any]) -> None:
    registry = MemoryRegistry()
    new = NewSchema(INT, rule_set={"domainRules": [rule]})
    assert refused(registry, lambda: registry.register("a", new)) == (422, 42210)


def test_a_schema_that_no_record_can_hold_is_refused() -> None:
    registry = MemoryRegistry()
    new = NewSchema(json.dumps({"type": "enum", "name": "E", "symbols": ["x" * 1_000_001]}))
    assert refused(registry, lambda: registry.register("a", new)) == (422, 42209)


def test_metadata_and_rules_are_taken_over_until_they_are_given_again() -> None:
    registry = MemoryRegistry(OPEN)
    rules = {"domainRules": [{"name": "n", "type": "CEL", "mode": "WRITE", "tags": ["b", "a"]}]}
    register(registry, "a", INT, metadata={"properties": {"owner": "me"}}, rule_set=rules)
    assert register(registry, "a", INT) == (1, 1)
    assert registry.lookup("a", NewSchema(INT)).registered.version == 1
    assert register(registry, "a", STRING) == (2, 2)
    second = registry.version("a", "latest").registered.schema
    assert second.metadata == {"properties": {"owner": "me"}}
    assert second.rule_set is not None
    assert second.rule_set["domainRules"][0]["tags"] == ["a", "b"]
    done(registry.set_config("a", {"overrideMetadata": {"properties": {"owner": "all"}}}))
    register(registry, "a", '"long"')
    assert registry.version("a", "latest").registered.schema.metadata == {"properties": {"owner": "all"}}
    assert registry.latest_with_metadata("a", {"owner": "me"}).registered.version == 2
    assert refused(registry, lambda: registry.latest_with_metadata("a", {"owner": "you"})) == (404, 40403)


def test_version_minus_one_puts_the_version_into_the_metadata() -> None:
    registry = MemoryRegistry(OPEN)
    register(registry, "a", INT, version=-1)
    assert registry.version("a", 1).registered.schema.metadata == {"properties": {"confluent:version": "1"}}
    assert register(registry, "a", INT) == (1, 1)


def test_an_alias_stands_for_another_subject(open_registry: MemoryRegistry) -> None:
    done(open_registry.set_config("other", {"alias": "a"}))
    assert open_registry.versions("other") == [1, 2]
    assert register(open_registry, "other", '"long"') == (3, 3)
    assert open_registry.schemas(aliases=True)[0].aliases == ("other",)


# -- read --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda it: it.by_id(9), (404, 40403)),
        (lambda it: it.by_id(1, ":.c:"), (404, 40403)),
        (lambda it: it.by_guid("no uuid"), (404, 40403)),
        (lambda it: it.subjects_of_id(9), (404, 40403)),
        (lambda it: it.versions("b"), (404, 40401)),
        (lambda it: it.version("b", 1), (404, 40401)),
        (lambda it: it.version("a", 3), (404, 40402)),
        (lambda it: it.version("a", 0), (422, 42202)),
        (lambda it: it.version("a", "newest"), (422, 42202)),
        (lambda it: it.version("a", 2**31), (422, 42202)),
        (lambda it: it.lookup("b", NewSchema(INT)), (404, 40401)),
        (lambda it: it.lookup("a", NewSchema('"long"')), (404, 40403)),
        (lambda it: it.lookup("a", NewSchema("{")), (422, 42201)),
        (lambda it: it.referenced_by("a", 7), (404, 40402)),
        (lambda it: it.check("a", NewSchema(INT), 7), (404, 40402)),
        (lambda it: it.check("a", NewSchema(INT), "x"), (422, 42202)),
        (lambda it: it.config("a"), (404, 40408)),
        (lambda it: it.mode("a"), (404, 40409)),
    ],
)
def test_reads_of_what_does_not_exist(
    open_registry: MemoryRegistry, ask: Callable[[MemoryRegistry], Any], expected: tuple[int, int]
) -> None:
    assert refused(open_registry, lambda: ask(open_registry)) == expected


def test_a_subject_without_context_is_found_in_another_context(open_registry: MemoryRegistry) -> None:
    register(open_registry, ":.c:only-there", '"long"')
    assert open_registry.version("only-there", 1).registered.subject == ":.c:only-there"
    assert open_registry.lookup("only-there", NewSchema('"long"')).registered.id == 1
    assert open_registry.by_id(1, "only-there").registered.schema.text == '"long"'
    assert open_registry.by_id(1).registered.schema.text == INT
    guid = open_registry.version("only-there", 1).guid
    assert open_registry.ids_of_guid(guid) == [(".c", 1)]
    assert open_registry.by_guid(guid).registered.subject == ":.c:only-there"


# -- delete ------------------------------------------------------------------------------------------------------------


def test_a_deleted_version_is_seen_only_by_those_who_ask_for_it(open_registry: MemoryRegistry) -> None:
    assert done(open_registry.delete_version("a", "latest")) == 2
    assert open_registry.versions("a") == [1]
    assert open_registry.versions("a", deleted=True) == [1, 2]
    assert open_registry.versions("a", deleted_only=True) == [2]
    assert open_registry.version("a", "latest").registered.version == 1
    assert open_registry.by_id(2).deleted
    assert refused(open_registry, lambda: open_registry.version("a", 2)) == (404, 40402)
    assert register(open_registry, "a", STRING) == (2, 3)
    assert open_registry.versions("a", deleted=True) == [1, 3]


def test_deletes_are_refused_in_the_wrong_order(open_registry: MemoryRegistry) -> None:
    it = open_registry
    assert refused(it, lambda: it.delete_subject("a", permanent=True)) == (404, 40405)
    assert refused(it, lambda: it.delete_version("a", 1, permanent=True)) == (404, 40407)
    assert refused(it, lambda: it.delete_version("a", 3)) == (404, 40402)
    assert refused(it, lambda: it.delete_version("b", 1)) == (404, 40401)
    assert refused(it, lambda: it.delete_subject("b")) == (404, 40401)
    done(it.delete_version("a", 1))
    assert refused(it, lambda: it.delete_version("a", 1)) == (404, 40406)
    assert refused(it, lambda: it.delete_subject("a", permanent=True)) == (404, 40405)
    assert done(it.delete_subject("a")) == [2]
    assert refused(it, lambda: it.delete_subject("a")) == (404, 40404)
    assert it.subjects() == []
    assert it.subjects(deleted_only=True) == ["a"]
    assert done(it.delete_subject("a", permanent=True)) == [1, 2]
    assert refused(it, lambda: it.delete_subject("a", permanent=True)) == (404, 40401)
    assert refused(it, lambda: it.by_id(1)) == (404, 40403)
    assert register(it, "a", INT) == (3, 1)


def test_a_version_that_others_refer_to_is_not_deleted(open_registry: MemoryRegistry) -> None:
    it = open_registry
    register(it, "r", record("R"))
    text = '{"type":"record","name":"S","fields":[{"name":"r","type":"R"}]}'
    register(it, "s", text, references=(SchemaReference("R", "r", 1),))
    assert it.referenced_by("r", 1) == [4]
    assert it.resolved(it.version("s", 1).registered.schema) == {"R": it.version("r", 1).registered.schema.text}
    assert refused(it, lambda: it.delete_version("r", 1)) == (422, 42206)
    assert refused(it, lambda: it.delete_subject("r")) == (422, 42206)
    done(it.delete_subject("s"))
    assert it.referenced_by("r", 1) == []
    assert it.referenced_by("r", 1, deleted=True) == [4]
    done(it.delete_subject("r"))
    assert refused(it, lambda: it.delete_subject("r", permanent=True)) == (422, 42206)
    done(it.delete_subject("s", permanent=True))
    assert done(it.delete_subject("r", permanent=True)) == [1]


def test_a_context_is_deleted_when_it_is_empty(open_registry: MemoryRegistry) -> None:
    it = open_registry
    register(it, ":.c:a", INT)
    assert refused(it, lambda: it.delete_context(".c")) == (422, 42211)
    assert refused(it, lambda: it.delete_context(".")) == (422, 42211)
    assert refused(it, lambda: it.delete_context(".unknown")) == (404, 40401)
    done(it.delete_subject(":.c:a"))
    done(it.delete_subject(":.c:a", permanent=True))
    done(it.delete_context(":.c:"))
    assert it.contexts() == ["."]
    assert register(it, ":.c:a", STRING) == (2, 1)


# -- configs and modes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ({"compatibility": "SOME"}, (422, 42203)),
        ({"compatibility": 7}, (422, 42203)),
        ({"unknown": 1}, (422, 422)),
        ({"normalize": "yes"}, (422, 422)),
        ({"defaultMetadata": {"properties": 3}}, (422, 42201)),
        ({"defaultRuleSet": {"domainRules": [{}]}}, (422, 42210)),
    ],
)
def test_an_invalid_config_is_refused(update: dict[str, Any], expected: tuple[int, int]) -> None:
    registry = MemoryRegistry()
    assert refused(registry, lambda: registry.set_config("a", update)) == expected


def test_a_config_counts_for_what_is_below_it() -> None:
    registry = MemoryRegistry()
    assert registry.config() == {"compatibilityLevel": "BACKWARD"}
    done(registry.set_config(":.__GLOBAL:", {"compatibility": "FORWARD"}))
    assert registry.config("a", default_to_global=True)["compatibilityLevel"] == "FORWARD"
    done(registry.set_config(None, {"compatibility": "full", "normalize": True}))
    assert registry.config("a", default_to_global=True) == {"compatibilityLevel": "FULL", "normalize": True}
    assert registry.config(":.c:a", default_to_global=True)["compatibilityLevel"] == "FORWARD"
    assert done(registry.set_config("a", {"compatibility": "NONE"})) == {"compatibility": "NONE"}
    assert registry.config("a", default_to_global=True) == {"compatibilityLevel": "NONE", "normalize": True}
    assert done(registry.set_config("a", {"compatibility": None, "alias": "b"})) == {"alias": "b"}
    assert registry.config("a", default_to_global=True)["compatibilityLevel"] == "FULL"
    assert done(registry.delete_config("a"))["alias"] == "b"
    assert refused(registry, lambda: registry.delete_config("a")) == (404, 40401)


def test_a_read_only_registry_refuses_writes(open_registry: MemoryRegistry) -> None:
    it = open_registry
    done(it.set_mode(None, "readonly"))
    assert refused(it, lambda: it.register("a", NewSchema('"long"'))) == (422, 42205)
    assert refused(it, lambda: it.delete_subject("a")) == (422, 42205)
    assert refused(it, lambda: it.delete_version("a", 1)) == (422, 42205)
    assert refused(it, lambda: it.set_config("a", {"compatibility": "NONE"})) == (422, 42205)
    done(it.set_mode("a", "READWRITE"))
    assert register(it, "a", '"long"') == (3, 3)
    done(it.set_mode(None, "READONLY_OVERRIDE"))
    assert refused(it, lambda: it.register("a", NewSchema('"float"'))) == (422, 42205)
    assert done(it.delete_mode(None)) == "READONLY_OVERRIDE"
    assert done(it.delete_mode("a")) == "READWRITE"
    assert refused(it, lambda: it.delete_mode("a")) == (404, 40401)
    assert done(it.delete_mode("a", recursive=True)) is None


def test_ids_are_given_by_the_client_in_import_mode_only(open_registry: MemoryRegistry) -> None:
    it = open_registry
    new = NewSchema('"long"', id=50, version=4)
    assert refused(it, lambda: it.register("b", new)) == (422, 42205)
    done(it.set_mode("b", "IMPORT"))
    assert refused(it, lambda: it.register("b", NewSchema('"long"'))) == (422, 42205)
    assert refused(it, lambda: it.register("b", NewSchema('"long"', id=2))) == (422, 42205)
    assert register(it, "b", '"long"', id=50, version=4) == (50, 4)
    assert register(it, "a", '"float"') == (51, 3)
    assert refused(it, lambda: it.set_mode("a", "IMPORT")) == (422, 42205)
    assert done(it.set_mode("a", "IMPORT", force=True)) == "IMPORT"


def test_some_modes_are_refused() -> None:
    registry = MemoryRegistry()
    assert refused(registry, lambda: registry.set_mode("a", "OTHER")) == (422, 42204)
    assert refused(registry, lambda: registry.set_mode("a", "FORWARD")) == (422, 42204)
    assert refused(registry, lambda: registry.set_mode("*", "IMPORT")) == (422, 42208)
    fixed = MemoryRegistry(RegistryRules(mode_changes=False))
    assert refused(fixed, lambda: fixed.set_mode(None, "READONLY")) == (422, 42205)
    assert refused(fixed, lambda: fixed.delete_mode(None)) == (422, 42205)
