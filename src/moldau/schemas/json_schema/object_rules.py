"""Rules about objects of JSON Schemas: properties, required ones, content models, dependencies.

The content model of an object says which properties it may have that are not declared: any (open), none (closed), or
those that `patternProperties` or a schema in `additionalProperties` accept (partially open). A property that is added
to an open model is refused unless its schema is empty: the writer may have used the name with another type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moldau.schemas.json_schema.evaluated_names import unevaluated_findings
from moldau.schemas.json_schema.findings import Finding, finding, pointer, within
from moldau.schemas.json_schema.property_patterns import matches
from moldau.schemas.json_schema.scalar_rules import lower_bound, upper_bound
from moldau.schemas.json_schema.schema_node import JsonSchemaNode
from moldau.schemas.json_schema.schema_parts import COMBINING, Keywords, Nothing, parts_of

if TYPE_CHECKING:
    from moldau.schemas.json_schema.comparison import Comparison


def object_findings(comparison: Comparison, writer: Keywords, reader: Keywords, types: frozenset[str]) -> list[Finding]:
    before, after = ObjectRules(writer), ObjectRules(reader)
    found: list[Finding] = []
    for name in dict.fromkeys([*before.properties, *after.properties]):
        found += _property_findings(comparison, before, after, name)
    return [
        *found,
        *_required_findings(before, after),
        *lower_bound("MIN_PROPERTIES", "minProperties", before.least_size(), after.values),
        *upper_bound("MAX_PROPERTIES", "maxProperties", before.largest_size(), after.values),
        *_additional_findings(comparison, before, after),
        *_pattern_findings(comparison, before, after),
        *_name_findings(comparison, before, after),
        *_dependency_findings(comparison, before, after),
        *unevaluated_findings(comparison, writer, reader, "unevaluatedProperties"),
    ]


class ObjectRules:
    """What the keywords of one schema say about an object."""

    def __init__(self, part: Keywords) -> None:
        self.part = part
        self.values = part.values
        self.properties: Mapping[str, Any] = part.values.get("properties", {})
        self.patterns: Mapping[str, Any] = part.values.get("patternProperties", {})
        self.required: list[str] = _names(part.values.get("required"))

    def additional(self) -> JsonSchemaNode:
        """The schema of all properties that nothing else names."""
        if "additionalProperties" in self.values:
            return self.part.child("additionalProperties")
        if "unevaluatedProperties" in self.values and not self.part.node.keywords().keys() & COMBINING:
            return self.part.child("unevaluatedProperties")
        return self.part.node.child(True)

    def is_open(self) -> bool:
        return not parts_of([self.additional()]) and not self.patterns

    def is_closed(self) -> bool:
        return _is_nothing([self.additional()]) and not self.patterns

    def schemas_of(self, name: str, *, unknown_matches: bool) -> list[JsonSchemaNode]:
        """All schemas that a property has to have."""
        found = [self.part.child("properties", name)] if name in self.properties else []
        answers = {pattern: matches(pattern, name) for pattern in self.patterns}
        found += [
            self.part.child("patternProperties", pattern)
            for pattern, answer in answers.items()
            if answer or (answer is None and unknown_matches)
        ]
        if found:
            return found
        if None in answers.values() and not unknown_matches:
            return []
        return [self.additional()]

    def default_of(self, name: str) -> bool:
        """Does the property have a default?"""
        if name not in self.properties:
            return False
        schema = self.part.child("properties", name)
        followed = schema.followed()
        return any(isinstance(one.schema, dict) and "default" in one.schema for one in (schema, followed))

    def least_size(self) -> int | None:
        return max(self.values.get("minProperties", 0), len(set(self.required))) or None

    def largest_size(self) -> int | None:
        limits = [self.values["maxProperties"]] if "maxProperties" in self.values else []
        if self.is_closed():
            limits.append(len(self.properties))
        return min(limits, default=None)


def _names(required: Any) -> list[str]:
    return list(required) if isinstance(required, list) else []


def _is_nothing(nodes: list[JsonSchemaNode]) -> bool:
    return any(isinstance(part, Nothing) for part in parts_of(nodes))


def _property_findings(comparison: Comparison, before: ObjectRules, after: ObjectRules, name: str) -> list[Finding]:
    place = pointer("properties", name)
    written = before.schemas_of(name, unknown_matches=False)
    wanted = after.schemas_of(name, unknown_matches=True)
    found = within(place, comparison.findings(written, wanted))
    if name in before.properties and name in after.properties:
        return found
    if name in after.properties:
        return _added(before, after, name, written, found)
    if not found:
        return []
    if after.is_closed():
        message = f'the property "{name}" was removed, and the reader accepts no undeclared ones'
        return [finding("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", place, message)]
    message = (
        f'the property "{name}" was removed, and the reader\'s schema of undeclared ones does not accept its values'
    )
    return [finding("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", place, message), *found]


def _added(
    before: ObjectRules, after: ObjectRules, name: str, written: list[JsonSchemaNode], found: list[Finding]
) -> list[Finding]:
    place = pointer("properties", name)
    required = name in after.required and name not in before.required
    with_default = after.default_of(name)
    if not parts_of(written):
        if not found and not (required and not with_default):
            return []
        kind = "OPTIONAL_PROPERTY"
        if required:
            kind = "REQUIRED_PROPERTY_WITH_DEFAULT" if with_default else "REQUIRED_PROPERTY"
        message = (
            f'the property "{name}" was added to an open content model: the writer may have used the name otherwise. '
            "Close the model with additionalProperties: false before properties are added"
        )
        return [finding(f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL", place, message)]
    if found:
        message = f'the property "{name}" was added, and the writer\'s schema of undeclared ones has other values'
        return [finding("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", place, message), *found]
    if required and not with_default:
        message = f'the property "{name}" was added and is required, but has no default. Add one, or make it optional'
        return [finding("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", place, message)]
    return []


def _required_findings(before: ObjectRules, after: ObjectRules) -> list[Finding]:
    return [
        finding(
            "REQUIRED_ATTRIBUTE_ADDED",
            pointer("required", name),
            f'the property "{name}" is required by the reader, and optional for the writer. Give it a default',
        )
        for name in after.required
        if name not in before.required
        and not after.default_of(name)
        and (name in before.properties or name not in after.properties)
    ]


def _additional_findings(comparison: Comparison, before: ObjectRules, after: ObjectRules) -> list[Finding]:
    written, wanted = before.additional(), after.additional()
    found = comparison.findings([written], [wanted])
    if not found:
        return []
    keyword = "unevaluatedProperties" if "additionalProperties" not in after.values else "additionalProperties"
    kind = "UNEVALUATED_PROPERTIES" if keyword == "unevaluatedProperties" else "ADDITIONAL_PROPERTIES"
    if _is_nothing([wanted]):
        message = "the reader accepts no undeclared properties, the writer may write them"
        return [finding(f"{kind}_REMOVED", f"/{keyword}", message)]
    if not parts_of([written]):
        message = "the reader accepts only some undeclared properties, the writer may write any"
        return [finding(f"{kind}_NARROWED", f"/{keyword}", message)]
    return within(f"/{keyword}", found)


def _pattern_findings(comparison: Comparison, before: ObjectRules, after: ObjectRules) -> list[Finding]:
    found: list[Finding] = []
    for pattern in after.patterns:
        place, wanted = pointer("patternProperties", pattern), after.part.child("patternProperties", pattern)
        if pattern in before.patterns:
            found += within(place, comparison.findings([before.part.child("patternProperties", pattern)], [wanted]))
            continue
        # Names that match the new pattern may come from the undeclared ones, and from any other pattern.
        others = [before.part.child("patternProperties", other) for other in before.patterns]
        if not all(comparison.accepts([one], [wanted]) for one in (before.additional(), *others)):
            message = f"the pattern {pattern!r} was added, and the writer may write other values under such names"
            found.append(finding("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", place, message))
    for pattern in before.patterns:
        written = before.part.child("patternProperties", pattern)
        if pattern not in after.patterns and not comparison.accepts([written], [after.additional()]):
            place = pointer("patternProperties", pattern)
            message = f"the pattern {pattern!r} was removed, and the reader does not accept its values under such names"
            found.append(finding("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", place, message))
    return found


def _name_findings(comparison: Comparison, before: ObjectRules, after: ObjectRules) -> list[Finding]:
    if "propertyNames" not in after.values:
        return []
    wanted = after.part.child("propertyNames")
    written = before.part.child("propertyNames") if "propertyNames" in before.values else before.part.node.child(True)
    found = comparison.findings([written], [wanted], frozenset({"string"}))
    if found and "propertyNames" not in before.values:
        return [
            finding("SCHEMA_ADDED", "/propertyNames", "the reader has rules for names of properties, the writer none")
        ]
    return within("/propertyNames", found)


# Dependencies ---------------------------------------------------------------------------------------------------------


def _dependency_findings(comparison: Comparison, before: ObjectRules, after: ObjectRules) -> list[Finding]:
    found: list[Finding] = []
    written = _dependencies(before)
    for name, (keyword, wanted) in _dependencies(after).items():
        if name not in before.properties and before.is_closed():
            continue
        place = pointer(keyword, name)
        _, known = written.get(name, (keyword, None))
        if isinstance(wanted, list):
            found += _array_dependency_findings(before, name, place, known, wanted)
        elif known is None or isinstance(known, list):
            if parts_of([after.part.node.child(wanted)]):
                message = f'objects with "{name}" must have one more schema for the reader'
                found.append(finding("DEPENDENCY_SCHEMA_ADDED", place, message))
        else:
            children = [before.part.node.child(known)], [after.part.node.child(wanted)]
            found += within(place, comparison.findings(*children))
    return found


def _array_dependency_findings(
    before: ObjectRules, name: str, place: str, known: Any, wanted: list[str]
) -> list[Finding]:
    known_names = _names(known)
    lost = [one for one in wanted if one not in known_names and one not in before.required and one != name]
    if not lost:
        return []
    kind = "DEPENDENCY_ARRAY_ADDED"
    if known_names:
        extended = set(known_names) <= set(wanted)
        kind = "DEPENDENCY_ARRAY_EXTENDED" if extended else "DEPENDENCY_ARRAY_CHANGED"
    message = f'objects with "{name}" must have {", ".join(lost)} too for the reader, not for the writer'
    return [finding(kind, place, message)]


def _dependencies(rules: ObjectRules) -> dict[str, tuple[str, Any]]:
    found: dict[str, tuple[str, Any]] = {}
    for keyword in ("dependencies", "dependentSchemas", "dependentRequired"):
        for name, value in rules.values.get(keyword, {}).items():
            found[name] = (keyword, value)
    return found
