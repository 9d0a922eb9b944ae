"""All cases of the denial matrix."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.wire.api import ApiKey
from tests.authorization import (  # noqa: F401  (they register their cases)
    cluster_cases,
    group_cases,
    mixed_cases,
    security_cases,
    topic_cases,
    transaction_cases,
)
from tests.authorization.matrix import CASES, OPEN, Variant, variants

__all__ = ["CASES", "OPEN", "SETTINGS", "all_variants"]

SETTINGS = {
    "transaction.two.phase.commit.enable": "true",
    "delegation.token.secret.key": "not-a-secret-of-anybody",
}
"""Broker settings that the cases need."""


def all_variants(served: Iterable[ApiKey] | None = None) -> list[Variant]:
    """The variants of all cases, or of those whose API a server has."""
    apis = None if served is None else set(served)
    return [one for one in variants() if apis is None or one.case.api in apis]
