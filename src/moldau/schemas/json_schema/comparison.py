"""Comparison of two JSON Schemas: the rules that the reader's schema breaks for values of the writer's.

The verdicts are those of Confluent's registry with its strict policy. If there is no finding, every value that has the
writer's schema has the reader's, with two exceptions that Confluent makes too:

- A property that becomes required is accepted if it has a default: the reader fills it in.
- `oneOf` is read as a union. A new branch is accepted even if a value could have two branches at once, because a
  union of record types is extended in this way, and open objects always overlap.

A schema in which definitions refer to each other is compared by assumption: a pair that is being compared is taken as
compatible inside of itself. Findings are definite and remembered. An assumption that a finding was built around is
forgotten with it, so that no other branch relies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from moldau.schemas.json_schema.array_rules import array_findings
from moldau.schemas.json_schema.findings import Finding, finding, within
from moldau.schemas.json_schema.object_rules import object_findings
from moldau.schemas.json_schema.scalar_rules import enum_findings, number_findings, string_findings, type_findings
from moldau.schemas.json_schema.schema_node import JsonSchemaNode
from moldau.schemas.json_schema.schema_parts import (
    TYPES,
    Choice,
    Condition,
    Keywords,
    Negation,
    Nothing,
    Part,
    parts_of,
    writer_types,
)
from moldau.schemas.parsed_schema import Incompatibility

MAX_COMPARISONS: Final = 5_000
"""Pairs of places that are compared before a schema is refused as too complex."""
MAX_FINDINGS: Final = 50
"""Findings of one pair of places. Definitions that refer to each other would multiply them."""

Rule = Callable[["Comparison", Keywords, Keywords, frozenset[str]], list[Finding]]
RULES: Final[tuple[tuple[frozenset[str], Rule], ...]] = (
    (TYPES, enum_findings),
    (frozenset({"string"}), string_findings),
    (frozenset({"integer", "fraction"}), number_findings),
    (frozenset({"object"}), object_findings),
    (frozenset({"array"}), array_findings),
)
"""The rules, and the types of values that they are about. A rule is not asked if the writer has no such values."""


class TooComplex(Exception):
    """The comparison has reached its bound."""


def compare_roots(writer: JsonSchemaNode, reader: JsonSchemaNode) -> list[Incompatibility]:
    try:
        found = Comparison().findings([writer], [reader])
    except (TooComplex, RecursionError):
        message = (
            f"the schemas are too complex to compare: more than {MAX_COMPARISONS} pairs of places, or nested too deep"
        )
        return [Incompatibility("SCHEMA_TOO_COMPLEX", "/", message)]
    return list(dict.fromkeys(one.incompatibility() for one in found))


class Comparison:
    """One comparison of a writer's schema with a reader's."""

    def __init__(self) -> None:
        self._assumed: dict[object, None] = {}
        """The pairs that are compatible, or are being compared, in the order in which they were met."""
        self._broken: dict[object, list[Finding]] = {}
        self._count = 0

    def findings(
        self,
        writers: Iterable[JsonSchemaNode],
        readers: Iterable[JsonSchemaNode],
        types: frozenset[str] = TYPES,
    ) -> list[Finding]:
        """The rules that are broken for values of these types that have all of `writers`, by any of `readers`."""
        writers, readers = [one.followed() for one in writers], [one.followed() for one in readers]
        pair = (frozenset(one.key for one in writers), frozenset(one.key for one in readers), types)
        if pair in self._broken:
            return self._broken[pair]
        if pair in self._assumed:
            return []
        self._count += 1
        if self._count > MAX_COMPARISONS:
            raise TooComplex
        known = len(self._assumed)
        self._assumed[pair] = None
        found = self.part_findings(parts_of(writers), parts_of(readers), types)[:MAX_FINDINGS]
        if found:
            self._broken[pair] = found
            while len(self._assumed) > known:
                self._assumed.popitem()
        return found

    def accepts(self, writers: Iterable[JsonSchemaNode], readers: Iterable[JsonSchemaNode]) -> bool:
        return not self.findings(writers, readers)

    def part_findings(self, writer: list[Part], reader: list[Part], types: frozenset[str] = TYPES) -> list[Finding]:
        types &= writer_types(writer)
        if not types or any(isinstance(part, Nothing) for part in writer):
            return []
        found: list[Finding] = []
        for part in reader:
            match part:
                case Nothing():
                    return [finding("TYPE_CHANGED", "", "the reader's schema accepts no value, the writer's does")]
                case Keywords():
                    found += self._against_keywords(writer, part, types)
                case Choice():
                    found += self._against_choice(writer, part, types)
                case Negation():
                    found += self._against_negation(writer, part, types)
                case Condition():
                    found += self._against_condition(writer, part)
        return found

    # Keywords ---------------------------------------------------------------------------------------------------------

    def _against_keywords(self, writer: list[Part], reader: Keywords, types: frozenset[str]) -> list[Finding]:
        found = self._keyword_findings(writer, reader, types)
        if found and self._each_branch(writer, [reader], types):
            return []
        return found

    def _keyword_findings(self, writer: list[Part], reader: Keywords, types: frozenset[str]) -> list[Finding]:
        found = type_findings(types, reader)
        if found:
            return found
        own = [part for part in writer if isinstance(part, Keywords)] or [Keywords(reader.node, {})]
        for about, rule in RULES:
            if types & about:
                # One part of the writer that guarantees a rule is enough. The shortest list explains best.
                explanations: list[list[Finding]] = [rule(self, part, reader, types) for part in own]
                shortest: list[Finding] = min(explanations, key=len)
                found += shortest
        return found

    def _each_branch(self, writer: list[Part], reader: list[Part], types: frozenset[str]) -> bool:
        """Does the reader accept every branch of a choice of the writer?"""
        others = [part for part in writer if not isinstance(part, Choice)]
        return any(
            all(not self.part_findings([*others, *parts_of([branch])], reader, types) for branch in choice.branches)
            for choice in writer
            if isinstance(choice, Choice)
        )

    # Combined schemas -------------------------------------------------------------------------------------------------

    def _against_choice(self, writer: list[Part], reader: Choice, types: frozenset[str]) -> list[Finding]:
        choices = [part for part in writer if isinstance(part, Choice)]
        if reader.keyword == "oneOf" and not _is_disjoint(reader):
            overlapping = [part for part in choices if part.keyword == "anyOf"]
            if overlapping and len(overlapping) == len(choices):
                message = "anyOf has become oneOf: a value that has two branches is no longer accepted"
                return [finding("COMBINED_TYPE_CHANGED", "", message)]
        matched = [self._choice_findings(one, reader) for one in choices]
        if [] in matched or self._some_branch(writer, reader, types):
            return []
        if len(types) > 1 and all(self._some_branch(writer, reader, frozenset({one})) for one in types):
            return []
        if matched:
            return min(matched, key=len)
        kind = "TYPE_CHANGED" if len(writer) <= 1 else "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
        return [
            finding(kind, "", f"no branch of the reader's {reader.keyword} accepts all values of the writer's schema")
        ]

    def _some_branch(self, writer: list[Part], reader: Choice, types: frozenset[str]) -> bool:
        return any(not self.part_findings(writer, parts_of([branch]), types) for branch in reader.branches)

    def _choice_findings(self, writer: Choice, reader: Choice) -> list[Finding]:
        lost = [
            index
            for index, branch in enumerate(writer.branches)
            if not any(self.accepts([branch], [other]) for other in reader.branches)
        ]
        if not lost:
            return []
        fewer = len(reader.branches) < len(writer.branches)
        kind = "SUM_TYPE_NARROWED" if fewer else "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
        branches = ", ".join(str(index) for index in lost)
        message = (
            f"no branch of the reader's {reader.keyword} accepts branch {branches} of the writer's {writer.keyword}"
        )
        return [finding(kind, "", message)]

    def _against_negation(self, writer: list[Part], reader: Negation, types: frozenset[str]) -> list[Finding]:
        excluded = parts_of([reader.node])
        if not types & writer_types(excluded) or any(isinstance(part, Nothing) for part in excluded):
            return []
        negations = [part for part in writer if isinstance(part, Negation)]
        # A smaller set of values is excluded: what the reader excludes, the writer excluded before.
        if any(self.accepts([reader.node], [one.node]) for one in negations):
            return []
        if negations:
            return [finding("NOT_TYPE_EXTENDED", "/not", "the reader's not excludes more values than the writer's")]
        return [finding("PRODUCT_TYPE_EXTENDED", "/not", "the reader's not excludes values that the writer may write")]

    def _against_condition(self, writer: list[Part], reader: Condition) -> list[Finding]:
        candidates = [self._condition_findings(part, reader) for part in writer if isinstance(part, Condition)]
        if candidates:
            return min(candidates, key=len)
        if not (parts_of([reader.then]) or parts_of([reader.otherwise])):
            return []
        message = "the reader's schema has an if with conditions that the writer's does not have"
        return [finding("PRODUCT_TYPE_EXTENDED", "/if", message)]

    def _condition_findings(self, writer: Condition, reader: Condition) -> list[Finding]:
        if not (self.accepts([writer.test], [reader.test]) and self.accepts([reader.test], [writer.test])):
            message = "the if has changed, so that other values have to meet the conditions of then and else"
            return [finding("COMBINED_TYPE_SUBSCHEMAS_CHANGED", "/if", message)]
        return [
            *within("/then", self.findings([writer.then], [reader.then])),
            *within("/else", self.findings([writer.otherwise], [reader.otherwise])),
        ]


def _is_disjoint(choice: Choice) -> bool:
    """Does no value have two branches, because their types differ?"""
    types = [one for branch in choice.branches for one in writer_types(parts_of([branch]))]
    return len(types) == len(set(types))
