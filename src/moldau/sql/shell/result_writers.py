"""Writers of results: a table for people, JSON lines and CSV for programs.

JSON: one object per row and line. CSV: a header and a line per row. Both write only rows to standard output; what a
statement did goes to standard error. A deleted row of a continuous result has `_deleted` true.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import IO, Final, Protocol

from moldau.sql.results import Notice, ResultColumn, RowChange
from moldau.sql.shell.value_text import csv_field, is_numeric, json_value, one_line, plain_text

DELETED: Final = "_deleted"
MAX_WIDTH: Final = 80
"""The widest column of plain aligned text; longer values are written in full and move the columns after them."""
MAX_BUFFERED: Final = 1_000
"""Rows of a bounded result that are kept to make one table; a longer result is several tables under each other."""


class ResultWriter(Protocol):
    """What shows one result after the other. `flush` is called when no further row is ready at the moment."""

    def notice(self, notice: Notice) -> None: ...

    def begin(self, columns: Sequence[ResultColumn], key: Sequence[int], *, continuous: bool) -> None:
        """The result has these columns. `key`: the columns by which later rows replace earlier ones."""
        ...

    def rows(self, rows: Sequence[RowChange]) -> None: ...

    def flush(self) -> None: ...

    def end(self, notes: Sequence[str]) -> None:
        """The result is complete, or was ended by the user."""
        ...


def write_notice(out: IO[str], notice: Notice) -> None:
    if notice.text:
        out.write(f"{notice.text}\n")
    for warning in notice.warnings:
        out.write(f"warning: {warning}\n")
    out.flush()


class JsonRowWriter:
    """One JSON object per line."""

    def __init__(self, out: IO[str], notices: IO[str]) -> None:
        self._out = out
        self._notices = notices
        self._names: list[str] = []

    def notice(self, notice: Notice) -> None:
        write_notice(self._notices, notice)

    def begin(self, columns: Sequence[ResultColumn], key: Sequence[int], *, continuous: bool) -> None:
        self._names = [column.name for column in columns]

    def rows(self, rows: Sequence[RowChange]) -> None:
        for change in rows:
            found = {name: json_value(value) for name, value in zip(self._names, change.row, strict=True)}
            if change.deleted:
                found[DELETED] = True
            self._out.write(json.dumps(found, ensure_ascii=False) + "\n")

    def flush(self) -> None:
        self._out.flush()

    def end(self, notes: Sequence[str]) -> None:
        self._out.flush()
        write_notice(self._notices, Notice("", tuple(notes)))


class CsvRowWriter:
    """A header, then a line per row. A continuous result with a key has the column _deleted."""

    def __init__(self, out: IO[str], notices: IO[str]) -> None:
        self._out = out
        self._notices = notices
        self._deletes = False

    def notice(self, notice: Notice) -> None:
        write_notice(self._notices, notice)

    def begin(self, columns: Sequence[ResultColumn], key: Sequence[int], *, continuous: bool) -> None:
        self._deletes = continuous and bool(key)
        self._write([*(column.name for column in columns), *([DELETED] if self._deletes else [])])

    def rows(self, rows: Sequence[RowChange]) -> None:
        for change in rows:
            fields = [csv_field(value) for value in change.row]
            self._write([*fields, csv_field(change.deleted)] if self._deletes else fields)

    def _write(self, fields: Sequence[str]) -> None:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(fields)
        self._out.write(line.getvalue())

    def flush(self) -> None:
        self._out.flush()

    def end(self, notes: Sequence[str]) -> None:
        self._out.flush()
        write_notice(self._notices, Notice("", tuple(notes)))


class AlignedRowWriter:
    """Columns of plain text without borders, for pipes. The first rows decide how wide columns are."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._columns: Sequence[ResultColumn] = ()
        self._widths: list[int] | None = None
        self._waiting: list[list[str]] = []
        self._continuous = False

    def notice(self, notice: Notice) -> None:
        write_notice(self._out, notice)

    def begin(self, columns: Sequence[ResultColumn], key: Sequence[int], *, continuous: bool) -> None:
        self._columns, self._continuous = columns, continuous
        self._widths = None

    def rows(self, rows: Sequence[RowChange]) -> None:
        for change in rows:
            texts = [one_line(plain_text(value)) for value in change.row]
            self._waiting.append([*texts, "deleted"] if change.deleted else texts)
        if len(self._waiting) >= MAX_BUFFERED:
            self._write_waiting()

    def flush(self) -> None:
        """A continuous result writes what it has; a bounded one waits for more rows, to know their widths."""
        if self._continuous and self._waiting:
            self._write_waiting()

    def _write_waiting(self) -> None:
        if self._widths is None:
            names = [column.name for column in self._columns]
            lines = [names, *self._waiting]
            self._widths = [min(max(len(line[at]) for line in lines), MAX_WIDTH) for at in range(len(names))]
            self._line(names)
        for line in self._waiting:
            self._line(line)
        self._waiting.clear()
        self._out.flush()

    def _line(self, texts: Sequence[str]) -> None:
        assert self._widths is not None
        padded = [
            text.rjust(width) if is_numeric(column.type) else text.ljust(width)
            for text, width, column in zip(texts, self._widths, self._columns, strict=False)
        ]
        self._out.write("  ".join([*padded, *texts[len(padded) :]]).rstrip() + "\n")

    def end(self, notes: Sequence[str]) -> None:
        if self._waiting or self._widths is None:
            self._write_waiting()
        write_notice(self._out, Notice("", tuple(notes)))
