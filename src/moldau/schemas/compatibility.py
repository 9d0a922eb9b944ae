"""Compatibility levels: which earlier versions a new schema is compared with, and in which direction."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from moldau.schemas.parsed_schema import Incompatibility, ParsedSchema


class CompatibilityLevel(StrEnum):
    """The levels of Confluent's registry, by their names there."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")


def incompatibilities(
    new: ParsedSchema, earlier: Sequence[ParsedSchema], level: CompatibilityLevel
) -> list[Incompatibility]:
    """Why `new` may not follow these versions (oldest first); empty if it may. The newest version is compared first."""
    compared = list(reversed(earlier)) if level.is_transitive else list(earlier[-1:])
    for old in compared:
        found = _between(new, old, level)
        if found:
            return found
    return []


def _between(new: ParsedSchema, old: ParsedSchema, level: CompatibilityLevel) -> list[Incompatibility]:
    if level is CompatibilityLevel.NONE:
        return []
    if new.type is not old.type:
        return [Incompatibility("TYPE_MISMATCH", "/", f"the earlier schema is {old.type}, the new one {new.type}")]
    found: list[Incompatibility] = []
    if not level.startswith("FORWARD"):
        found += new.incompatibilities(old)
    if not level.startswith("BACKWARD"):
        found += old.incompatibilities(new)
    return found
