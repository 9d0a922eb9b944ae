"""An application that works with its database. The database's changes go to a topic."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from moldau import NewTopic
from moldau.examples.database_rebuild.shop_database import ShopDatabase
from moldau.examples.place import Place, read_topic, topic_sender
from moldau.examples.study import StudyRecord

CHANGES = "shop.changes"
# One partition: the changes of a database have one order. All of them are kept, so that any time can be rebuilt.
TOPICS = [NewTopic(CHANGES, partitions=1, configs={"retention.ms": "-1", "cleanup.policy": "delete"})]
DATABASE = "shop.sqlite"

PRODUCTS = ("apple", "bread", "cheese", "dumpling", "egg")


def records(seed: int, begin_ms: int, rate: float) -> Iterator[StudyRecord]:
    """Commands of the application, in the order of time. Each is one transaction of one or two changes."""
    chance = random.Random(seed)
    orders: list[int] = []
    for number in count():
        command: dict[str, Any]
        if number < len(PRODUCTS):
            command = {"do": "offer", "product": number, "name": PRODUCTS[number], "cents": 100}
        else:
            command = _command(chance, number, orders)
        yield StudyRecord(CHANGES, command["do"], command, begin_ms + int(number * 1000 / rate))


def _command(chance: random.Random, number: int, orders: list[int]) -> dict[str, Any]:
    """`orders` are those that are not shipped yet."""
    product, amount = chance.randrange(len(PRODUCTS)), chance.randint(1, 9)
    kind = chance.random()
    if kind < 0.15:
        return {"do": "deliver", "product": product, "amount": 10 * amount}
    if kind < 0.25:
        return {"do": "price", "product": product, "cents": chance.randrange(50, 500)}
    if kind < 0.60 or not orders:
        orders.append(number)
        return {"do": "order", "order": number, "product": product, "amount": amount}
    order = orders.pop(chance.randrange(len(orders)))
    return {"do": "ship" if kind < 0.85 else "cancel", "order": order}


@contextmanager
def sender(place: Place) -> Iterator[Callable[[StudyRecord], None]]:
    """Change the database, then send what it has written down about that."""
    database = ShopDatabase(place.directory / DATABASE)
    sent = last_sent(place)
    with topic_sender(place) as send_change:

        def send(command: StudyRecord) -> None:
            nonlocal sent
            database.do(command.value or {}, command.at_ms)
            for change in database.changes_after(sent):
                send_change(StudyRecord(CHANGES, f"{change['table']}/{change['id']}", change, change["at_ms"]))
                sent = change["lsn"]

        yield send
    database.close()


def last_sent(place: Place) -> int:
    """The number of the last change in the topic: the topic itself says where to continue after a crash."""
    return max(((record.value or {})["lsn"] for record in read_topic(place, CHANGES)), default=0)
