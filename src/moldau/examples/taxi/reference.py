"""The results of the pipeline, computed in plain Python from the same records."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from moldau.examples.study import Content, Read, StudyRecord
from moldau.examples.taxi.generator import EVENTS, POSITIONS, surge_percent
from moldau.examples.taxi.pipeline import CENTS_PER_100_M, FARES, MATCHES, PRICES, START_CENTS


def expected(read: Read) -> dict[str, Content]:
    by_area: defaultdict[str, list[StudyRecord]] = defaultdict(list)
    for record in read(EVENTS):
        by_area[record.key].append(record)
    rides: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in read(POSITIONS):
        rides[record.key].append(record.value or {})
    return {
        MATCHES: [match for events in by_area.values() for match in matches(events)],
        PRICES: {name: price for events in by_area.values() for name, price in prices(events).items()},
        FARES: [{"ride": ride, **fare(path)} for ride, path in rides.items() if path[-1]["last"]],
    }


def matches(events: list[StudyRecord]) -> list[dict[str, Any]]:
    """The matches of one area."""
    free: dict[str, tuple[int, int]] = {}
    waiting: list[dict[str, Any]] = []
    found = []
    for record in events:
        event = record.value or {}
        if event["kind"] == "free":
            free[event["driver"]] = (event["x"], event["y"])
        else:
            waiting.append(event)
        if waiting and free:
            rider = waiting.pop(0)
            distances = {driver: abs(rider["x"] - x) + abs(rider["y"] - y) for driver, (x, y) in free.items()}
            nearest = min(distances, key=lambda driver: (distances[driver], driver))
            free.pop(nearest)
            found.append({"ride": rider["ride"], "driver": nearest, "area": record.key, "metres": distances[nearest]})
    return found


def prices(events: list[StudyRecord]) -> dict[str, Any]:
    """The prices of one area."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for record in events:
        minute = datetime.fromtimestamp(record.at_ms / 1000, UTC)
        counts[f"{record.key} {minute:%H:%M}"][(record.value or {})["kind"]] += 1
    return {
        name: {
            "requests": kinds["request"],
            "free": kinds["free"],
            "surge_percent": surge_percent(kinds["request"], kinds["free"]),
        }
        for name, kinds in counts.items()
    }


def fare(path: list[dict[str, Any]]) -> dict[str, Any]:
    metres = sum(abs(b["x"] - a["x"]) + abs(b["y"] - a["y"]) for a, b in pairwise(path))
    surge = path[0]["surge_percent"]
    cents = (START_CENTS + metres * CENTS_PER_100_M // 100) * surge // 100
    return {"metres": metres, "surge_percent": surge, "cents": cents}
