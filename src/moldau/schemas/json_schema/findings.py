"""Findings of a comparison: a broken rule, with its place relative to the schema that was looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from moldau.schemas.parsed_schema import Incompatibility


@dataclass(frozen=True)
class Finding:
    """One broken rule."""

    kind: str
    path: str
    message: str

    def incompatibility(self) -> Incompatibility:
        path = self.path or "/"
        return Incompatibility(self.kind, path, f"at {path}: {self.message}")


def finding(kind: str, path: str, message: str) -> Finding:
    return Finding(kind, path, message)


def within(prefix: str, findings: Iterable[Finding]) -> list[Finding]:
    """Findings of a subschema, seen from the schema that contains it."""
    return [replace(one, path=prefix + one.path) for one in findings]


def pointer(*steps: str | int) -> str:
    """A JSON pointer."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
