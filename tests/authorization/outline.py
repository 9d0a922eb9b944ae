"""Outline of an answer: its errors, the resources that it names, and the authorised operations.

Everything else (offsets, addresses, settings, texts) may differ between servers and is left out. Names of resources
are replaced by their roles. Elements about other resources than those of the case are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moldau.wire.message import WireStruct
from moldau.wire.primitives import ZERO_UUID
from tests.authorization.matrix import Resources

NAMES = frozenset(
    {"name", "topic", "topic_name", "group_id", "transactional_id", "resource_name", "key", "topic_id", "token_id"}
)
"""Fields that name a resource."""
LEFT_OUT = frozenset({"configs", "synonyms", "brokers", "node_endpoints", "unknown_tags", "members"})

Outline = Any


def outline(value: Any, resources: Resources) -> Outline:
    """Nested dictionaries and sorted lists of what counts."""
    return _struct(value, resources.roles(), {found: name for name, found in resources.topic_ids.items()})


def _struct(value: WireStruct, roles: dict[str, str], ids: dict[bytes, str]) -> dict[str, Outline]:
    found: dict[str, Outline] = {}
    for name in value.__slots__:
        if name in LEFT_OUT:
            continue
        below = getattr(value, name)
        if name.endswith(("error_code", "authorized_operations")):
            found[name] = below
        elif name in NAMES:
            found[name] = _name(below, roles, ids)
        elif isinstance(below, list) and below and isinstance(below[0], WireStruct):
            elements = [_struct(one, roles, ids) for one in below]
            kept = [one for one in elements if not _foreign(one)]
            if kept:
                found[name] = sorted(kept, key=repr)
    return found


def _name(value: Any, roles: dict[str, str], ids: dict[bytes, str]) -> str | None:
    if value is None or value in ("", ZERO_UUID):
        return None
    if isinstance(value, bytes):
        return f"id of {roles.get(ids.get(value, ''), '?')}" if value in ids else "another id"
    return roles.get(value, "another")


def _foreign(element: dict[str, Outline]) -> bool:
    return any(element.get(name) == "another" for name in NAMES)


def codes(found: Outline) -> Iterator[int]:
    """All error codes in an outline."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name.endswith("error_code"):
                yield value
            else:
                yield from codes(value)
    elif isinstance(found, list):
        for one in found:
            yield from codes(one)


def names(found: Outline) -> Iterator[str]:
    """All roles that an outline names."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name in NAMES and value is not None:
                yield value.removeprefix("id of ")
            else:
                yield from names(value)
    elif isinstance(found, list):
        for one in found:
            yield from names(one)
