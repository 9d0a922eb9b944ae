"""Visitors who see one variant of an advertisement. Some of them buy.

The variants of a campaign have different true chances. Phones send some records twice: only one of them counts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from moldau import NewTopic
from moldau.examples.study import StudyRecord

VISITS = "campaign.visits"
TOPICS = [NewTopic(VISITS, partitions=2)]

CHANCES = {
    "shoes": {"A": 0.10, "B": 0.16, "C": 0.10},
    "books": {"A": 0.20, "B": 0.21, "C": 0.12},
    "tea": {"A": 0.15, "B": 0.15, "C": 0.15},
}
VARIANTS = ("A", "B", "C")
"""A is the old advertisement. The others are compared with it."""


def records(seed: int, begin_ms: int, rate: float) -> Iterator[StudyRecord]:
    chance = random.Random(seed)
    number = 0
    visitor = 0
    again: list[dict[str, Any]] = []
    while True:
        at_ms = begin_ms + int(number * 1000 / rate)
        number += 1
        if again and chance.random() < 0.05:
            value = again.pop()
        else:
            visitor += 1
            campaign = chance.choice(list(CHANCES))
            variant = chance.choice(VARIANTS)
            bought = chance.random() < CHANCES[campaign][variant]
            value = {"visitor": f"visitor-{visitor}", "campaign": campaign, "variant": variant, "bought": bought}
            again = [value]
        yield StudyRecord(VISITS, value["visitor"], value, at_ms)
