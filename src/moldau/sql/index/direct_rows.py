"""Rows of a table from the bytes of its records, without Spark, for values that have only one meaning.

Spark needs a tenth of a second for any query; reading one JSON object takes microseconds. This module reads what Spark
would read in the same way: whole numbers, floats, texts and truths of the declared type, and times as Spark writes
them. Anything else (a number in a text column, a value out of range, a nested type, broken JSON) raises NotDirect, and
Spark answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from moldau.sql.declarations import ColumnDeclaration, Declaration
from moldau.sql.index.index_store import IndexedRecord
from moldau.sql.index.pull_query import STAR, PlainColumn
from moldau.sql.index.table_keys import NUMBER_TYPES, TEXT_TYPES, TRUTH_TYPES, KeyValue
from moldau.sql.results import ResultColumn

RESULT_TYPES: Final = {
    "STRING": "string",
    "TINYINT": "tinyint",
    "BYTE": "tinyint",
    "SMALLINT": "smallint",
    "SHORT": "smallint",
    "INT": "int",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "LONG": "bigint",
    "BOOLEAN": "boolean",
    "DOUBLE": "double",
    "TIMESTAMP": "timestamp",
}
"""Spark's simple names of the types that are read here."""
RECORD_COLUMNS: Final = {"partition": "int", "offset": "bigint"}
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)\Z", re.ASCII)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z\Z", re.ASCII)
_LAST_YEARS: Final = range(1970, 9000)
"""Years in which Python's and Java's calendars and time zones agree."""


class NotDirect(Exception):
    """Spark has to answer."""


class DirectRows:
    """The rows of one table. Made once per question: it checks columns first, then reads records."""

    def __init__(self, declaration: Declaration, selected: Sequence[PlainColumn]) -> None:
        self._declaration = declaration
        self._columns = {column.name.lower(): column for column in declaration.columns}
        if declaration.value_format != "json" or declaration.options.get("timestamp_format"):
            raise NotDirect("value format")
        self._selected = list(self._expanded(selected))

    @property
    def columns(self) -> list[ResultColumn]:
        return [ResultColumn(shown, self._type(name)) for name, shown in self._selected]

    def rows(self, records: Sequence[IndexedRecord], wanted: Mapping[str, Sequence[KeyValue]]) -> list[tuple[Any, ...]]:
        """The rows of the records whose columns have one of the wanted values, by lower-case name."""
        found = []
        for record in records:
            row = self._read(record)
            if all(row[name] in values for name, values in wanted.items()):
                found.append(tuple(row[name] for name, _ in self._selected))
        return found

    def _expanded(self, selected: Sequence[PlainColumn]) -> Sequence[tuple[str, str]]:
        """Lower-case name and shown name of each column of the result."""
        found: list[tuple[str, str]] = []
        for one in selected:
            if one.name == STAR:
                if not self._declaration.text:
                    raise NotDirect("the star of a relation without a declaration has the record's columns too")
                found += [(column.name.lower(), column.name) for column in self._declaration.columns]
            else:
                found.append((one.name.lower(), one.shown))
        for name, _ in found:
            self._type(name)
        return found

    def _type(self, name: str) -> str:
        column = self._columns.get(name)
        found = RECORD_COLUMNS.get(name) if column is None else RESULT_TYPES.get(column.type.upper())
        if found is None:
            raise NotDirect(name)
        return found

    def _read(self, record: IndexedRecord) -> dict[str, Any]:
        values = _parsed_object(record.value)
        keys = self._key_values(record.key)
        row: dict[str, Any] = {"partition": record.partition, "offset": record.offset}
        for name, column in self._columns.items():
            row[name] = _of_json(keys[column.name] if column.is_key else values.get(column.name), column)
        return row

    def _key_values(self, key: bytes) -> Mapping[str, Any]:
        columns = self._declaration.key_columns
        try:
            text = key.decode()
        except UnicodeDecodeError as error:
            raise NotDirect("key") from error
        if len(columns) > 1:
            parsed = _parsed_object(key)
            return {column.name: parsed.get(column.name) for column in columns}
        (column,) = columns
        if self._declaration.key_format == "string":
            return {column.name: _of_text(text, column)}
        if self._declaration.key_format == "json" and not text.lstrip().startswith(("{", "[")):
            return {column.name: _loaded(key)}
        raise NotDirect("key format")


def _constant(_name: str) -> Any:
    raise NotDirect("NaN or Infinity")


def _loaded(data: bytes) -> Any:
    try:
        return json.loads(data.decode(), parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise NotDirect("not JSON") from error


def _parsed_object(data: bytes) -> dict[str, Any]:
    found = _loaded(data)
    if not isinstance(found, dict):
        raise NotDirect("not a JSON object")
    return found


def _of_text(text: str, column: ColumnDeclaration) -> Any:
    """A key that is text: the text itself, or a number in its usual form."""
    name = column.type.upper()
    if name in TEXT_TYPES:
        return text
    if name in NUMBER_TYPES and _NUMBER.match(text):
        return int(text)
    raise NotDirect(column.name)


def _of_json(value: Any, column: ColumnDeclaration) -> Any:
    if value is None:
        return None
    name = column.type.upper()
    for types, read in _READERS:
        if name in types:
            return read(value, name)
    raise NotDirect(column.name)


def _text(value: Any, _type: str) -> str:
    if not isinstance(value, str):
        raise NotDirect("not a text")
    return value


def _whole(value: Any, type_: str) -> int:
    limit = 1 << (NUMBER_TYPES[type_] - 1)
    if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
        raise NotDirect("not a whole number of this type")
    return value


def _float(value: Any, _type: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise NotDirect("not a number")
    try:
        return float(value)
    except OverflowError as error:
        raise NotDirect("too large") from error


def _truth(value: Any, _type: str) -> bool:
    if not isinstance(value, bool):
        raise NotDirect("not a truth")
    return value


def _time(value: Any, _type: str) -> datetime:
    """A time as PySpark returns it: without a zone, in the zone of this process."""
    if not isinstance(value, str) or not _TIME.match(value):
        raise NotDirect("a time in another form")
    try:
        found = datetime.fromisoformat(value)
        if found.year not in _LAST_YEARS:
            raise NotDirect("year")
        return found.astimezone().replace(tzinfo=None)
    except ValueError as error:
        raise NotDirect("not a time") from error


_READERS: Final[tuple[tuple[Any, Callable[[Any, str], Any]], ...]] = (
    (TEXT_TYPES, _text),
    (NUMBER_TYPES, _whole),
    (frozenset({"DOUBLE"}), _float),
    (TRUTH_TYPES, _truth),
    (frozenset({"TIMESTAMP"}), _time),
)
