"""Topic names: legal names, and names that collide in metrics."""

from __future__ import annotations

import re
from typing import Final

MAX_TOPIC_NAME_CHARACTERS: Final = 249
CLUSTER_METADATA: Final = "__cluster_metadata"  # the name of Kafka's own metadata log

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_error(name: str) -> str | None:
    """Why the name is not legal, or None if it is."""
    if not name:
        return "A topic name must not be empty."
    if name in (".", ".."):
        return "A topic name must not be '.' or '..'."
    if len(name) > MAX_TOPIC_NAME_CHARACTERS:
        return f"A topic name has {MAX_TOPIC_NAME_CHARACTERS} characters at most, this one has {len(name)}: {name}"
    if not _LEGAL.fullmatch(name):
        return f"A topic name is made of ASCII letters, digits, '.', '_' and '-' only: {name}"
    return None


def collision_key(name: str) -> str | None:
    """The same key for all names that would share a metric, because metrics write dots as underscores. None: no
    collision is possible."""
    return name.replace(".", "_") if "." in name or "_" in name else None
