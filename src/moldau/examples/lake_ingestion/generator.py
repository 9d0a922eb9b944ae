"""Orders of a chain of shops: most arrive at once, some late."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

from moldau import NewTopic
from moldau.examples.study import StudyRecord

ORDERS = "lake.orders"
TOPICS = [NewTopic(ORDERS, partitions=2)]

SHOPS = ("Brno", "Pilsen", "Prague", "Tabor")

LATE_SHARE = 0.1
LATE_MS = 12_000
"""Every tenth order arrives up to 12 seconds late: the shop had no network."""


def records(seed: int, begin_ms: int, rate: float) -> Iterator[StudyRecord]:
    """Orders in the order of their arrival. The field `at_ms` is the time at which the customer has paid."""
    chance = random.Random(seed)
    for number in count():
        arrival_ms = begin_ms + int(number * 1000 / rate)
        late_ms = chance.randrange(LATE_MS) if chance.random() < LATE_SHARE else 0
        order = {"shop": chance.choice(SHOPS), "cents": chance.randrange(100, 20_000), "at_ms": arrival_ms - late_ms}
        yield StudyRecord(ORDERS, f"order-{number}", order, arrival_ms)
