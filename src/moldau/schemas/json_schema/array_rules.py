"""Rules about arrays of JSON Schemas: items by position, further items, sizes, `contains`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moldau.schemas.json_schema.evaluated_names import unevaluated_findings
from moldau.schemas.json_schema.findings import Finding, finding, pointer, within
from moldau.schemas.json_schema.scalar_rules import lower_bound, upper_bound
from moldau.schemas.json_schema.schema_node import JsonSchemaNode
from moldau.schemas.json_schema.schema_parts import COMBINING, Keywords, Nothing, parts_of

if TYPE_CHECKING:
    from moldau.schemas.json_schema.comparison import Comparison


def array_findings(comparison: Comparison, writer: Keywords, reader: Keywords, types: frozenset[str]) -> list[Finding]:
    before, after = ArrayRules(writer), ArrayRules(reader)
    found: list[Finding] = []
    for index in range(max(len(before.first), len(after.first))):
        if before.may_have(index):
            found += _item_findings(comparison, before, after, index)
    found += _rest_findings(comparison, before, after)
    found += lower_bound("MIN_ITEMS", "minItems", before.values.get("minItems"), after.values)
    found += upper_bound("MAX_ITEMS", "maxItems", before.largest_size(), after.values)
    if after.values.get("uniqueItems") and not before.values.get("uniqueItems") and before.may_have(1):
        message = "the reader's items must be unique, the writer's need not be"
        found.append(finding("UNIQUE_ITEMS_ADDED", "/uniqueItems", message))
    found += _contains_findings(comparison, before, after)
    return found + unevaluated_findings(comparison, writer, reader, "unevaluatedItems")


class ArrayRules:
    """What the keywords of one schema say about an array."""

    def __init__(self, part: Keywords) -> None:
        self.part = part
        self.values = part.values
        items: Any = part.values.get("items")
        self.items_keyword = "items"
        self.rest_keyword = "items"
        if "prefixItems" in part.values:
            self.first: Sequence[Any] = part.values["prefixItems"]
            self.items_keyword = "prefixItems"
        elif isinstance(items, list):
            self.first = items
            self.rest_keyword = "additionalItems"
        else:
            self.first = ()

    def rest(self) -> JsonSchemaNode:
        """The schema of all items after the first ones."""
        if self.rest_keyword in self.values:
            return self.part.child(self.rest_keyword)
        if "unevaluatedItems" in self.values and not self.part.node.keywords().keys() & (COMBINING | {"contains"}):
            return self.part.child("unevaluatedItems")
        return self.part.node.child(True)

    def item(self, index: int) -> JsonSchemaNode:
        return self.part.node.child(self.first[index]) if index < len(self.first) else self.rest()

    def largest_size(self) -> int | None:
        limits = [self.values["maxItems"]] if "maxItems" in self.values else []
        if _is_nothing(self.rest()):
            limits.append(len(self.first))
        return min(limits, default=None)

    def may_have(self, index: int) -> bool:
        largest = self.largest_size()
        return largest is None or index < largest


def _is_nothing(node: JsonSchemaNode) -> bool:
    return any(isinstance(part, Nothing) for part in parts_of([node]))


def _item_findings(comparison: Comparison, before: ArrayRules, after: ArrayRules, index: int) -> list[Finding]:
    written, wanted = before.item(index), after.item(index)
    place = pointer(after.items_keyword if index < len(after.first) else before.items_keyword, index)
    found = within(place, comparison.findings([written], [wanted]))
    if not found or (index < len(before.first) and index < len(after.first)):
        return found
    if index < len(after.first):
        if not parts_of([written]):
            message = f"item {index} got a schema, and the writer may have written any value there"
            return [finding("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", place, message)]
        message = f"item {index} got a schema that does not accept what the writer's schema of further items does"
        return [finding("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", place, message), *found]
    if _is_nothing(wanted):
        message = f"item {index} was removed, and the reader accepts no further items"
        return [finding("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", place, message)]
    message = f"item {index} was removed, and the reader's schema of further items does not accept its values"
    return [finding("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", place, message), *found]


def _rest_findings(comparison: Comparison, before: ArrayRules, after: ArrayRules) -> list[Finding]:
    if not before.may_have(max(len(before.first), len(after.first))):
        return []
    written, wanted = before.rest(), after.rest()
    found = comparison.findings([written], [wanted])
    if not found:
        return []
    keyword = after.rest_keyword if after.rest_keyword in after.values else "unevaluatedItems"
    kind = "UNEVALUATED_ITEMS" if keyword == "unevaluatedItems" else "ADDITIONAL_ITEMS"
    if not before.first and not after.first and not parts_of([written]):
        return [finding("SCHEMA_ADDED", f"/{keyword}", "the reader's items have a schema, the writer's have none")]
    if _is_nothing(wanted):
        message = "the reader accepts no further items, the writer may write them"
        return [finding(f"{kind}_REMOVED", f"/{keyword}", message)]
    if not parts_of([written]):
        message = "the reader accepts only some further items, the writer may write any"
        return [finding(f"{kind}_NARROWED", f"/{keyword}", message)]
    return within(f"/{keyword}", found)


def _contains_findings(comparison: Comparison, before: ArrayRules, after: ArrayRules) -> list[Finding]:
    if "contains" not in after.values:
        return []
    wanted = after.part.child("contains")
    least, largest = after.values.get("minContains", 1), after.values.get("maxContains")
    if "contains" not in before.values:
        if not least and largest is None:
            return []
        return [finding("SCHEMA_ADDED", "/contains", "the reader's contains has no counterpart in the writer's schema")]
    written = before.part.child("contains")
    known = before.values.get("minContains", 1)
    found: list[Finding] = []
    if least:
        found += within("/contains", comparison.findings([written], [wanted]) if known else [])
        found += lower_bound("MIN_CONTAINS", "minContains", known, {"minContains": least})
    if largest is not None:
        # Every item that counts for the reader must count for the writer, whose maximum is known.
        found += within("/contains", comparison.findings([wanted], [written]))
        found += upper_bound("MAX_CONTAINS", "maxContains", before.values.get("maxContains"), after.values)
    return found
