"""Parts of a JSON Schema: the conjunction of conditions that one or several schemas of the same place mean.

`{"type": "object", "properties": …, "allOf": [A], "oneOf": [B, C]}` has three parts: its own keywords, those of A, and
the choice of B or C. A value has the schema if every part accepts it. `$ref`, `allOf` and choices with one branch only
have no part of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.schemas.json_schema.schema_node import REFERENCES, JsonSchemaNode

TYPES: Final = frozenset({"null", "boolean", "object", "array", "string", "integer", "fraction"})
"""The types of values. A `number` is an integer or a fraction."""
COMBINING: Final = frozenset({*REFERENCES, "allOf", "anyOf", "oneOf", "not", "if", "then", "else"})


@dataclass(frozen=True)
class Keywords:
    """The keywords of one schema object that do not combine schemas."""

    node: JsonSchemaNode
    values: Mapping[str, Any]

    def child(self, *path: Any) -> JsonSchemaNode:
        found: Any = self.values
        for step in path:
            found = found[step]
        return self.node.child(found)


@dataclass(frozen=True)
class Choice:
    """`anyOf` or `oneOf` with several branches."""

    keyword: str
    branches: tuple[JsonSchemaNode, ...]


@dataclass(frozen=True)
class Negation:
    """`not`."""

    node: JsonSchemaNode


@dataclass(frozen=True)
class Condition:
    """`if` with `then`, `else` or both."""

    test: JsonSchemaNode
    then: JsonSchemaNode
    otherwise: JsonSchemaNode


@dataclass(frozen=True)
class Nothing:
    """The schema `false`, which accepts no value."""


Part = Keywords | Choice | Negation | Condition | Nothing


def parts_of(nodes: Iterable[JsonSchemaNode]) -> list[Part]:
    """The parts of a conjunction of schemas; empty if every value has it."""
    found: list[Part] = []
    seen: set[int] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop(0).followed()
        if node.schema is False:
            return [Nothing()]
        if node.schema is True or node.key in seen:
            continue
        seen.add(node.key)
        keywords = node.keywords()
        own = {name: value for name, value in keywords.items() if name not in COMBINING}
        if own:
            found.append(Keywords(node, own))
        if (target := node.target()) is not None:
            waiting.append(target)
        waiting += [node.child(one) for one in keywords.get("allOf", ())]
        for name in ("anyOf", "oneOf"):
            branches = tuple(node.child(one) for one in keywords.get(name, ()))
            if len(branches) == 1:
                waiting.append(branches[0])
            elif branches:
                found.append(Choice(name, branches))
        if "not" in keywords:
            found.append(Negation(node.child(keywords["not"])))
        if "if" in keywords and ("then" in keywords or "else" in keywords):
            children = (node.child(keywords.get(name, True)) for name in ("if", "then", "else"))
            found.append(Condition(*children))
    return found


def type_of(value: Any) -> str:
    """The type of a JSON value, one of TYPES."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "fraction"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def types_of(keywords: Mapping[str, Any]) -> frozenset[str]:
    """The types of the values that a schema object accepts, by its `type`, `enum` and `const`."""
    declared = keywords.get("type")
    names = [declared] if isinstance(declared, str) else declared
    types = TYPES if names is None else frozenset(one for name in names for one in _types_named(name))
    values = enumerated(keywords)
    return types if values is None else types & {type_of(value) for value in values}


def _types_named(name: str) -> tuple[str, ...]:
    return ("integer", "fraction") if name == "number" else (name,)


def enumerated(keywords: Mapping[str, Any]) -> list[Any] | None:
    """The values that `const` and `enum` leave; None if there is neither of them."""
    if "const" in keywords:
        return [keywords["const"]]
    values = keywords.get("enum")
    return list(values) if isinstance(values, list) else None


def writer_types(parts: Iterable[Part]) -> frozenset[str]:
    """The types of the values that a conjunction accepts."""
    types = TYPES
    for part in parts:
        if isinstance(part, Keywords):
            types &= types_of(part.values)
        elif isinstance(part, Choice):
            types &= frozenset(one for branch in part.branches for one in writer_types(_own_keywords(branch)))
    return types


def _own_keywords(branch: JsonSchemaNode) -> list[Part]:
    """The keywords of a branch without the choices in it, which could lead back to it."""
    return [part for part in parts_of([branch]) if isinstance(part, (Keywords, Nothing))]


def equal(one: Any, other: Any) -> bool:
    """Equality of JSON values: 1 equals 1.0, and not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[name]) for name, value in one.items())
    return bool(one == other)
