"""Chapter 1: retention deletes old records, read or not. Offsets are never used again.

This exercise moves the broker's clock, so it always starts a broker of its own.
"""

from __future__ import annotations

from course import read_all

from moldau import Consumer, Producer, TopicPartition
from moldau.testing import Broker

PARTITION = TopicPartition("events", 0)


def first_and_end_offset(bootstrap: str) -> tuple[int, int]:
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        return consumer.beginning_offsets(PARTITION)[PARTITION], consumer.end_offsets(PARTITION)[PARTITION]


def main() -> None:
    with Broker() as broker:
        bootstrap = broker.bootstrap_servers
        broker.create_topic("events", configs={"retention.ms": 3_600_000})
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(5):
                producer.send("events", b"old %d" % number)
            producer.flush()
            print(f"five records, kept for an hour: first and end offset {first_and_end_offset(bootstrap)}")
            assert first_and_end_offset(bootstrap) == (0, 5)

            broker.advance(hours=2)
            print(f"two hours later: {first_and_end_offset(bootstrap)}")
            assert first_and_end_offset(bootstrap) == (5, 5)

            offset = producer.send("events", b"new", timestamp=broker.now_ms).result().offset
        print(f"the next record has offset {offset}")
        assert offset == 5
        assert [record.value for record in read_all(bootstrap, "events")] == [b"new"]


if __name__ == "__main__":
    main()
