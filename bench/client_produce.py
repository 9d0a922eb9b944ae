"""Producer throughput with `send`, record by record: compared with confluent-kafka, aiokafka, kafka-python.

All write the same 100-byte records to the same kind of topic with acks=all, with the same batch size and linger. They
are timed from the first `send` to the end of `flush`. confluent-kafka gets a very large queue and is polled when it is
full: with its defaults it would stall in a back-off. The two pure Python clients get fewer records.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

from bench.harness import Context, Row, median, settle, spread

PARTITIONS = 6
RECORD = b"x" * 100
BATCH_SIZE = 256 * 1024
LINGER_MS = 5
MANY, MANY_QUICK = 2_000_000, 500_000
FEW, FEW_QUICK = 100_000, 30_000

AT_LEAST_CONFLUENT = 2.0
AT_LEAST_PYTHON = 10.0

Send = Callable[[str, str, int], float]


def moldau(address: str, topic: str, records: int) -> float:
    from moldau import Producer

    with Producer(bootstrap_servers=address, batch_size=BATCH_SIZE, linger_ms=LINGER_MS) as producer:
        producer.send(topic, RECORD).result()
        send = producer.send
        began = time.perf_counter()
        for _ in range(records):
            send(topic, RECORD)
        producer.flush()
        return records / (time.perf_counter() - began)


def confluent(address: str, topic: str, records: int) -> float:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_SIZE,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 10_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )
    producer.produce(topic, RECORD)
    producer.flush()
    produce = producer.produce
    began = time.perf_counter()
    for _ in range(records):
        try:
            produce(topic, RECORD)
        except BufferError:
            producer.poll(0.01)
            produce(topic, RECORD)
    producer.flush()
    return records / (time.perf_counter() - began)


def kafka_python(address: str, topic: str, records: int) -> float:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address, acks="all", batch_size=BATCH_SIZE, linger_ms=LINGER_MS)
    producer.send(topic, RECORD).get(timeout=60)
    began = time.perf_counter()
    for _ in range(records):
        producer.send(topic, RECORD)
    producer.flush()
    rate = records / (time.perf_counter() - began)
    producer.close()
    return rate


def aiokafka(address: str, topic: str, records: int) -> float:
    async def run() -> float:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=address,
            acks="all",
            enable_idempotence=True,
            max_batch_size=BATCH_SIZE,
            linger_ms=LINGER_MS,
        )
        await producer.start()
        await producer.send_and_wait(topic, RECORD)
        began = time.perf_counter()
        for _ in range(records):
            await producer.send(topic, RECORD)
        await producer.flush()
        rate = records / (time.perf_counter() - began)
        await producer.stop()
        return rate

    return asyncio.run(run())


def run(context: Context) -> Iterator[Row]:
    rates: dict[str, list[float]] = {}
    senders: dict[str, tuple[Send, int]] = {
        "moldau": (moldau, context.sized(MANY, MANY_QUICK)),
        "confluent-kafka": (confluent, context.sized(MANY, MANY_QUICK)),
        "kafka-python": (kafka_python, context.sized(FEW, FEW_QUICK)),
        "aiokafka": (aiokafka, context.sized(FEW, FEW_QUICK)),
    }
    with context.broker() as broker:
        for turn in range(context.repeats):
            for name, (send, records) in senders.items():
                topic = f"send-{name}-{turn}"
                broker.create_topic(topic, PARTITIONS)
                settle()
                rates.setdefault(name, []).append(send(broker.address, topic, records))
                context.say(f"send, {name}: {rates[name][-1]:,.0f} records/s")
                broker.delete_topic(topic)
    ours = median(rates["moldau"])
    for name, least in (
        ("confluent-kafka", AT_LEAST_CONFLUENT),
        ("kafka-python", AT_LEAST_PYTHON),
        ("aiokafka", AT_LEAST_PYTHON),
    ):
        theirs = median(rates[name])
        note = f"{ours:,.0f} ({spread(rates['moldau'])}) against {theirs:,.0f} ({spread(rates[name])}) records/s"
        yield Row(f"Producer: send, record by record, beside {name}", ours / theirs, "x", least, True, note)
