"""Chapter 3: records without a key. Round robin against the default, which fills one batch after the other."""

from __future__ import annotations

from collections import Counter

from course import broker_address, new_topic

from moldau import Producer

PARTITIONS = 4
RECORDS = 400


def send(bootstrap: str, topic: str, **settings: str) -> tuple[Counter[int], float]:
    """Send records without a key. Returns the records per partition, and the average batch."""
    with Producer(bootstrap_servers=bootstrap, linger_ms=200, **settings) as producer:
        futures = [producer.send(topic, b"no key %d" % number) for number in range(RECORDS)]
        producer.flush()
        return Counter(one.result().partition for one in futures), producer.metrics()["records-per-batch-avg"]


def main() -> None:
    with broker_address(__doc__) as bootstrap:
        topic = new_topic(bootstrap, "round-robin", partitions=PARTITIONS)
        robin, robin_batch = send(bootstrap, topic, partitioner_class="round-robin")
        sticky, sticky_batch = send(bootstrap, topic)
        print(f"round robin: {sorted(robin.items())}, {robin_batch:.0f} records per batch")
        print(f"default:     {sorted(sticky.items())}, {sticky_batch:.0f} records per batch")
        assert set(robin.values()) == {RECORDS // PARTITIONS}
        assert len(sticky) < PARTITIONS
        assert sticky_batch > robin_batch


if __name__ == "__main__":
    main()
