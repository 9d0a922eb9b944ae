"""Paths of requests: the table of endpoints as a tree, and the prefix `/contexts/NAME` of every path.

A path is split before its parts are decoded: a subject with a slash in it (`a%2Fb`) is one part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from moldau.registry.rest.endpoint import ApiEndpoint
from moldau.registry.rest.errors import ApiError

CONTEXTS: Final = "contexts"
DEFAULT_CONTEXT: Final = "."
QUALIFIED: Final = (":.", ":*:")
"""The beginnings of a subject that names its context."""


def path_parts(raw_path: bytes) -> list[str]:
    """The decoded parts of a path. One slash at the end counts for nothing."""
    text = raw_path.decode("latin-1").removeprefix("/").removesuffix("/")
    if not text:
        return []
    parts = text.split("/")
    return [unquote(part) for part in parts] if "%" in text else parts


class _Node:
    def __init__(self) -> None:
        self.fixed: dict[str, _Node] = {}
        self.named: tuple[str, _Node] | None = None
        self.methods: dict[str, ApiEndpoint] = {}


class PathTree:
    """The endpoints by their paths."""

    def __init__(self, endpoints: Iterable[ApiEndpoint]) -> None:
        self._root = _Node()
        for endpoint in endpoints:
            node = self._root
            for part in [one for one in endpoint.operation.path.split("/") if one]:
                node = _child(node, part)
            node.methods[endpoint.operation.method] = endpoint

    def find(self, parts: Sequence[str]) -> tuple[Mapping[str, ApiEndpoint], dict[str, str]]:
        """The endpoints of a path by method, with the values of its names. No methods: there is no such path."""
        node, values = self._root, {}
        for part in parts:
            below = node.fixed.get(part)
            if below is None:
                if node.named is None or not part:
                    return {}, {}
                name, below = node.named
                values[name] = part
            node = below
        return node.methods, values


def _child(node: _Node, part: str) -> _Node:
    if not part.startswith("{"):
        return node.fixed.setdefault(part, _Node())
    if node.named is None:
        node.named = (part[1:-1], _Node())
    return node.named[1]


def within_context(
    parts: Sequence[str], query: Mapping[str, Sequence[str]]
) -> tuple[list[str], Mapping[str, Sequence[str]]]:
    """The path and query of a request below `/contexts/NAME/…`, without that prefix: its subject names the context.

    Raises ApiError: 400 for a name that cannot be a context.
    """
    prefix, rest = context_prefix(parts[1]), list(parts[2:])
    if not rest:
        return [CONTEXTS, parts[1]], query
    if rest[0] in ("config", "mode"):
        if len(rest) == 1:
            return [*rest, prefix] if prefix else rest, query
        rest[1] = _qualified(prefix, rest[1])
    elif "subjects" in rest[:2] and len(rest) > rest.index("subjects") + 1:
        place = rest.index("subjects") + 1
        rest[place] = _qualified(prefix, rest[place])
    elif rest[:2] == ["schemas", "ids"]:
        subject = query.get("subject", [""])[0]
        query = {**query, "subject": [_qualified(prefix, subject)]}
    elif rest in (["schemas"], ["subjects"]):
        query = {**query, "subjectPrefix": [_qualified(prefix, one) for one in query.get("subjectPrefix", [""])]}
    return rest, query


def context_prefix(name: str) -> str:
    """What begins the subjects of a context: `:.NAME:`; an empty text for the default context.

    Raises ApiError: 400 for a name with a colon in it.
    """
    name = name.removeprefix(":").removesuffix(":")
    if ":" in name:
        raise ApiError(400, 400, f"Context name '{name}' cannot contain a colon")
    name = name if name.startswith(DEFAULT_CONTEXT) else f".{name}"
    return "" if name == DEFAULT_CONTEXT else f":{name}:"


def _qualified(prefix: str, subject: str) -> str:
    return subject if subject.startswith(QUALIFIED) else prefix + subject
