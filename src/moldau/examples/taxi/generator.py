"""A city with taxis: drivers who are free, riders who request a ride, and the taximeters of rides.

Each area is a square; positions are metres from its corner. Events of an area have the area as their key, so they stay
in order. A rider accepts the surge price of the minute before, which the taximeter then sends with each position.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from moldau import NewTopic
from moldau.examples.study import StudyRecord

EVENTS = "taxi.events"
POSITIONS = "taxi.positions"
TOPICS = [NewTopic(EVENTS, partitions=2), NewTopic(POSITIONS, partitions=2)]

AREAS = ("centre", "airport", "harbour", "university")
REQUEST_WEIGHTS = (5, 2, 1, 2)
"""The centre has the most requests; drivers are everywhere."""
SIZE_M = 3_000
DRIVERS = 30
MINUTE_MS = 60_000


def records(seed: int, begin_ms: int, rate: float) -> Iterator[StudyRecord]:
    chance = random.Random(seed)
    riding: list[dict[str, Any]] = []
    counts: Counter[tuple[str, str, int]] = Counter()  # by kind, area and minute
    number = 0
    while True:
        at_ms = begin_ms + int(number * 1000 / rate)
        minute = at_ms // MINUTE_MS
        number += 1
        kind = chance.choices(("free", "request", "position"), (3, 3, 4))[0]
        if kind == "position" and riding:
            yield _position(chance, riding, at_ms)
        elif kind == "request":
            (area,) = chance.choices(AREAS, REQUEST_WEIGHTS)
            counts["request", area, minute] += 1
            before = [counts[one, area, minute - 1] for one in ("request", "free")]
            x, y = _place(chance)
            value = {"kind": "request", "ride": f"ride-{number}", "x": x, "y": y}
            riding.append(
                {"ride": f"ride-{number}", "x": x, "y": y, "surge_percent": surge_percent(*before), "sent": 0}
            )
            yield StudyRecord(EVENTS, area, value, at_ms)
        else:
            area = chance.choice(AREAS)
            counts["free", area, minute] += 1
            x, y = _place(chance)
            value = {"kind": "free", "driver": f"driver-{chance.randint(1, DRIVERS)}-{area}", "x": x, "y": y}
            yield StudyRecord(EVENTS, area, value, at_ms)


def surge_percent(requests: int, free: int) -> int:
    """The price of a minute, in percent of the usual one: more with more requests than free drivers, at most 300."""
    return min(300, max(100, 100 * requests // max(free, 1)))


def _position(chance: random.Random, riding: list[dict[str, Any]], at_ms: int) -> StudyRecord:
    """The next position of a ride. After a few positions the ride ends."""
    ride = chance.choice(riding[:5])
    ride["x"] += chance.randint(-200, 400)
    ride["y"] += chance.randint(-200, 400)
    ride["sent"] += 1
    last = ride["sent"] >= 3 and chance.random() < 0.4
    if last:
        riding.remove(ride)
    value = {name: ride[name] for name in ("x", "y", "surge_percent")} | {"last": last}
    return StudyRecord(POSITIONS, ride["ride"], value, at_ms)


def _place(chance: random.Random) -> tuple[int, int]:
    return chance.randrange(SIZE_M), chance.randrange(SIZE_M)
