"""Sessions, page counts and errors, computed by plain Python."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from moldau.examples.study import Content, Read
from moldau.examples.web_activity.generator import PAGE_VIEWS
from moldau.examples.web_activity.log_collector import HOST_LOGS
from moldau.examples.web_activity.pipeline import HOST_ERRORS, LATENESS_MS, PAGE_COUNTS, SESSION_GAP_MS, SESSIONS


def expected(read: Read) -> dict[str, Content]:
    times: dict[str, list[int]] = {}
    pages: Counter[tuple[str, str]] = Counter()
    for record in read(PAGE_VIEWS):
        view = record.value or {}
        times.setdefault(record.key, []).append(view["at_ms"])
        pages[minute(datetime.fromtimestamp(view["at_ms"] / 1000, UTC)), view["page"]] += 1
    # The latest page view of all says which sessions are over.
    now_ms = max(user_times[-1] for user_times in times.values()) - LATENESS_MS
    sessions = [one for user_times in times.values() for one in user_sessions(user_times, now_ms)]
    return {
        SESSIONS: sessions,
        PAGE_COUNTS: {f"{at} {page}": {"minute": at, "page": page, "views": pages[at, page]} for at, page in pages},
        HOST_ERRORS: host_errors(read),
    }


def user_sessions(times: list[int], now_ms: int) -> list[dict[str, int]]:
    """The sessions of one user that are over. A view that comes exactly after the gap begins a new session."""
    sessions: list[dict[str, int]] = []
    for at_ms in times:
        if sessions and at_ms - sessions[-1]["last_ms"] < SESSION_GAP_MS:
            sessions[-1]["last_ms"] = at_ms
            sessions[-1]["views"] += 1
        else:
            sessions.append({"first_ms": at_ms, "last_ms": at_ms, "views": 1})
    return [one for one in sessions if one["last_ms"] + SESSION_GAP_MS <= now_ms]


def host_errors(read: Read) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for record in read(HOST_LOGS):
        value = record.value or {}
        at, status, _ = value["line"].split()
        place = {"minute": minute(datetime.fromisoformat(at)), "host": value["host"]}
        row = rows.setdefault(f"{place['minute']} {place['host']}", {**place, "requests": 0, "errors": 0})
        row["requests"] += 1
        row["errors"] += int(status) >= 500
    return rows


def minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"
