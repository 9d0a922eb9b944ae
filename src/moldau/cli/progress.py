"""Progress bar on standard error, shown only on a terminal and if the total is known."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress


class ProgressBar:
    """A progress bar inside `with`. `unit` is "bytes" for sizes; any other unit is counted."""

    def __init__(self, what: str, total: int | None, unit: str, *, wanted: bool = True) -> None:
        self._what = what
        self._total = total
        self._unit = unit
        self._shown = wanted and bool(total) and sys.stderr.isatty()
        self._bar: RichProgress | None = None

    def __enter__(self) -> Self:
        if self._shown:
            self._bar = self._make()
            self._bar.start()
            self._task = self._bar.add_task(self._what, total=self._total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, amount: int) -> None:
        """Advance the bar by `amount`."""
        if self._bar is not None:
            self._bar.advance(self._task, amount)

    def _make(self) -> RichProgress:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        name, bar, left = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
        console = Console(stderr=True)
        if self._unit == "bytes":
            return Progress(name, bar, DownloadColumn(), TransferSpeedColumn(), left, console=console)
        return Progress(name, bar, MofNCompleteColumn(), left, console=console)
