"""Chapter 1: a partition is a log. Reading removes nothing, and a consumer may start at any offset or time."""

from __future__ import annotations

import time

from course import broker_address, new_topic, read_all

from moldau import Consumer, Producer, TopicPartition

STEP_MS = 1000


def main() -> None:
    with broker_address(__doc__) as bootstrap:
        topic = new_topic(bootstrap, "log")
        first_ms = int(time.time() * 1000) - 60_000
        with Producer(bootstrap_servers=bootstrap) as producer:
            futures = [
                producer.send(topic, b"event %d" % number, timestamp=first_ms + number * STEP_MS)
                for number in range(10)
            ]
            offsets = [future.result().offset for future in futures]
        print(f"offsets of ten records: {offsets}")
        assert offsets == list(range(10))

        first_reader = [record.value for record in read_all(bootstrap, topic)]
        second_reader = [record.value for record in read_all(bootstrap, topic)]
        print(f"the first reader gets {len(first_reader)} records, the second one as well: {len(second_reader)}")
        assert first_reader == second_reader == [b"event %d" % number for number in range(10)]

        partition = TopicPartition(topic, 0)
        with Consumer(bootstrap_servers=bootstrap) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 7)
            from_seven = consumer.poll(timeout=10.0)[0]
            print(f"after seek(7) the next record is {from_seven.value!r}")
            assert from_seven.offset == 7

            found = consumer.offsets_for_times({partition: first_ms + 4 * STEP_MS - 1})[partition]
            assert found is not None
            print(f"the first record that is not older than 3.999 s after the first one has offset {found.offset}")
            assert found.offset == 4


if __name__ == "__main__":
    main()
