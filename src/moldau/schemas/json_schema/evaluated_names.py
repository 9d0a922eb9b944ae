"""Rules about `unevaluatedProperties` and `unevaluatedItems` beside combined schemas.

Without `allOf`, `$ref` and the like in the same object, the keywords mean `additionalProperties` and `additionalItems`,
and are compared as these. With them, their meaning depends on all subschemas that look at the same object: the reader
is then accepted if it declares every name that the writer declares anywhere, or if nothing has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.schemas.json_schema.findings import Finding, finding, within
from moldau.schemas.json_schema.schema_node import REFERENCES, JsonSchemaNode
from moldau.schemas.json_schema.schema_parts import COMBINING, Keywords, equal, parts_of

if TYPE_CHECKING:
    from moldau.schemas.json_schema.comparison import Comparison

KINDS = {"unevaluatedProperties": "UNEVALUATED_PROPERTIES", "unevaluatedItems": "UNEVALUATED_ITEMS"}


def unevaluated_findings(comparison: Comparison, writer: Keywords, reader: Keywords, keyword: str) -> list[Finding]:
    if keyword not in reader.values or not _depends_on_others(reader):
        return []
    wanted = reader.child(keyword)
    if not parts_of([wanted]):
        return []
    if keyword not in writer.values:
        message = f"the reader's {keyword} refuses what the writer may write"
        return [finding(f"{KINDS[keyword]}_REMOVED", f"/{keyword}", message)]
    found = within(f"/{keyword}", comparison.findings([writer.child(keyword)], [wanted]))
    if found or _same_text(writer.node, reader.node):
        return found
    if keyword == "unevaluatedProperties":
        declared = _names(writer.node, certain=False, seen=set())
        if declared is not None and declared <= (_names(reader.node, certain=True, seen=set()) or set()):
            return []
    message = f"the schemas beside {keyword} have changed, and the reader no longer declares all that the writer does"
    return [finding(f"{KINDS[keyword]}_NARROWED", f"/{keyword}", message)]


def _depends_on_others(part: Keywords) -> bool:
    return bool(part.node.keywords().keys() & (COMBINING | {"contains", "dependentSchemas"}))


def _same_text(writer: JsonSchemaNode, reader: JsonSchemaNode) -> bool:
    return equal(writer.schema, reader.schema) and not _has_reference(reader.schema)


def _has_reference(value: Any) -> bool:
    if isinstance(value, dict):
        return any(name in REFERENCES or _has_reference(one) for name, one in value.items())
    return isinstance(value, list) and any(_has_reference(one) for one in value)


def _names(node: JsonSchemaNode, *, certain: bool, seen: set[int]) -> set[str] | None:
    """The names and patterns that a schema declares, also in schemas that it combines; None if it declares all names.

    With `certain` only those that are declared whatever the value is.
    """
    if node.key in seen or isinstance(node.schema, bool):
        return set()
    seen.add(node.key)
    keywords = node.keywords()
    if "additionalProperties" in keywords:
        return None
    found = {*keywords.get("properties", {}), *(f"/{one}/" for one in keywords.get("patternProperties", {}))}
    children = [node.child(one) for one in keywords.get("allOf", ())]
    if (target := node.target()) is not None:
        children.append(target)
    if not certain:
        branches = [
            *keywords.get("anyOf", ()),
            *keywords.get("oneOf", ()),
            *keywords.get("dependentSchemas", {}).values(),
        ]
        branches += [keywords[name] for name in ("if", "then", "else") if name in keywords]
        children += [node.child(one) for one in branches]
    for child in children:
        names = _names(child, certain=certain, seen=seen)
        if names is None:
            return None
        found |= names
    return found
