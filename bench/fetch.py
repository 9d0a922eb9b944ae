"""Fetch cost: broker CPU time per GB, compared with a bare sendfile loop."""

from __future__ import annotations

from collections.abc import Iterator

from bench import bare, kcat
from bench.harness import GB, Context, Row, median, settle, spread
from bench.produce import BARE_RUNS, LARGE, ORDINARY, PARTITIONS, beside_published

LIMIT = 2.5
PUBLISHED_ONE_CONSUMER = 940_521


def run(context: Context) -> Iterator[Row]:
    lines = context.lines(context.sized(4_000_000, 2_000_000))
    with context.broker() as broker:
        for shape in (LARGE, ORDINARY):
            topic = shape.name.replace(" ", "-")
            broker.create_topic(topic, PARTITIONS)
            kcat.produce(broker.address, topic, lines, shape.settings)
            found = kcat.stored(broker.data, topic)
            settle()
            kcat.consume(broker.address, topic)  # warm-up: the process has allocated its memory
            costs, rates, yardsticks = [], [], []
            for _ in range(context.repeats):
                before = broker.cpu_seconds()
                seconds = kcat.consume(broker.address, topic)
                spent = broker.cpu_seconds() - before
                segments = kcat.segments(broker.data, topic)
                least = [bare.send_seconds(segments) / found.bytes * GB for _ in range(BARE_RUNS)]
                costs.append(spent / found.bytes * GB)
                yardsticks += least
                rates.append(found.records / seconds)
                context.say(f"fetch, {shape.name}: {costs[-1]:.2f} CPU s/GB, bare {median(least):.2f}")
            note = (
                f"{median(costs):.2f} ({spread(costs)}) against {median(yardsticks):.2f} ({spread(yardsticks)}) CPU "
                f"s/GB; stored in batches of {found.batch_bytes / 1000:.0f} KB"
            )
            ratio = median(costs) / median(yardsticks)
            yield Row(f"Fetch, {shape.name}: broker CPU", ratio, "x bare", LIMIT, note=note)
            if shape is LARGE:
                yield beside_published("One consumer", median(rates), PUBLISHED_ONE_CONSUMER)
