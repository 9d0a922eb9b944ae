"""Produce cost: broker CPU time per GB, in large and in ordinary batches, compared with a bare receive loop.

A GB is 10^9 bytes of record batches, as sent and as stored in the segments; the bare loop moves the same number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench import bare, kcat
from bench.harness import GB, Broker, Context, Row, median, settle, spread

PARTITIONS = 6
BARE_RUNS = 3  # for each run of the broker
PUBLISHED_ONE_PRODUCER = 821_557


@dataclass(frozen=True)
class Shape:
    """A size of batches, and the limit for its cost."""

    name: str
    limit: float
    settings: tuple[str, ...]


LARGE = Shape("1 MB batches", 2.5, ("batch.size=1000000", "batch.num.messages=1000000", "linger.ms=100"))
ORDINARY = Shape("16 KB batches", 4.5, ("batch.size=16384", "batch.num.messages=10000", "linger.ms=5"))


def run(context: Context) -> Iterator[Row]:
    for shape in (LARGE, ORDINARY):
        yield from _shape(context, shape)


def _shape(context: Context, shape: Shape) -> Iterator[Row]:
    lines = context.lines(context.sized(4_000_000, 2_000_000))
    costs, rates, yardsticks = [], [], []
    batch_bytes = 0.0
    with context.broker() as broker:
        _warm_up(context, broker, shape)
        for turn in range(context.repeats):
            topic = f"produce-{turn}"
            broker.create_topic(topic, PARTITIONS)
            settle()
            before = broker.cpu_seconds()
            seconds = kcat.produce(broker.address, topic, lines, shape.settings)
            spent = broker.cpu_seconds() - before
            found = kcat.stored(broker.data, topic)
            settle()
            with context.scratch("bare") as directory:
                least = [bare.receive_seconds(found.bytes, directory) / found.bytes * GB for _ in range(BARE_RUNS)]
            batch_bytes = found.batch_bytes
            costs.append(spent / found.bytes * GB)
            yardsticks += least
            rates.append(found.records / seconds)
            context.say(f"produce, {shape.name}: {costs[-1]:.2f} CPU s/GB, bare {median(least):.2f}")
    note = (
        f"{median(costs):.2f} ({spread(costs)}) against {median(yardsticks):.2f} ({spread(yardsticks)}) CPU s/GB; "
        f"batches of {batch_bytes / 1000:.0f} KB reached"
    )
    ratio = median(costs) / median(yardsticks)
    yield Row(f"Produce, {shape.name}: broker CPU", ratio, "x bare", shape.limit, note=note)
    if shape is LARGE:
        yield beside_published("One producer", median(rates), PUBLISHED_ONE_PRODUCER)


def beside_published(name: str, rate: float, published: int) -> Row:
    """A row for comparison, without a limit: the published number is from another machine, years ago."""
    note = f"kcat, one process, 100-byte records; published for Kafka: {published:,}, so {rate / published:.2f} x"
    return Row(name, rate, "records/s", limit=None, note=note)


def _warm_up(context: Context, broker: Broker, shape: Shape) -> None:
    broker.create_topic("warm-up", PARTITIONS)
    kcat.produce(broker.address, "warm-up", context.lines(500_000), shape.settings)
