"""Live view: top pages of the last minute, the last sessions, and the error rate of each host."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import RenderableType
from rich.table import Table

from moldau.examples.results import Results
from moldau.examples.web_activity.pipeline import HOST_ERRORS, PAGE_COUNTS, SESSIONS

ROWS = 8
TOO_MANY_ERRORS = 0.1


def picture(results: Results) -> RenderableType:
    counts = results.table(PAGE_COUNTS).values()
    minute = max((row["minute"] for row in counts), default="")
    pages = Table("page", "views", title=f"top pages of {minute[-5:]}")
    for row in sorted((row for row in counts if row["minute"] == minute), key=lambda row: -row["views"]):
        pages.add_row(row["page"], str(row["views"]))
    sessions = Table("user", "seconds", "views", title=f"the last of {results.count(SESSIONS)} sessions")
    for record in results.recent(SESSIONS)[:ROWS]:
        value = record.value or {}
        seconds = (value["last_ms"] - value["first_ms"]) / 1000
        sessions.add_row(record.key, f"{seconds:.1f}", str(value["views"]))
    hosts = Table("host", "minute", "requests", "errors", title="errors of hosts")
    for row in sorted(results.table(HOST_ERRORS).values(), key=lambda row: (row["minute"], row["host"]))[-ROWS:]:
        share = row["errors"] / row["requests"]
        colour = "red" if share > TOO_MANY_ERRORS else "green"
        hosts.add_row(row["host"], row["minute"][-5:], str(row["requests"]), f"[{colour}]{share:.1%}[/]")
    return Columns([pages, sessions, hosts])
