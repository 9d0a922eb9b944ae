"""Small batches: pipelined produce requests of 10 records per second of broker CPU time.

librdkafka puts one partition into each request, so each batch in the segments is one request. kcat itself needs more
CPU time for such a request than the broker, and there are only two cores. So the rate is per second of broker CPU time,
and the rate by wall time is in the note.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench import kcat
from bench.harness import Context, Row, median, settle, spread

PARTITIONS = 6
RECORDS_PER_BATCH = 10
KCAT_PROCESSES = 2
# Requests in flight stay at librdkafka's default, a million per connection: kcat pipelines as far as it can.
SETTINGS = (f"batch.num.messages={RECORDS_PER_BATCH}", "linger.ms=5")
LEAST_REQUESTS_PER_CORE_SECOND = 60_000


def run(context: Context) -> Iterator[Row]:
    lines = context.lines(context.sized(1_000_000, 300_000))
    per_core, by_clock = [], []
    batch_records = 0.0
    with context.broker() as broker:
        broker.create_topic("warm-up", PARTITIONS)
        kcat.produce(broker.address, "warm-up", context.lines(100_000), SETTINGS)
        for turn in range(context.repeats):
            topic = f"small-{turn}"
            broker.create_topic(topic, PARTITIONS)
            settle()
            before = broker.cpu_seconds()
            seconds = kcat.produce(broker.address, topic, lines, SETTINGS, KCAT_PROCESSES)
            spent = broker.cpu_seconds() - before
            found = kcat.stored(broker.data, topic)
            batch_records = found.batch_records
            per_core.append(found.batches / spent)
            by_clock.append(found.batches / seconds)
            context.say(f"10-record batches: {per_core[-1]:,.0f} requests/s per core")
    note = (
        f"{1e6 / median(per_core):.1f} µs of CPU per request; {median(by_clock):,.0f} requests/s by the clock from "
        f"{KCAT_PROCESSES} kcat processes, the bottleneck; {batch_records:.1f} records per batch reached; "
        f"repeats {spread(per_core)}"
    )
    yield Row(
        "Produce, 10-record batches",
        median(per_core),
        "requests/s per core",
        LEAST_REQUESTS_PER_CORE_SECOND,
        True,
        note,
    )
