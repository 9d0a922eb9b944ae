"""Visitors of a web site: page views as the browsers report them, and log lines as the web servers write them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import count

from moldau import NewTopic
from moldau.examples.place import Place, topic_sender
from moldau.examples.study import StudyRecord
from moldau.examples.web_activity.log_collector import HOST_LOGS, POSITIONS, LogCollector

PAGE_VIEWS = "web.page-views"
TOPICS = [
    NewTopic(PAGE_VIEWS, partitions=2),
    NewTopic(HOST_LOGS, partitions=2),
    NewTopic(POSITIONS, partitions=1, configs={"cleanup.policy": "compact"}),
]

PAGES = ("/", "/castle", "/bridge", "/beer", "/tram", "/clock")
USERS = 40
HOSTS = ("web-1", "web-2", "web-3")
ERROR_CHANCE = {"web-1": 0.01, "web-2": 0.02, "web-3": 0.2}
VISITORS = 5
LONGEST_VISIT = 20


def records(seed: int, begin_ms: int, rate: float) -> Iterator[StudyRecord]:
    """Page views in the order of time. They name the web server that has answered, and its answer."""
    chance = random.Random(seed)
    visits: dict[str, int] = {}  # who is on the site now, and how many pages each will still look at
    for number in count():
        while len(visits) < VISITORS:
            visits[f"user-{chance.randrange(USERS):02}"] = chance.randint(1, LONGEST_VISIT)
        user = chance.choice(sorted(visits))
        visits[user] -= 1
        if visits[user] == 0:
            del visits[user]
        # The smaller of two numbers: the first pages are the most popular ones.
        page = PAGES[min(chance.randrange(len(PAGES)), chance.randrange(len(PAGES)))]
        host = chance.choice(HOSTS)
        status = 500 if chance.random() < ERROR_CHANCE[host] else 200
        at_ms = begin_ms + int(number * 1000 / rate)
        yield StudyRecord(PAGE_VIEWS, user, {"page": page, "host": host, "status": status, "at_ms": at_ms}, at_ms)


@contextmanager
def sender(place: Place) -> Iterator[Callable[[StudyRecord], None]]:
    """The browser reports the page view; the web server writes a line into its log, which the collector reads."""
    logs = place.directory / "logs"
    logs.mkdir(exist_ok=True)
    with ExitStack() as stack:
        files = {host: stack.enter_context((logs / f"{host}.log").open("a")) for host in HOSTS}
        stack.enter_context(LogCollector(place, logs))
        send_page_view = stack.enter_context(topic_sender(place))

        def send(view: StudyRecord) -> None:
            value = view.value or {}
            files[value["host"]].write(log_line(value) + "\n")
            files[value["host"]].flush()
            send_page_view(view)

        yield send


def log_line(view: dict[str, object]) -> str:
    """Time, status, page."""
    at = datetime.fromtimestamp(int(str(view["at_ms"])) / 1000, UTC)
    return f"{at.isoformat(timespec='milliseconds')} {view['status']} {view['page']}"
