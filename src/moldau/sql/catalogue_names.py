"""Names of the catalogue: a mapping that ignores case, and the known name nearest to a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class NameMap(Mapping[str, T], Generic[T]):
    """An immutable mapping whose names are found in any case. Iteration gives them as they were written."""

    def __init__(self, named: Mapping[str, T]) -> None:
        self._entries = {name.lower(): (name, value) for name, value in named.items()}

    def __getitem__(self, name: str) -> T:
        return self._entries[name.lower()][1]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._entries

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"NameMap({dict(self)!r})"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that the user may have meant; None if none is near."""
    written = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), written, n=1)
    return written[found[0]] if found else None
