"""Lookup keys of a table: the form of a record's key that equal SQL values share.

A table with one text column as its key is looked up by the bytes of the key. Other keys, such as numbers and JSON
objects, can be written in several ways (`{"a":1}`, `{ "a": 1 }`). They are looked up by one normal form of their
columns. Columns whose values this module cannot compare as Spark does (times, decimals, structs) are left out: a lookup
may find too many rows, and never too few.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from moldau.sql.declarations import ColumnDeclaration, Declaration

MAX_LOOKUPS: Final = 1_000
"""The largest number of keys of one question, from IN lists."""

TEXT_TYPES: Final = frozenset({"STRING"})
NUMBER_TYPES: Final = {
    "TINYINT": 8,
    "BYTE": 8,
    "SMALLINT": 16,
    "SHORT": 16,
    "INT": 32,
    "INTEGER": 32,
    "BIGINT": 64,
    "LONG": 64,
}
"""Their bits: a number that does not fit is NULL in Spark."""
TRUTH_TYPES: Final = frozenset({"BOOLEAN"})

SPACE: Final = "".join(map(chr, range(33)))
"""What Spark's CAST ignores around a number."""

KeyValue = str | int | bool
UNREADABLE: Final = b"\x00"
"""The lookup of keys that are not in the declared format. No question asks for it: their columns are NULL."""


class TableKeys:
    """The lookup keys of one table."""

    def __init__(self, declaration: Declaration) -> None:
        self._all = declaration.key_columns
        # Several key columns are a JSON object, whatever the format.
        self._format = declaration.key_format.lower() if len(self._all) == 1 else "json"
        self.columns: tuple[ColumnDeclaration, ...] = tuple(one for one in self._all if is_comparable(one.type))
        """The key columns of which a question must give values."""

    @property
    def supported(self) -> bool:
        """Whether the table can be asked by key."""
        return bool(self.columns) and self._format in ("string", "json")

    @property
    def signature(self) -> bytes:
        """A text that changes with the form of lookup keys: an index with another one is built again."""
        return json.dumps([self._format, [[one.name, one.type] for one in self._all]]).encode()

    @property
    def are_bytes(self) -> bool:
        """Whether the lookup of a key is the key itself."""
        return self._format == "string" and _is_text(self.columns[0])

    def lookup(self, key: bytes) -> bytes:
        """The lookup of a record's key."""
        if self.are_bytes:
            return key
        try:
            text = key.decode()
            if self._format == "string":
                return _joined([_number_or_truth(text, self.columns[0])])
            return _joined(self._from_json(text))
        except ValueError:
            return UNREADABLE

    def lookups(self, values: Mapping[str, Sequence[KeyValue]]) -> list[bytes] | None:
        """The lookups of all combinations of these values, by the name of the column; None if there are too many."""
        each = [list(dict.fromkeys(values[column.name])) for column in self.columns]
        combined = itertools.islice(itertools.product(*each), MAX_LOOKUPS + 1)
        found = [str(one[0]).encode() if self.are_bytes else _joined(one) for one in combined]
        return found if len(found) <= MAX_LOOKUPS else None

    def _from_json(self, text: str) -> list[KeyValue]:
        parsed = json.loads(text)
        if not isinstance(parsed, dict):
            if len(self._all) != 1:
                raise ValueError("not an object")
            parsed = {self._all[0].name: parsed}
        return [_of_json(parsed.get(column.name), column) for column in self.columns]


def is_comparable(type_name: str) -> bool:
    """Whether values of this type can be part of a lookup."""
    name = type_name.upper()
    return name in TEXT_TYPES or name in NUMBER_TYPES or name in TRUTH_TYPES


def accepts(column: ColumnDeclaration, value: object) -> bool:
    """Whether Spark compares the column with a literal of this type without a conversion that could change it."""
    name = column.type.upper()
    if name in TEXT_TYPES:
        return isinstance(value, str)
    if name in NUMBER_TYPES:
        return isinstance(value, int) and not isinstance(value, bool)
    return name in TRUTH_TYPES and isinstance(value, bool)


def _joined(values: Sequence[KeyValue]) -> bytes:
    return json.dumps(list(values), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _is_text(column: ColumnDeclaration) -> bool:
    return column.type.upper() in TEXT_TYPES


def _number_or_truth(text: str, column: ColumnDeclaration) -> KeyValue:
    """The value of a key that is text, as Spark's CAST reads it."""
    if column.type.upper() in NUMBER_TYPES:
        return int(text.strip(SPACE))
    truths: Mapping[str, bool] = {"true": True, "t": True, "yes": True, "y": True, "1": True}
    lies: Mapping[str, bool] = {"false": False, "f": False, "no": False, "n": False, "0": False}
    found = {**truths, **lies}.get(text.strip(SPACE).lower())
    if found is None:
        raise ValueError(text)
    return found


def _of_json(value: Any, column: ColumnDeclaration) -> KeyValue:
    """The value of a column in a JSON key, as Spark's from_json reads it."""
    if accepts(column, value):
        return value  # type: ignore[no-any-return]
    if _is_text(column) and value is not None:
        return json.dumps(value, separators=(",", ":"))
    raise ValueError(column.name)
