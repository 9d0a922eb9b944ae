"""Table of `moldau connect status`: connectors with their state, worker, tasks, rate, lag and last error."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from moldau.cli.connect_client import ConnectClient, RestApiError, connector_path
from moldau.cli.output import Cell

HEADERS: Final = ("connector", "type", "state", "worker", "tasks", "records/s", "records", "lag", "last error")
REFRESH_S: Final = 2.0
MAX_ERROR_CHARACTERS: Final = 100
STYLES: Final = {"RUNNING": "green", "FAILED": "bold red", "RESTARTING": "yellow", "PAUSED": "cyan", "STOPPED": "cyan"}


def found_states(client: ConnectClient) -> list[dict[str, Any]]:
    """The state of every connector, sorted by name. A worker tells the progress of its own connectors only."""
    expand = [("expand", one) for one in ("status", "progress")]
    found = client.call("GET", "/connectors", params=expand)
    states = []
    for name, parts in sorted(found.items()):
        status = dict(parts["status"])
        progress = parts.get("progress")
        if progress is None and status["connector"]["state"] != "UNASSIGNED":
            progress = _asked_progress(client, name)
        states.append(state_of(status, progress))
    return states


def _asked_progress(client: ConnectClient, name: str) -> Mapping[str, Any] | None:
    """The progress of a connector of another worker; None if that worker does not answer, as after a crash."""
    try:
        asked = client.call("GET", connector_path(name, "status"), params=[("expand", "progress")])
    except RestApiError:
        return None
    progress: Mapping[str, Any] | None = asked.get("progress")
    return progress


def state_of(status: Mapping[str, Any], progress: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the table shows of one connector."""
    tasks: Sequence[Mapping[str, Any]] = status["tasks"]
    units = [status["connector"], *tasks]
    failed = [unit for unit in units if unit["state"] == "FAILED"]
    traces = [unit["trace"] for unit in units if unit.get("trace")]
    counted = progress or {}
    return {
        "connector": status["name"],
        "type": status["type"],
        "state": "FAILED" if failed else status["connector"]["state"],
        "worker": status["connector"]["worker_id"],
        "tasks": len(tasks),
        "tasks_running": sum(task["state"] == "RUNNING" for task in tasks),
        "records_per_s": counted.get("records_per_s"),
        "records": counted.get("records"),
        "lag": counted.get("lag"),
        "last_error": traces[0] if traces else None,
    }


def row(state: Mapping[str, Any]) -> list[Cell]:
    rate = state["records_per_s"]
    return [
        state["connector"],
        state["type"],
        state["state"],
        state["worker"],
        f"{state['tasks_running']}/{state['tasks']}",
        None if rate is None else round(rate),
        state["records"],
        state["lag"],
        short_error(state["last_error"]),
    ]


def short_error(trace: str | None) -> str | None:
    """The line of a trace that says most: the last one that is not part of the stack."""
    if not trace:
        return None
    lines = [line for line in trace.splitlines() if line.strip() and not line.startswith((" ", "\t"))]
    said = [line for line in lines if not line.startswith("Traceback ")] or trace.splitlines()
    text = said[-1].strip()
    return text if len(text) <= MAX_ERROR_CHARACTERS else f"{text[: MAX_ERROR_CHARACTERS - 1]}…"


def watch(client: ConnectClient) -> None:
    """Show the table, and renew it until Ctrl-C."""
    from rich.live import Live
    from rich.text import Text

    with Live(table(client), auto_refresh=False, screen=False) as live:
        while True:
            time.sleep(REFRESH_S)
            try:
                live.update(table(client), refresh=True)
            except RestApiError as error:  # a worker that restarts: go on, and say so
                live.update(Text(str(error), style="red"), refresh=True)


def table(client: ConnectClient) -> Any:
    """The table as it is now, for a terminal."""
    from rich.table import Table
    from rich.text import Text

    states = found_states(client)
    count = f"{len(states)} connector{'' if len(states) == 1 else 's'}"
    shown = Table(title=f"{client.url}   {count}   Ctrl-C ends", title_justify="left", header_style="bold cyan")
    for header in HEADERS:
        shown.add_column(header, justify="right" if header in ("records/s", "records", "lag") else "left")
    for state in states:
        # Without markup: a connector may be called [red].
        cells = [Text("-" if value is None else str(value)) for value in row(state)]
        cells[HEADERS.index("state")].stylize(STYLES.get(state["state"], ""))
        shown.add_row(*cells)
    return shown
