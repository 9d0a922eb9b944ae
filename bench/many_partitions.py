"""Many partitions: a clean restart with 10,000 of them, until all are served."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench import frames
from bench.harness import HOST, Broker, Context, Row, median, spread

TOPICS = 10
PARTITIONS_PER_TOPIC = 1_000
MOST_SECONDS = 3.0
MOST_MB = 150


def run(context: Context) -> Iterator[Row]:
    with context.scratch("partitions") as directory, Broker(directory / "data") as broker:
        broker.start()
        began = time.perf_counter()
        for number in range(TOPICS):
            broker.create_topic(f"many-{number}", PARTITIONS_PER_TOPIC)
        created = time.perf_counter() - began
        _write_one_record_everywhere(broker)
        context.say(f"10,000 partitions created in {created:.1f} s")
        # The first stop must write a record to each of 10,000 files. That measures the disk, so it is only in the note.
        # The limit is for the restart of a broker without new records.
        first_stop = broker.stop()
        broker.start()
        stops, starts, memory = [], [], []
        for _ in range(context.repeats):
            stops.append(broker.stop())
            starts.append(broker.start())
            with frames.connect(HOST, broker.port) as connection:
                # The last partition answers: all of them are loaded.
                last = frames.fetch(f"many-{TOPICS - 1}", PARTITIONS_PER_TOPIC - 1, 0, max_bytes=1000)
                assert frames.fetched(frames.call(connection, last))[0] == 0
            memory.append(broker.memory_mb())
            context.say(f"restart: stop {stops[-1]:.2f} s, start {starts[-1]:.2f} s, {memory[-1]:.0f} MB")
    whole = [stop + start for stop, start in zip(stops, starts, strict=True)]
    note = f"stop {median(stops):.2f} s, start {median(starts):.2f} s; one record in each; created in {created:.1f} s; "
    note += f"the first stop, with all files unflushed, took {first_stop:.1f} s; "
    yield Row("10,000 partitions: restart", median(whole), "s", MOST_SECONDS, note=f"{note}repeats {spread(whole)}")
    yield Row("10,000 partitions: memory", median(memory), "MB", MOST_MB, note="resident after the restart")


def _write_one_record_everywhere(broker: Broker) -> None:
    """Write a record to each partition: an empty partition would be too easy to load."""
    record = frames.batch(1)
    with frames.connect(HOST, broker.port) as connection:
        for number in range(TOPICS):
            for partition in range(PARTITIONS_PER_TOPIC):
                answer = frames.call(connection, frames.produce(f"many-{number}", partition, record))
                assert frames.produce_error(answer) == 0
