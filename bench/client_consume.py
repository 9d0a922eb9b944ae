"""Consumer throughput for 100-byte records: ours, by iteration and as tables, compared with three other clients.

Each client reads the same topic of three partitions in its own process, warms up on the first records, and reads every
value. confluent-kafka is tuned: with its defaults it queues a few hundred thousand messages and then pauses, so its
queue is large and its back-off short. It is called for ten thousand messages at a time, which is its fastest way.
aiokafka and kafka-python also use their fastest calls: `getmany` and `poll`. Rates are records per second of wall time.
Clients alternate, so that other load on the machine affects all of them.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice

from bench import kcat
from bench.harness import Context, Row, median, spread

PARTITIONS = 3
RECORDS = 2_000_000
QUICK_RECORDS = 500_000
SLOW_SHARE = 5  # slower clients read a fifth of the records: their rates are as stable, in less time
WARM_UP = 20_000
BATCH_SETTINGS = ("batch.size=65536", "linger.ms=20")
TIMEOUT_S = 120

OURS, OUR_POLL, OUR_TABLES = "moldau", "moldau poll", "moldau arrow"
CONFLUENT, AIOKAFKA, KAFKA_PYTHON = "confluent-kafka", "aiokafka", "kafka-python"
LIMITS = {CONFLUENT: 1.5, AIOKAFKA: 5.0, KAFKA_PYTHON: 5.0}
ARROW_LIMIT = 6.0


def run(context: Context) -> Iterator[Row]:
    records = context.sized(RECORDS, QUICK_RECORDS)
    with context.broker() as broker:
        broker.create_topic("records", PARTITIONS)
        kcat.produce(broker.address, "records", context.lines(records), BATCH_SETTINGS)
        rates: dict[str, list[float]] = {client: [] for client in CLIENTS}
        for _ in range(context.repeats):
            for client, found in rates.items():
                count = records // SLOW_SHARE if client in (AIOKAFKA, KAFKA_PYTHON) else records
                found.append(measured(client, broker.address, "records", count))
                context.say(f"{client}: {found[-1]:,.0f} records/s")
    ours = median(rates[OURS])
    yield Row("Consumer, iterated", ours, "records/s", None, note=spread(rates[OURS]))
    yield Row("Consumer, polled", median(rates[OUR_POLL]), "records/s", None, note=spread(rates[OUR_POLL]))
    for client, limit in LIMITS.items():
        theirs = median(rates[client])
        note = f"{ours:,.0f} against {theirs:,.0f} records/s ({spread(rates[client])})"
        yield Row("Consumer, iterated", ours / theirs, f"x {client}", limit, at_least=True, note=note)
    tables, theirs = median(rates[OUR_TABLES]), median(rates[CONFLUENT])
    note = f"{tables:,.0f} rows/s ({spread(rates[OUR_TABLES])}) against {theirs:,.0f}"
    yield Row("Consumer, as Arrow tables", tables / theirs, f"x {CONFLUENT}", ARROW_LIMIT, at_least=True, note=note)


def measured(client: str, address: str, topic: str, count: int) -> float:
    """Records per second, measured in a separate process."""
    command = [sys.executable, "-m", "bench.client_consume", client, address, topic, str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    return float(done.stdout.split()[-1])


class Meter:
    """Counts records, and measures the time from the end of the warm-up to the last record."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.seen = 0
        self.began = 0.0
        self.began_at = 0
        self.ended = 0.0

    def add(self, records: int) -> bool:
        """Count records; returns whether more are needed."""
        self.seen += records
        if not self.began_at and self.seen >= WARM_UP:
            self.began, self.began_at = time.perf_counter(), self.seen
        if self.seen >= self.count and not self.ended:
            self.ended = time.perf_counter()
        return self.seen < self.count

    def rate(self) -> float:
        return (self.seen - self.began_at) / (self.ended - self.began)


def moldau_iterated(address: str, topic: str, meter: Meter) -> None:
    from moldau import Consumer

    with Consumer(topic, bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        records = iter(consumer)
        sum(len(record.value) for record in islice(records, WARM_UP))
        meter.add(WARM_UP)
        sizes = 0
        left = meter.count - WARM_UP
        for record in records:  # as in a typical application
            sizes += len(record.value)
            left -= 1
            if not left:
                break
        meter.add(meter.count - WARM_UP)


def moldau_polled(address: str, topic: str, meter: Meter) -> None:
    from moldau import Consumer

    with Consumer(topic, bootstrap_servers=address, auto_offset_reset="earliest", max_poll_records=5_000) as consumer:
        more = True
        while more:
            records = consumer.poll()
            sum(len(record.value) for record in records)
            more = meter.add(len(records))


def moldau_tables(address: str, topic: str, meter: Meter) -> None:
    import pyarrow.compute as pc

    from moldau import Consumer

    with Consumer(topic, bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        more = True
        while more:
            table = consumer.poll_arrow()
            pc.sum(pc.binary_length(table["value"]))
            more = meter.add(table.num_rows)


def confluent(address: str, topic: str, meter: Meter) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "check.crcs": True,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1_048_576,
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
    more = True
    while more:
        messages = consumer.consume(10_000, timeout=1.0)
        sum(len(message.value()) for message in messages)
        more = meter.add(len(messages))
    consumer.close()


def aiokafka(address: str, topic: str, meter: Meter) -> None:
    from aiokafka import AIOKafkaConsumer

    async def read() -> None:
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest")
        await consumer.start()
        try:
            more = True
            while more:
                found = await consumer.getmany(timeout_ms=1_000, max_records=10_000)
                for messages in found.values():
                    sum(len(message.value) for message in messages)
                    more = meter.add(len(messages))
        finally:
            await consumer.stop()

    asyncio.run(read())


def kafka_python(address: str, topic: str, meter: Meter) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest", max_poll_records=10_000)
    more = True
    while more:
        for messages in consumer.poll(timeout_ms=1_000).values():
            sum(len(message.value) for message in messages)
            more = meter.add(len(messages))
    consumer.close()


CLIENTS: dict[str, Callable[[str, str, Meter], None]] = {
    OURS: moldau_iterated,
    OUR_POLL: moldau_polled,
    OUR_TABLES: moldau_tables,
    CONFLUENT: confluent,
    AIOKAFKA: aiokafka,
    KAFKA_PYTHON: kafka_python,
}


def main() -> None:
    client, address, topic, count = sys.argv[1:]
    meter = Meter(int(count))
    CLIENTS[client](address, topic, meter)
    print(meter.rate())


if __name__ == "__main__":
    main()
