"""A bank: an application that inserts transactions into its database, and users who set thresholds for alerts.

A threshold is valid from the timestamp of its record until the next one of the same account. A tombstone removes it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from moldau import NewTopic
from moldau.examples.bank_alerts.database import TRANSACTIONS, capturing, insert, open_database
from moldau.examples.place import Place, topic_sender
from moldau.examples.study import StudyRecord

THRESHOLDS = "bank.thresholds"
TOPICS = [
    NewTopic(TRANSACTIONS, partitions=2),
    # Compaction keeps the latest threshold of an account. Earlier ones stay for an hour, for a pipeline that is late.
    NewTopic(THRESHOLDS, partitions=1, configs={"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"}),
]

ACCOUNTS = 25
MAX_CENTS = 100_000


def records(seed: int, begin_ms: int, rate: float) -> Iterator[StudyRecord]:
    chance = random.Random(seed)
    accounts = [f"account-{number}" for number in range(1, ACCOUNTS + 1)]
    for account in accounts:
        yield StudyRecord(THRESHOLDS, account, {"cents": chance.randrange(MAX_CENTS)}, begin_ms)
    number = 0
    while True:
        number += 1
        at_ms = begin_ms + 1 + int(number * 1000 / rate)
        account = chance.choice(accounts)
        if number % 20:
            value = {"id": number, "account": account, "cents": chance.randrange(MAX_CENTS), "at": at_ms}
            yield StudyRecord(TRANSACTIONS, account, value, at_ms)
        elif chance.random() < 0.1:
            yield StudyRecord(THRESHOLDS, account, None, at_ms)  # this user wants no more alerts
        else:
            yield StudyRecord(THRESHOLDS, account, {"cents": chance.randrange(MAX_CENTS)}, at_ms)


@contextmanager
def sender(place: Place) -> Iterator[Callable[[StudyRecord], None]]:
    """Transactions go to the database, and from there by Connect to their topic. Users write thresholds directly."""
    with (
        closing(open_database(place)) as database,
        topic_sender(place, wait=True) as send_threshold,
        capturing(place, database),
    ):

        def send(record: StudyRecord) -> None:
            if record.topic == TRANSACTIONS:
                insert(database, record.value or {})
            else:
                send_threshold(record)

        yield send
