"""Idempotent produce: throughput with idempotence on and off, alternating on the same broker.

A run needs both cores, so any other load on the machine affects it. There are many short runs in pairs, and each kind
is first in half of them. Load that slows one run of a pair mostly slows the other too, so the median of the ratios is
more stable than the rates.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench import kcat
from bench.harness import GB, Context, Row, median, settle, spread

PARTITIONS = 6
LEAST_RATIO = 0.9
LINES = 500_000
# Both use acks=all and five requests in flight: idempotence is the only difference.
COMMON = (
    "acks=all",
    "max.in.flight.requests.per.connection=5",
    "batch.size=1000000",
    "batch.num.messages=1000000",
    "linger.ms=5",
)
KINDS = {False: "enable.idempotence=false", True: "enable.idempotence=true"}


def run(context: Context) -> Iterator[Row]:
    lines = context.lines(LINES)
    rates: dict[bool, list[float]] = {False: [], True: []}
    costs: dict[bool, list[float]] = {False: [], True: []}
    with context.broker() as broker:
        broker.create_topic("warm-up", PARTITIONS)
        kcat.produce(broker.address, "warm-up", lines, (*COMMON, KINDS[True]))
        settle()
        for turn in range(context.sized(40, 12)):
            for idempotent in (bool(turn % 2), not turn % 2):
                topic = f"{'with' if idempotent else 'without'}-{turn}"
                broker.create_topic(topic, PARTITIONS)
                before = broker.cpu_seconds()
                seconds = kcat.produce(broker.address, topic, lines, (*COMMON, KINDS[idempotent]))
                spent = broker.cpu_seconds() - before
                found = kcat.stored(broker.data, topic)
                assert found.records == LINES
                rates[idempotent].append(found.records / seconds)
                costs[idempotent].append(spent / found.bytes * GB)
                broker.delete_topic(topic)
    ratios = [on / off for on, off in zip(rates[True], rates[False], strict=True)]
    context.say(f"idempotent against not: {median(ratios):.2f} ({spread(ratios)})")
    note = (
        f"{len(ratios)} pairs, ratios {spread(ratios)}; {median(rates[True]):,.0f} against {median(rates[False]):,.0f} "
        f"records/s; broker CPU {median(costs[True]):.2f} against {median(costs[False]):.2f} s/GB"
    )
    yield Row("Idempotent produce: throughput", median(ratios), "x without", LEAST_RATIO, at_least=True, note=note)
