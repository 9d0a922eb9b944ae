"""Replication cost: broker CPU time per GB, acks=all with three replicas compared with acks=1 with one.

The same kcat writes both to the same three brokers, alternating. With factor 3 each GB is received once, read twice,
sent twice, received twice more and written three times; with factor 1 it is received and written once. A GB is 10^9
bytes of record batches as one replica stores them.

There are many short rounds. A virtual machine returns free memory above a limit to its host (1 GB on the machine of
these measurements). For a long round 1.7 GB were touched in advance, but most of it was returned before the brokers
wrote to it. Then a written GB cost 0.5 CPU seconds instead of 0.2, or several on a busy host. The memory touched for a
short round stays. Topics are deleted at once, because a deletion a minute later would disturb another round.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench import cluster, kcat
from bench.harness import GB, Context, Row, median, settle, spread, touch_memory

PARTITIONS = 6
ROUND_LINES = 1_000_000
ROUNDS_A_REPEAT = 3
MOST_RATIO = 3.5
MEMORY_A_BYTE = 4
"""Memory per byte: three replicas in the page cache, and some reserve."""
COMMON = ("batch.size=1000000", "batch.num.messages=1000000", "linger.ms=100")
KINDS = {1: ("acks=1",), 3: ("acks=all",)}


def run(context: Context) -> Iterator[Row]:
    lines = context.lines(ROUND_LINES)
    costs: dict[int, list[float]] = {factor: [] for factor in KINDS}
    with cluster.running(context, "min.insync.replicas=2", "log.segment.delete.delay.ms=0") as running:
        for factor in KINDS:
            _produce(context, running, f"warm-up-{factor}", factor, context.lines(500_000))
        for turn in range(ROUNDS_A_REPEAT * context.repeats):
            for factor in KINDS:
                costs[factor].append(_produce(context, running, f"cost-{factor}-{turn}", factor, lines))
            context.say(f"CPU s/GB: factor 3 {costs[3][-1]:.2f}, factor 1 {costs[1][-1]:.2f}")
    ratio = median(costs[3]) / median(costs[1])
    note = f"{median(costs[3]):.2f} ({spread(costs[3])}) against {median(costs[1]):.2f} ({spread(costs[1])}) CPU s/GB; "
    note += "1 MB batches"
    yield Row("acks=all, 3 replicas: CPU of all brokers", ratio, "x acks=1, 1 replica", MOST_RATIO, note=note)


def _produce(context: Context, running: cluster.Cluster, topic: str, factor: int, lines: Path) -> float:
    """CPU seconds per GB, until all replicas have all records."""
    running.brokers[1].create_topic(topic, PARTITIONS, factor)
    cluster.wait_whole(running, topic, PARTITIONS)
    settle()
    touch_memory(context.directory, MEMORY_A_BYTE * lines.stat().st_size)
    before = running.cpu_seconds()
    kcat.produce(running.addresses, topic, lines, (*COMMON, *KINDS[factor]))
    # With acks=all the last records are acknowledged when the whole ISR has them: nothing is left to copy.
    spent = running.cpu_seconds() - before
    size = sum(kcat.stored(broker.data, topic).bytes for broker in running.brokers.values()) / factor
    running.brokers[1].delete_topic(topic)
    return spent / size * GB
