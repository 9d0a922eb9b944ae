"""Report: the table on the terminal, and in docs/benchmarks.md between two marks."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.harness import Row

DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN = "<!-- written by `make bench`: begin -->"
END = "<!-- written by `make bench`: end -->"

_INTRODUCTION = f"""# Benchmarks

`make bench` measures the limits as ratios and prints this table; the numbers below are from the last full
run. A share of the limit up to 100 % is within the limit, for minimums and maximums alike. The method of each benchmark
is at the top of its file in `bench/`. "Bare" is the smallest Python loop that moves the same bytes
(`bench/bare.py`).

{BEGIN}
{END}
"""


def verdict(row: Row) -> str:
    if row.ratio is None:
        return ""
    if row.met:
        return "met"
    return f"MISSED by {row.ratio - 1:.0%}"


def limit(row: Row) -> str:
    if row.limit is None:
        return ""
    return f"{'at least' if row.at_least else 'at most'} {number(row.limit)}"


def number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")


def share(row: Row) -> str:
    return "" if row.ratio is None else f"{row.ratio:.0%}"


def machine() -> str:
    return (
        f"{os.cpu_count()} cores ({_processor()}), {_memory_gb():.0f} GB of memory, Linux {platform.release()}, "
        f"Python {platform.python_version()}"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def print_table(console: Console, rows: Sequence[Row]) -> None:
    table = Table(title=f"Moldau, measured on {machine()}", title_justify="left")
    for heading in ("what", "measured", "", "promised", "of the limit", "", "how"):
        table.add_column(heading, justify="right" if heading in ("measured", "of the limit") else "left")
    for row in rows:
        colour = "green" if row.met else "bold red"
        cells = (row.name, number(row.measured), row.unit, limit(row), share(row))
        table.add_row(*cells, f"[{colour}]{verdict(row)}[/]", row.note)
    console.print(table)


def write_document(rows: Sequence[Row], path: Path = DOCUMENT) -> None:
    text = path.read_text() if path.exists() else _INTRODUCTION
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{_markdown(rows)}\n{END}{after}")


def _markdown(rows: Sequence[Row]) -> str:
    today = datetime.now(UTC).date().isoformat()
    lines = [
        f"Measured on {today}: {machine()}.",
        "",
        "| what | measured | promised | of the limit | | how |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = (row.name, f"{number(row.measured)} {row.unit}", limit(row), share(row), verdict(row), row.note)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
