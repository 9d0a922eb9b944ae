"""Records of the catalogue's topics, applied in their order to what a process knows.

A record that cannot be read is logged and skipped: what was known under its key before still counts in this process. It
never stops a shell or a server, because anyone who may write the topic could stop all of them with one record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau.host.event_log import event_logger
from moldau.host.threads import Lock
from moldau.sql.catalogue_names import NameMap
from moldau.sql.declarations import Declaration
from moldau.sql.queries import QueryDefinition, QueryStatus

log = event_logger(__name__)

DECLARATION: Final = "declaration"
QUERY: Final = "query"
STATUS: Final = "status"

PARSERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Any]]] = {
    DECLARATION: Declaration.from_json,
    QUERY: QueryDefinition.from_json,
    STATUS: QueryStatus.from_json,
}


def record_key(kind: str, name: str) -> bytes:
    """The key of a record. Names that differ in case only have the same key."""
    return f"{kind}-{name.lower()}".encode()


class CatalogueRecords:
    """What the records say, as immutable maps by name. One thread applies records, any thread reads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: dict[str, dict[str, Any]] = {kind: {} for kind in PARSERS}
        self._maps: dict[str, NameMap[Any]] = {}
        self._damaged: set[str] = set()

    @property
    def declarations(self) -> NameMap[Declaration]:
        return self._map(DECLARATION)

    @property
    def queries(self) -> NameMap[QueryDefinition]:
        return self._map(QUERY)

    @property
    def statuses(self) -> NameMap[QueryStatus]:
        return self._map(STATUS)

    @property
    def damaged(self) -> frozenset[str]:
        """The keys whose newest record cannot be read."""
        with self._lock:
            return frozenset(self._damaged)

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record. Never raises."""
        text = (key or b"").decode(errors="replace")
        kind, _, name = text.partition("-")
        if kind not in PARSERS or not name:
            log.warning("a record of the catalogue is skipped", extra={"key": text, "reason": "unknown key"})
            return
        try:
            found = None if value is None else _parsed(kind, name, value)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            log.warning("a record of the catalogue is skipped", extra={"key": text, "reason": repr(error)})
            with self._lock:
                self._damaged.add(text)
            return
        with self._lock:
            self._damaged.discard(text)
            self._maps.pop(kind, None)
            if found is None:
                self._found[kind].pop(name, None)
            else:
                self._found[kind][name] = found

    def _map(self, kind: str) -> NameMap[Any]:
        with self._lock:
            if kind not in self._maps:
                self._maps[kind] = NameMap({found.name: found for found in self._found[kind].values()})
            return self._maps[kind]


def _parsed(kind: str, name: str, value: bytes) -> Any:
    found = PARSERS[kind](json.loads(value))
    if found.name.lower() != name:
        raise ValueError(f"the record is about {found.name!r}")
    return found
