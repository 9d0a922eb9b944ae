"""Progress display of the demo: a live table on a terminal, otherwise a line from time to time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from moldau.cli.demonstration.bank import Alert

SHOWN_ALERTS: Final = 6
REDRAWS_A_SECOND: Final = 5
REPORTS: Final = 4
"""The number of progress lines between start and end, without a terminal."""


class Show:
    """The progress of the demo. Any thread may update it; only its owner draws."""

    def __init__(self, console: Console, transactions: int, alerts: int) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._recent: deque[Alert] = deque(maxlen=SHOWN_ALERTS)
        self._state = "starting"
        self._reported = 0
        self._progress = Progress(
            TextColumn("{task.description:22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
        )
        self._sent = self._progress.add_task("transactions written", total=transactions)
        self._found = self._progress.add_task("alerts committed", total=alerts)

    @contextmanager
    def running(self) -> Iterator[None]:
        if not self._console.is_terminal:
            yield
            return
        with Live(get_renderable=self._draw, console=self._console, refresh_per_second=REDRAWS_A_SECOND):
            yield

    def state(self, text: str) -> None:
        """Set the current step."""
        with self._lock:
            self._state = text
        if not self._console.is_terminal:
            self._console.print(text)

    def sent(self, count: int) -> None:
        self._move(self._sent, count)

    def alerts(self, count: int, recent: Alert) -> None:
        with self._lock:
            self._recent.append(recent)
        self._move(self._found, count)
        total = self._progress.tasks[self._found].total or 1
        if not self._console.is_terminal and count * REPORTS // total > self._reported:
            self._reported = int(count * REPORTS // total)
            self._console.print(f"{count:,} of {total:,.0f} alerts are in the topic")

    def _move(self, task: TaskID, count: int) -> None:
        self._progress.update(task, completed=count)

    def _draw(self) -> Group:
        with self._lock:
            recent, state = list(self._recent), self._state
        table = Table(title="latest alerts", title_justify="left", header_style="bold")
        for name in ("account", "window", "sum"):
            table.add_column(name, justify="left" if name == "account" else "right")
        for alert in recent:
            table.add_row(alert.account, f"{alert.window_ms // 1000 % 100_000} s", f"{alert.cents / 100:,.2f} €")
        return Group(f"[bold]{state}[/]", self._progress, table)
