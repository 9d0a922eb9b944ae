"""Metadata and rule sets of schemas: their checks, stored form and merge.

Both are stored and returned as they were sent, in Confluent's order of fields. Rules are not executed: clients do that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from moldau.registry.refusals import invalid_rule_set, invalid_schema

VERSION_PROPERTY: Final = "confluent:version"
RULE_LISTS: Final[Mapping[str, frozenset[str]]] = {
    "migrationRules": frozenset({"UPGRADE", "DOWNGRADE", "UPDOWN"}),
    "domainRules": frozenset({"WRITE", "READ", "WRITEREAD"}),
    "encodingRules": frozenset({"WRITE", "READ", "WRITEREAD"}),
}
"""The lists of a rule set, and the modes that their rules may have."""
KINDS: Final = frozenset({"TRANSFORM", "CONDITION"})
ENVIRONMENTS: Final = frozenset({"CLIENT", "GATEWAY", "SERVER", "NONE"})
TWO_ACTIONS: Final = frozenset({"WRITEREAD", "UPDOWN"})
MAX_RULE_NAME: Final = 64
_RULE_NAME: Final = re.compile(r"[^\W\d][\w-]*")

Json = Mapping[str, Any]


def stored_metadata(metadata: Json | None) -> dict[str, Any] | None:
    """The metadata with its names in order. RegistryRefusal 42201 if it has another shape."""
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise invalid_schema("metadata must be an object with tags, properties and sensitive")
    tags, properties, sensitive = (metadata.get(name) for name in ("tags", "properties", "sensitive"))
    found: dict[str, Any] = {}
    if tags:
        if not _is_map(tags) or not all(_is_strings(values) for values in tags.values()):
            raise invalid_schema("tags of the metadata must be an object of lists of strings")
        found["tags"] = {path: sorted(set(values)) for path, values in sorted(tags.items())}
    if properties:
        if not _is_map(properties) or not _is_strings(list(properties.values())):
            raise invalid_schema("properties of the metadata must be an object of strings")
        found["properties"] = dict(sorted(properties.items()))
    if sensitive:
        if not _is_strings(sensitive):
            raise invalid_schema("sensitive of the metadata must be a list of strings")
        found["sensitive"] = sorted(set(sensitive))
    return found


def merged_metadata(old: Json | None, new: Json | None) -> Json | None:
    """Both together; where both have a property or the tags of a path, `new` counts."""
    if old is None or new is None:
        return new if old is None else old
    return stored_metadata(
        {
            "tags": {**(old.get("tags") or {}), **(new.get("tags") or {})},
            "properties": {**(old.get("properties") or {}), **(new.get("properties") or {})},
            "sensitive": [*(old.get("sensitive") or ()), *(new.get("sensitive") or ())],
        }
    )


def property_of(metadata: Json | None, name: str) -> str | None:
    properties = (metadata or {}).get("properties") or {}
    value = properties.get(name)
    return None if value is None else str(value)


def with_version(metadata: Json | None, version: int) -> Json:
    """The metadata with the version of the schema in it."""
    properties = {**((metadata or {}).get("properties") or {}), VERSION_PROPERTY: str(version)}
    return stored_metadata({**(metadata or {}), "properties": properties}) or {}


def without_version(metadata: Json | None) -> Json | None:
    """The metadata without the version of the schema; None if nothing else is in it."""
    if property_of(metadata, VERSION_PROPERTY) is None:
        return metadata
    assert metadata is not None
    properties = {name: value for name, value in metadata["properties"].items() if name != VERSION_PROPERTY}
    return stored_metadata({**metadata, "properties": properties}) or None


def stored_rule_set(rules: Json | None) -> dict[str, Any] | None:
    """The rule set in the stored form. RegistryRefusal 42210 if a rule is not valid."""
    if rules is None:
        return None
    if not isinstance(rules, Mapping):
        raise invalid_rule_set("ruleSet must be an object with migrationRules, domainRules and encodingRules")
    names: set[str] = set()
    found: dict[str, Any] = {}
    for list_name, modes in RULE_LISTS.items():
        listed = rules.get(list_name) or []
        if not isinstance(listed, list) or not all(isinstance(rule, Mapping) for rule in listed):
            raise invalid_rule_set(f"{list_name} must be a list of rules")
        if listed:
            found[list_name] = [_stored_rule(rule, list_name, modes, names) for rule in listed]
    at = rules.get("enableAt")
    if at is not None:
        if at not in ENVIRONMENTS:
            raise invalid_rule_set(f"enableAt {at!r} is not one of {', '.join(sorted(ENVIRONMENTS))}")
        found["enableAt"] = at
    return found


def _stored_rule(rule: Json, list_name: str, modes: frozenset[str], names: set[str]) -> dict[str, Any]:
    name, mode, kind = rule.get("name"), rule.get("mode"), rule.get("kind")
    if not isinstance(name, str) or not _RULE_NAME.fullmatch(name) or len(name) > MAX_RULE_NAME:
        raise invalid_rule_set(
            f"a rule of {list_name} has the name {name!r}; it must be 1 to {MAX_RULE_NAME} letters, digits, _ or -, "
            "and begin with a letter or _"
        )
    if name in names:
        raise invalid_rule_set(f"two rules have the name '{name}'")
    names.add(name)
    if not isinstance(rule.get("type"), str):
        raise invalid_rule_set(f"rule '{name}' has no type")
    if mode not in modes:
        raise invalid_rule_set(
            f"rule '{name}' of {list_name} has mode {mode!r}; allowed are {', '.join(sorted(modes))}"
        )
    if kind is not None and kind not in KINDS:
        raise invalid_rule_set(f"rule '{name}' has kind {kind!r}; allowed are {', '.join(sorted(KINDS))}")
    for field in ("doc", "expr", "onSuccess", "onFailure"):
        if rule.get(field) is not None and not isinstance(rule[field], str):
            raise invalid_rule_set(f"{field} of rule '{name}' must be a string")
    for action in ("onSuccess", "onFailure"):
        if mode not in TWO_ACTIONS and "," in (rule.get(action) or ""):
            raise invalid_rule_set(f"{action} of rule '{name}' names two actions, which needs mode WRITEREAD or UPDOWN")
    tags, params = rule.get("tags") or [], rule.get("params") or {}
    if not _is_strings(tags) or not _is_map(params) or not _is_strings(list(params.values())):
        raise invalid_rule_set(f"rule '{name}': tags must be a list of strings, and params an object of strings")
    if not isinstance(rule.get("disabled") or False, bool):
        raise invalid_rule_set(f"disabled of rule '{name}' must be true or false")
    return {
        **_given(rule, ("name", "doc", "kind", "mode", "type")),
        **({"tags": sorted(set(tags))} if tags else {}),
        **({"params": dict(sorted(params.items()))} if params else {}),
        **_given(rule, ("expr", "onSuccess", "onFailure")),
        "disabled": bool(rule.get("disabled")),
    }


def merged_rule_set(old: Json | None, new: Json | None) -> Json | None:
    """The rules of both; where both have a rule of a name, that of `new` counts."""
    if old is None or new is None:
        return new if old is None else old
    merged: dict[str, Any] = {}
    for name in RULE_LISTS:
        rules = {rule["name"]: rule for rule in (*(old.get(name) or ()), *(new.get(name) or ()))}
        if rules:
            merged[name] = list(rules.values())
    at = new.get("enableAt") or old.get("enableAt")
    return merged if at is None else {**merged, "enableAt": at}


def has_rule_of(rules: Json | None, kind: str) -> bool:
    """Whether the set has a rule of this type, such as CEL."""
    return any(rule.get("type") == kind for name in RULE_LISTS for rule in (rules or {}).get(name) or ())


def _given(rule: Json, names: Iterable[str]) -> dict[str, Any]:
    return {name: rule[name] for name in names if rule.get(name)}


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
