"""Rules about types, enumerated values, strings and numbers of JSON Schemas."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from moldau.schemas.json_schema.findings import Finding, finding
from moldau.schemas.json_schema.property_patterns import matches
from moldau.schemas.json_schema.schema_parts import TYPES, Keywords, enumerated, equal, type_of, types_of

if TYPE_CHECKING:
    from moldau.schemas.json_schema.comparison import Comparison


def type_findings(types: frozenset[str], reader: Keywords) -> list[Finding]:
    """The reader must accept every type that the writer may write."""
    accepted = types_of({"type": reader.values["type"]}) if "type" in reader.values else None
    if accepted is None or types <= accepted:
        return []
    kind = "TYPE_CHANGED"
    if types == {"integer", "fraction"} and accepted == {"integer"}:
        kind = "TYPE_NARROWED"
    elif accepted < types < TYPES:
        kind = "SUM_TYPE_NARROWED"
    elif len(_names(types)) > 1 and len(_names(accepted)) > 1:
        kind = "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
    message = (
        f"the writer's type is {' or '.join(_names(types))}, the reader accepts {' or '.join(_names(accepted))} only"
    )
    return [finding(kind, "", message)]


def _names(types: frozenset[str]) -> list[str]:
    if "fraction" in types:
        types = types - {"integer", "fraction"} | {"number"}
    return sorted(types)


def enum_findings(comparison: Comparison, writer: Keywords, reader: Keywords, types: frozenset[str]) -> list[Finding]:
    """The reader's `enum` or `const` must have every value that the writer may write."""
    accepted = enumerated(reader.values)
    if accepted is None:
        return []
    path = "/const" if "const" in reader.values else "/enum"
    written = finite_values(writer.values, types)
    if written is None:
        message = f"the reader accepts {_listed(accepted)} only, the writer has no such list"
        return [finding("PRODUCT_TYPE_EXTENDED", path, message)]
    lost = [value for value in written if not any(equal(value, other) for other in accepted)]
    if not lost:
        return []
    narrowed = path == "/enum" and len(lost) < len(written)
    kind = "ENUM_ARRAY_NARROWED" if narrowed else "ENUM_ARRAY_CHANGED"
    return [finding(kind, path, f"the reader does not accept {_listed(lost)}, which the writer may write")]


def finite_values(keywords: Mapping[str, Any], types: frozenset[str]) -> list[Any] | None:
    """All values that a schema object accepts, if they are few."""
    values = enumerated(keywords)
    if values is not None:
        return [value for value in values if type_of(value) in types & types_of(keywords)]
    few: dict[str, list[Any]] = {"null": [None], "boolean": [False, True]}
    return [value for one in sorted(types) for value in few[one]] if types <= few.keys() else None


def _listed(values: list[Any]) -> str:
    shown = ", ".join(repr(value)[:40] for value in values[:5])
    return shown + (f" and {len(values) - 5} more" if len(values) > 5 else "")


# Strings --------------------------------------------------------------------------------------------------------------


def string_findings(comparison: Comparison, writer: Keywords, reader: Keywords, types: frozenset[str]) -> list[Finding]:
    values = finite_values(writer.values, types)
    strings = None if values is None else [value for value in values if isinstance(value, str)]
    shortest, longest = writer.values.get("minLength"), writer.values.get("maxLength")
    if strings:
        shortest, longest = min(map(len, strings)), max(map(len, strings))
    found = [
        *lower_bound("MIN_LENGTH", "minLength", shortest or None, reader.values),
        *upper_bound("MAX_LENGTH", "maxLength", longest, reader.values),
    ]
    pattern = reader.values.get("pattern")
    if pattern is None or pattern == writer.values.get("pattern"):
        return found
    if strings is not None and all(matches(pattern, value) for value in strings):
        return found
    kind = "PATTERN_CHANGED" if "pattern" in writer.values else "PATTERN_ADDED"
    return [*found, finding(kind, "/pattern", f"the writer's strings need not match the reader's pattern {pattern!r}")]


def lower_bound(kind: str, keyword: str, written: Any, reader: Mapping[str, Any]) -> list[Finding]:
    """A keyword like `minLength`. `written` is the least value that the writer guarantees; None if it does not."""
    limit = reader.get(keyword)
    if not limit or (written is not None and written >= limit):
        return []
    if written is None:
        message = f"the reader has a new {keyword} of {limit}, the writer has none"
        return [finding(f"{kind}_ADDED", f"/{keyword}", message)]
    message = f"the reader's {keyword} of {limit} is more than the writer's {written}"
    return [finding(f"{kind}_INCREASED", f"/{keyword}", message)]


def upper_bound(kind: str, keyword: str, written: Any, reader: Mapping[str, Any]) -> list[Finding]:
    """A keyword like `maxLength`. `written` is the largest value that the writer guarantees; None if it does not."""
    limit = reader.get(keyword)
    if limit is None or (written is not None and written <= limit):
        return []
    if written is None:
        message = f"the reader has a new {keyword} of {limit}, the writer has none"
        return [finding(f"{kind}_ADDED", f"/{keyword}", message)]
    message = f"the reader's {keyword} of {limit} is less than the writer's {written}"
    return [finding(f"{kind}_DECREASED", f"/{keyword}", message)]


# Numbers --------------------------------------------------------------------------------------------------------------

Bound = tuple[float | int, bool]
"""A limit, and whether the limit itself is excluded."""


def number_findings(comparison: Comparison, writer: Keywords, reader: Keywords, types: frozenset[str]) -> list[Finding]:
    values = finite_values(writer.values, types)
    numbers = None if values is None else [one for one in values if type_of(one) in ("integer", "fraction")]
    lowest, highest = _bound(_limits(writer, "minimum"), max), _bound(_limits(writer, "maximum"), min)
    if numbers:
        lowest, highest = (min(numbers), False), (max(numbers), False)
    found: list[Finding] = []
    for name, (limit, excluded) in _limits(reader, "minimum").items():
        if lowest is None or lowest[0] < limit or (excluded and lowest == (limit, False)):
            found.append(_limit_finding(name, limit, lowest, "INCREASED", "more"))
    for name, (limit, excluded) in _limits(reader, "maximum").items():
        if highest is None or highest[0] > limit or (excluded and highest == (limit, False)):
            found.append(_limit_finding(name, limit, highest, "DECREASED", "less"))
    return found + _multiple_findings(numbers, writer, reader, types)


def _limits(part: Keywords, name: str) -> dict[str, Bound]:
    """The limits on one side by the keywords that set them, also in the form of draft 4."""
    exclusive = "exclusive" + name.capitalize()
    limit, excluded = part.values.get(name), part.values.get(exclusive)
    if isinstance(excluded, bool):
        return {} if limit is None else {exclusive if excluded else name: (limit, excluded)}
    found: dict[str, Bound] = {}
    if limit is not None:
        found[name] = (limit, False)
    if excluded is not None:
        found[exclusive] = (excluded, True)
    return found


def _bound(limits: Mapping[str, Bound], strictest: Any) -> Bound | None:
    if not limits:
        return None
    limit = strictest(one for one, _ in limits.values())
    return limit, any(excluded for one, excluded in limits.values() if one == limit)


def _limit_finding(keyword: str, limit: Any, written: Bound | None, change: str, comparative: str) -> Finding:
    kind = {
        "minimum": "MINIMUM",
        "maximum": "MAXIMUM",
        "exclusiveMinimum": "EXCLUSIVE_MINIMUM",
        "exclusiveMaximum": "EXCLUSIVE_MAXIMUM",
    }[keyword]
    if written is None:
        message = f"the reader has a new {keyword} of {limit}, the writer has none"
        return finding(f"{kind}_ADDED", f"/{keyword}", message)
    shown = f"{written[0]} (excluded)" if written[1] else f"{written[0]}"
    message = f"the reader's {keyword} of {limit} allows {comparative} limited values than the writer's {shown}"
    return finding(f"{kind}_{change}", f"/{keyword}", message)


def _multiple_findings(
    numbers: list[Any] | None, writer: Keywords, reader: Keywords, types: frozenset[str]
) -> list[Finding]:
    wanted = reader.values.get("multipleOf")
    if wanted is None:
        return []
    written = writer.values.get("multipleOf", None if "fraction" in types else 1)
    steps = numbers if numbers is not None else None if written is None else [written]
    if steps is not None and all(_is_multiple(one, wanted) for one in steps):
        return []
    if "multipleOf" not in writer.values:
        message = f"the reader has a new multipleOf {wanted}, the writer has none"
        return [finding("MULTIPLE_OF_ADDED", "/multipleOf", message)]
    kind = "MULTIPLE_OF_EXPANDED" if _is_multiple(wanted, written) else "MULTIPLE_OF_CHANGED"
    message = f"a multiple of the writer's {written} need not be a multiple of the reader's {wanted}"
    return [finding(kind, "/multipleOf", message)]


def _is_multiple(number: Any, step: Any) -> bool:
    return Fraction(str(number)) % Fraction(str(step)) == 0
