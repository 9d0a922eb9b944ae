"""Broker processor time per GB fetched, beside a bare sendfile loop."""

from __future__ import annotations

from collections.abc import Iterator

from bench import bare, kcat
from bench.harness import GB, Context, Row, median, spread
from bench.produce import LARGE, ORDINARY, PARTITIONS, beside_published

LIMIT = 2.5
PUBLISHED_ONE_CONSUMER = 940_521


def run(context: Context) -> Iterator[Row]:
    lines = context.lines(context.sized(5_000_000, 2_000_000))
    with context.broker() as broker:
        for shape in (LARGE, ORDINARY):
            topic = shape.name.replace(" ", "-")
            broker.create_topic(topic, PARTITIONS)
            kcat.produce(broker.address, topic, lines, shape.settings)
            found = kcat.stored(broker.data, topic)
            kcat.consume(broker.address, topic)  # a process that has served before: its memory has grown already
            ratios, costs, rates, yardsticks = [], [], [], []
            for _ in range(context.repeats):
                before = broker.cpu_seconds()
                seconds = kcat.consume(broker.address, topic)
                spent = broker.cpu_seconds() - before
                with context.scratch("bare") as directory:
                    least = bare.send_seconds(found.bytes, directory)
                ratios.append(spent / least)
                costs.append(spent / found.bytes * GB)
                yardsticks.append(least / found.bytes * GB)
                rates.append(found.records / seconds)
                context.say(f"fetch, {shape.name}: {costs[-1]:.2f} CPU s/GB, {ratios[-1]:.2f} x bare")
            note = (
                f"{median(costs):.2f} against {median(yardsticks):.2f} CPU s/GB; stored in batches of "
                f"{found.batch_bytes / 1000:.0f} KB; repeats {spread(ratios)}"
            )
            yield Row(f"Fetch, {shape.name}: broker CPU", median(ratios), "x bare", LIMIT, note=note)
            if shape is LARGE:
                yield beside_published("One consumer", median(rates), PUBLISHED_ONE_CONSUMER)
