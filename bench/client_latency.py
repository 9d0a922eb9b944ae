"""Producer latency: one record in flight with acks=1, compared with confluent-kafka on the same broker.

Both send a record, wait for the acknowledgement, and send the next, without linger. They alternate in short rounds, so
that other load on the machine affects both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from bench.harness import Context, Row, median, percentile, spread

RECORD = b"x" * 100
WARM_UP = 300
ROUND, ROUND_QUICK = 4_000, 1_500
MOST = 1.2

Once = Callable[[], object]


@contextmanager
def moldau(address: str, topic: str) -> Iterator[Once]:
    from moldau import Producer

    with Producer(bootstrap_servers=address, acks=1, linger_ms=0) as producer:
        yield lambda: producer.send(topic, RECORD).result()


@contextmanager
def confluent(address: str, topic: str) -> Iterator[Once]:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": 1,
            "enable.idempotence": False,
            "linger.ms": 0,
            "socket.nagle.disable": True,
        }
    )

    def once() -> None:
        producer.produce(topic, RECORD)
        producer.flush()

    yield once


def _times(client: AbstractContextManager[Once], rounds: int) -> list[float]:
    clock = time.perf_counter
    with client as once:
        for _ in range(WARM_UP):
            once()
        times = []
        for _ in range(rounds):
            began = clock()
            once()
            times.append(clock() - began)
    return times


def run(context: Context) -> Iterator[Row]:
    rounds = context.sized(ROUND, ROUND_QUICK)
    found: dict[str, list[tuple[float, float]]] = {"moldau": [], "confluent-kafka": []}
    with context.broker() as broker:
        broker.create_topic("latency", 1)
        for _ in range(context.repeats):
            for name, client in (("moldau", moldau), ("confluent-kafka", confluent)):
                times = _times(client(broker.address, "latency"), rounds)
                found[name].append((percentile(times, 0.5) * 1e6, percentile(times, 0.99) * 1e6))
                context.say(f"latency, {name}: p50 {found[name][-1][0]:.0f}, p99 {found[name][-1][1]:.0f} µs")
    for place, label in enumerate(("p50", "p99")):
        ours = [one[place] for one in found["moldau"]]
        theirs = [one[place] for one in found["confluent-kafka"]]
        note = f"{median(ours):.0f} ({spread(ours)}) against {median(theirs):.0f} ({spread(theirs)}) µs"
        yield Row(
            f"Producer: one record in flight, {label}",
            median(ours) / median(theirs),
            "x confluent-kafka",
            MOST,
            note=note,
        )
