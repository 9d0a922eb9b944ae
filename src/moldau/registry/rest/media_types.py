"""Media types of the registry: which one answers an Accept header, and which ones a body may have."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

V1: Final = "application/vnd.schemaregistry.v1+json"
DEFAULT: Final = "application/vnd.schemaregistry+json"
JSON: Final = "application/json"

OFFERED: Final = ((V1, 1.0), (DEFAULT, 0.9), (JSON, 0.5))
"""The types of answers with the server's own preference."""
ACCEPTED: Final = frozenset({V1, DEFAULT, JSON, "application/octet-stream", ""})
"""The types of bodies. A body without a type counts as JSON, as in Confluent's registry."""

MAX_REMEMBERED: Final = 256
"""Distinct Accept headers whose result is kept: clients send a few, always the same."""


@lru_cache(MAX_REMEMBERED)
def answer_type(accept: str) -> str | None:
    """The type of the answer to a request with this Accept header; None if no type is acceptable."""
    if not accept.strip():
        return V1
    best, best_weight = None, 0.0
    wanted = [_wish(part) for part in accept.split(",") if part.strip()]
    for name, preference in OFFERED:
        # The most specific range that matches decides, as RFC 9110 says.
        matching = [(_specificity(kind), weight) for kind, weight in wanted if _matches(kind, name)]
        weight = preference * max(matching)[1] if matching else 0.0
        if weight > best_weight:
            best, best_weight = name, weight
    return best


def is_accepted(content_type: str) -> bool:
    """Whether a body of this Content-Type is read."""
    return content_type.partition(";")[0].strip().lower() in ACCEPTED


def _wish(part: str) -> tuple[str, float]:
    kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return kind, min(1.0, max(0.0, float(value)))
            except ValueError:
                return kind, 1.0
    return kind, 1.0


def _matches(kind: str, offered: str) -> bool:
    return kind in (offered, "*/*", "*") or (kind.endswith("/*") and offered.startswith(kind[:-1]))


def _specificity(kind: str) -> int:
    return 0 if kind in ("*/*", "*") else 1 if kind.endswith("/*") else 2
