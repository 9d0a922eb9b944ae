"""Tables in a terminal that fit its width: bounded results, rows as they come, the latest row per key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from moldau.sql.results import Notice, ResultColumn, RowChange
from moldau.sql.shell.result_writers import MAX_BUFFERED
from moldau.sql.shell.value_text import NULL, is_numeric, one_line, plain_text

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_LIVE_ROWS: Final = 10_000
"""Keys that a live table keeps. The one that has not changed for the longest time makes room."""
LIVE_MARGIN: Final = 6
"""Lines of the terminal that a live table leaves free: its header, borders and caption."""
LIVE_HZ: Final = 8
MIN_WIDTH: Final = 4
TYPE_WIDTH: Final = {"timestamp": 26, "bigint": 8, "int": 8, "double": 8}
"""Widths that later rows of a column probably need, whatever the first rows need."""


class LatestRows:
    """The latest row of each key, with the one that changed last at the end. No I/O."""

    def __init__(self, key: Sequence[int], limit: int = MAX_LIVE_ROWS) -> None:
        self._key = key
        self._limit = limit
        self._rows: dict[str, tuple[Any, ...]] = {}
        self.changes = 0

    def apply(self, change: RowChange) -> None:
        self.changes += 1
        key = repr([change.row[at] for at in self._key])  # values may be lists, which no dict takes
        self._rows.pop(key, None)
        if not change.deleted:
            self._rows[key] = change.row
            if len(self._rows) > self._limit:
                del self._rows[next(iter(self._rows))]

    def __len__(self) -> int:
        return len(self._rows)

    def last(self, count: int) -> list[tuple[Any, ...]]:
        """The rows that changed last, sorted by their keys, so that a row stays where it is."""
        found = list(self._rows.values())[-count:] if count > 0 else []
        return sorted(found, key=lambda row: [(row[at] is None, _sortable(row[at])) for at in self._key])


def _sortable(value: Any) -> tuple[int, Any]:
    if isinstance(value, int | float):
        return (0, value)
    return (1, plain_text(value))


class TerminalWriter:
    """The writer of an interactive shell, and of `--output table` in a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._columns: Sequence[ResultColumn] = ()
        self._continuous = False
        self._waiting: list[RowChange] = []
        self._count = 0
        self._has_header = False
        self._latest: LatestRows | None = None
        self._live: Live | None = None
        self._widths: list[int] | None = None

    def notice(self, notice: Notice) -> None:
        if notice.text:
            self._console.print(Text(notice.text))
        self._warn(notice.warnings)

    def _warn(self, warnings: Sequence[str]) -> None:
        for warning in warnings:
            self._console.print(Text(f"warning: {warning}", style="yellow"))

    def begin(self, columns: Sequence[ResultColumn], key: Sequence[int], *, continuous: bool) -> None:
        self._columns, self._continuous = columns, continuous
        self._waiting, self._count, self._has_header, self._widths = [], 0, False, None
        if continuous and key and self._console.is_terminal:
            self._latest = LatestRows(key)
            self._live = Live(
                get_renderable=self._live_table, console=self._console, refresh_per_second=LIVE_HZ, transient=False
            )
            self._live.start()

    def rows(self, rows: Sequence[RowChange]) -> None:
        self._count += len(rows)
        if self._latest is not None:
            for change in rows:
                self._latest.apply(change)
            return
        self._waiting += rows
        if len(self._waiting) >= MAX_BUFFERED:
            self._print_waiting()

    def flush(self) -> None:
        """A continuous result shows what it has; a bounded one waits for more rows, to make one table of them."""
        if self._continuous and self._latest is None and self._waiting:
            self._print_waiting()

    def end(self, notes: Sequence[str]) -> None:
        if self._live is not None:
            self._live.stop()
            self._live, self._latest = None, None
        else:
            if self._waiting or not self._has_header:
                self._print_waiting()
            self._console.print(Text(f"{self._count} row{'' if self._count == 1 else 's'}", style="dim"))
        self._warn(notes)

    def _print_waiting(self) -> None:
        if self._widths is None and self._columns:
            self._widths = _widths(self._console, self._columns, self._waiting, continuous=self._continuous)
        rows = [(change.row, change.deleted) for change in self._waiting]
        table = _table(self._columns, rows, header=not self._has_header, widths=self._widths)
        if self._continuous:  # no borders above and below: rows come one by one
            table.box, table.show_edge = box.SIMPLE_HEAD, False
        self._console.print(table)
        self._has_header = True
        self._waiting = []

    def _live_table(self) -> RenderableType:
        latest = self._latest
        if latest is None:
            return Text("")
        rows = latest.last(max(1, self._console.height - LIVE_MARGIN))
        table = _table(self._columns, [(row, False) for row in rows], header=True, widths=None, no_wrap=True)
        shown = "" if len(rows) == len(latest) else f"the {len(rows)} that changed last of "
        caption = f"{shown}{len(latest)} rows, {latest.changes} changes; Ctrl-C ends the query"
        return Group(table, Text(caption, style="dim", no_wrap=True, overflow="ellipsis"))


def _table(
    columns: Sequence[ResultColumn],
    rows: Sequence[tuple[tuple[Any, ...], bool]],
    *,
    header: bool,
    widths: Sequence[int] | None,
    no_wrap: bool = False,
) -> Table:
    table = Table(show_header=header, header_style="bold cyan")
    for at, column in enumerate(columns):
        table.add_column(
            Text(one_line(column.name)),
            justify="right" if is_numeric(column.type) else "left",
            overflow="ellipsis" if no_wrap else "fold",
            no_wrap=no_wrap,
            width=None if widths is None else widths[at],
        )
    for row, deleted in rows:
        table.add_row(*(_cell(value) for value in row), style="strike dim" if deleted else None)
    return table


def _cell(value: Any) -> Text:
    """A cell without markup: a value may be [red]."""
    return Text(NULL, style="dim italic") if value is None else Text(one_line(plain_text(value)))


def fitted(widths: Sequence[int], available: int) -> list[int]:
    """The widths of columns, with the widest ones made smaller until all fit. Each keeps at least MIN_WIDTH."""
    found = list(widths)
    while sum(found) > available and max(found) > MIN_WIDTH:
        found[found.index(max(found))] -= 1
    return found


def _widths(
    console: Console, columns: Sequence[ResultColumn], rows: Sequence[RowChange], *, continuous: bool
) -> list[int]:
    """The widths of the columns as the first rows need them, for all later rows too."""
    wanted = [
        max(cell_len(text) for text in (column.name, *(_cell(change.row[at]).plain for change in rows)))
        for at, column in enumerate(columns)
    ]
    if continuous:
        wanted = [max(width, TYPE_WIDTH.get(column.type, 1)) for width, column in zip(wanted, columns, strict=True)]
    borders = 3 * len(columns) + 1
    return fitted(wanted, console.width - borders)
