"""Names for completion, read in a thread of their own: typing never waits for the cluster or for Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from moldau.sql.shell.completion import KnownNames

REFRESH_S: Final = 3.0
"""How old names may be while the user types."""
MAX_RELATIONS: Final = 1_000
"""Relations whose columns are kept."""


class NameSource(Protocol):
    """Where names come from. The calls may block."""

    def relations(self) -> Sequence[str]: ...

    def queries(self) -> Sequence[str]: ...

    def columns(self, relation: str) -> Sequence[str]: ...

    def functions(self) -> Sequence[str]: ...


class NameReader:
    """Reads names when they are wanted. `known` has what was read so far."""

    def __init__(self, source: Callable[[], NameSource]) -> None:
        """`source` may block until the session has started; it is called in the reader's thread."""
        self._get_source = source
        self._known = KnownNames()
        self._wanted: set[str] = set()
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="moldau-sql-names", daemon=True)
        self._thread.start()

    @property
    def known(self) -> KnownNames:
        return self._known

    def want(self, relations: Iterable[str]) -> None:
        """The user types: names should be fresh, also the columns of these relations. Returns at once."""
        self._wanted |= {relation for relation in relations if relation.lower() not in self._known.columns}
        self._wake.set()

    def forget(self) -> None:
        """A statement has run, which may have changed everything but the functions."""
        self._known = replace(self._known, columns={})
        self._wake.set()

    def close(self) -> None:
        self._closed.set()
        self._wake.set()

    def _run(self) -> None:
        try:
            source = self._get_source()
            self._known = replace(self._known, functions=tuple(source.functions()))
        except Exception:  # noqa: BLE001 - the statements report why the session does not start
            return
        while not self._closed.is_set():
            self._wake.clear()
            self._read(source)
            self._closed.wait(REFRESH_S if not self._wanted else 0)
            self._wake.wait()

    def _read(self, source: NameSource) -> None:
        """Reads what is wanted. A failure leaves the names as they were: completion is only a help."""
        try:
            self._known = replace(self._known, relations=tuple(source.relations()), queries=tuple(source.queries()))
            known = {name.lower(): name for name in self._known.relations}
            for relation in [*self._wanted]:
                self._wanted.discard(relation)
                if relation.lower() in known and len(self._known.columns) < MAX_RELATIONS:
                    columns = tuple(source.columns(known[relation.lower()]))
                    self._known = replace(self._known, columns={**self._known.columns, relation.lower(): columns})
        except Exception:  # noqa: BLE001 - see above
            return
