"""Results and errors as the shell writes them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from rich.console import Console

from moldau.sql.errors import SqlError
from moldau.sql.results import Notice, ResultColumn, RowChange
from moldau.sql.shell.error_text import explained
from moldau.sql.shell.result_writers import AlignedRowWriter, CsvRowWriter, JsonRowWriter, ResultWriter
from moldau.sql.shell.statement_help import STATEMENTS, help_text
from moldau.sql.shell.terminal_tables import LatestRows, TerminalWriter, fitted
from moldau.sql.shell.value_text import csv_field, json_value, plain_text

COLUMNS = [ResultColumn("name", "string"), ResultColumn("count", "bigint")]


def write(
    writer: ResultWriter, rows: Sequence[RowChange], key: Sequence[int] = (), *, continuous: bool = False
) -> None:
    writer.begin(COLUMNS, key, continuous=continuous)
    for row in rows:
        writer.rows([row])
    writer.flush()
    writer.end(["a note"])


@pytest.mark.parametrize(
    ("value", "text", "as_json"),
    [
        (None, "NULL", None),
        (True, "true", True),
        (5, "5", 5),
        (0.1, "0.1", 0.1),
        (math.inf, "inf", "inf"),
        (Decimal("1.50"), "1.50", 1.5),
        (Decimal("0.1234567890123456789"), "0.1234567890123456789", "0.1234567890123456789"),
        ("a\nb", "a\nb", "a\nb"),
        (b"abc", "abc", "YWJj"),
        (bytearray(b"\x00\xff"), "0x00ff", "AP8="),
        (datetime(2026, 1, 2, 3, 4, 5), "2026-01-02 03:04:05", "2026-01-02 03:04:05"),  # noqa: DTZ001
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02 00:00:00+00:00", "2026-01-02 00:00:00+00:00"),
        (date(2026, 1, 2), "2026-01-02", "2026-01-02"),
        ([1, None, "x"], '[1, null, "x"]', [1, None, "x"]),
        ({"a": {1: date(2026, 1, 2)}}, '{"a": {"1": "2026-01-02"}}', {"a": {"1": "2026-01-02"}}),
    ],
)
def test_values_are_written_for_people_and_for_programs(value: Any, text: str, as_json: Any) -> None:
    assert plain_text(value) == text
    assert json_value(value) == as_json
    assert csv_field(value) == ("" if value is None else text)


def test_json_has_one_object_per_line_and_nothing_else() -> None:
    out, notices = io.StringIO(), io.StringIO()
    writer = JsonRowWriter(out, notices)
    writer.notice(Notice("done", ("careful",)))
    write(writer, [RowChange(("a", 1)), RowChange(("ž", None), deleted=True)], [0], continuous=True)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert lines == [{"name": "a", "count": 1}, {"name": "ž", "count": None, "_deleted": True}]
    assert notices.getvalue() == "done\nwarning: careful\nwarning: a note\n"


def test_csv_has_a_header_and_quotes_what_needs_it() -> None:
    out, notices = io.StringIO(), io.StringIO()
    rows = [RowChange(('a,"b"\nc', 1)), RowChange(("d", None))]
    write(CsvRowWriter(out, notices), rows)
    assert list(csv.reader(io.StringIO(out.getvalue()))) == [["name", "count"], ['a,"b"\nc', "1"], ["d", ""]]
    assert notices.getvalue() == "warning: a note\n"


def test_csv_of_a_continuous_table_says_which_rows_are_deleted() -> None:
    out = io.StringIO()
    write(
        CsvRowWriter(out, io.StringIO()),
        [RowChange(("a", 1)), RowChange(("a", None), deleted=True)],
        [0],
        continuous=True,
    )
    assert out.getvalue() == "name,count,_deleted\na,1,false\na,,true\n"


def test_aligned_text_has_numbers_on_the_right() -> None:
    out = io.StringIO()
    write(AlignedRowWriter(out), [RowChange(("abc", 5)), RowChange(("a\x1b[2J", 12_345))])
    assert out.getvalue().splitlines() == [
        "name      count",
        "abc           5",
        "a\\x1b[2J  12345",
        "warning: a note",
    ]


def test_aligned_text_of_no_rows_has_a_header() -> None:
    out = io.StringIO()
    write(AlignedRowWriter(out), [])
    assert out.getvalue().splitlines()[0].split() == ["name", "count"]


def in_terminal(width: int = 40, height: int = 12) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=width, height=height, force_terminal=True, color_system=None, highlight=False), out


def test_a_table_in_a_terminal_fits_its_width() -> None:
    console, out = in_terminal()
    write(TerminalWriter(console), [RowChange(("x" * 100, 1)), RowChange(("[red]", None))])
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert sum(line.count("x") for line in lines) == 100
    assert "[red]" in out.getvalue()
    assert "2 rows" in lines
    assert "warning: a note" in lines


def test_rows_of_a_stream_have_one_header() -> None:
    console, out = in_terminal()
    writer = TerminalWriter(console)
    writer.begin(COLUMNS, (), continuous=True)
    for number in range(3):
        writer.rows([RowChange((f"n{number}", number))])
        writer.flush()
    writer.end(())
    assert out.getvalue().count("name") == 1
    assert [line.split() for line in out.getvalue().splitlines() if " n" in line][1:] == [
        ["n0", "0"],
        ["n1", "1"],
        ["n2", "2"],
    ]


def test_a_live_table_has_the_latest_row_of_each_key() -> None:
    latest = LatestRows([0])
    for change in [("b", 1), ("a", 1), ("b", 2), (None, 7)]:
        latest.apply(RowChange(change))
    assert latest.last(10) == [("a", 1), ("b", 2), (None, 7)]
    assert latest.last(2) == [("b", 2), (None, 7)]
    latest.apply(RowChange(("a", None), deleted=True))
    assert latest.last(10) == [("b", 2), (None, 7)]
    assert (len(latest), latest.changes) == (2, 5)


def test_a_live_table_keeps_the_rows_that_changed_last() -> None:
    latest = LatestRows([0], limit=2)
    for name in "abac":
        latest.apply(RowChange((name, 0)))
    assert latest.last(10) == [("a", 0), ("c", 0)]


def test_a_live_table_is_no_higher_than_the_terminal() -> None:
    console, out = in_terminal(height=12)
    writer = TerminalWriter(console)
    writer.begin(COLUMNS, [0], continuous=True)
    writer.rows([RowChange((f"n{number:02}", number)) for number in range(50)])
    writer.end(())
    last = out.getvalue().rsplit("┏", 1)[1]
    assert len(last.splitlines()) <= 12
    assert "n49" in last
    assert "the 6 that changed last of 50 rows" in last


def test_widths_are_taken_from_the_widest_columns() -> None:
    assert fitted([5, 50, 10], 30) == [5, 15, 10]
    assert fitted([5, 6], 30) == [5, 6]
    assert fitted([100, 100], 2) == [4, 4]


def test_an_error_shows_the_line_with_a_caret_under_the_column() -> None:
    error = SqlError("no column nope", line=2, column=3, hint="did you mean note?")
    assert explained(error, "SELECT 1,\n\tžnope") == (
        "error: no column nope\n  2 | \tžnope\n    | \t ^\nhint: did you mean note?"
    )
    assert explained(SqlError("no broker"), "SELECT 1") == "error: no broker"
    assert explained(SqlError("gone", line=9, column=1), "SELECT 1") == "error: gone"


def test_an_error_in_a_long_line_shows_the_part_around_it() -> None:
    text = f"SELECT {'x, ' * 100}nope FROM t"
    shown, caret = explained(SqlError("no", line=1, column=text.index("nope") + 1), text).splitlines()[1:]
    assert len(shown) < 120
    assert shown[caret.index("^") :].startswith("nope")


def test_help_has_every_statement_and_helps_with_one() -> None:
    text = help_text()
    assert all(one.syntax in text and one.example in text for one in STATEMENTS)
    assert "Ctrl-D" in text
    assert help_text(" print").startswith("PRINT topic")
    assert "CREATE" not in help_text("print")
    assert help_text("prnt;") == "there is no statement prnt; did you mean help PRINT?"
