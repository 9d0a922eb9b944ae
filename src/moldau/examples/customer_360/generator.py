"""Events of three systems of a bank: personal data, payments and cards of its customers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from typing import Any

from moldau import NewTopic
from moldau.examples.study import StudyRecord

PEOPLE = "customers.people"
PAYMENTS = "customers.payments"
CARDS = "customers.cards"
TOPICS = [NewTopic(topic, partitions=2) for topic in (PEOPLE, PAYMENTS, CARDS)]

CUSTOMERS = 50
NAMES = ("Anna", "Bohumil", "Franz", "Jana", "Karel", "Milena", "Otla", "Vera")
CITIES = ("Brno", "Pilsen", "Prague", "Tabor")


def records(seed: int, begin_ms: int, rate: float) -> Iterator[StudyRecord]:
    chance = random.Random(seed)
    for number in count():
        customer = f"c{chance.randrange(CUSTOMERS):03}"
        topic, value = _event(chance)
        yield StudyRecord(topic, customer, value, begin_ms + int(number * 1000 / rate))


def _event(chance: random.Random) -> tuple[str, dict[str, Any] | None]:
    kind = chance.random()
    if kind < 0.03:
        return PEOPLE, None  # the customer has asked the bank to forget the personal data
    if kind < 0.25:
        return PEOPLE, {"name": chance.choice(NAMES), "city": chance.choice(CITIES)}
    if kind < 0.40:
        return CARDS, {"card": f"{chance.randrange(10_000):04}", "state": chance.choice(("active", "blocked"))}
    return PAYMENTS, {"cents": chance.randrange(100, 50_000)}
