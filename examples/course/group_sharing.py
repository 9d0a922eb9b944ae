"""Chapter 4: groups. Members of one group share the partitions; each group gets every record."""

from __future__ import annotations

from contextlib import ExitStack

from course import broker_address, new_topic

from moldau import Consumer, Producer

PARTITIONS = 6
RECORDS = 60


class Members:
    """Consumers of one group, polled in turn. In production each would be a process."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.group = group
        self.consumers: dict[str, Consumer] = {}
        self.values: list[bytes] = []

    def join(self, name: str, stack: ExitStack) -> None:
        consumer = Consumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,  # a member learns of a rebalance from the response to its next heartbeat
        )
        self.consumers[name] = stack.enter_context(consumer)

    def leave(self, name: str) -> None:
        self.consumers.pop(name).close()

    def shares(self) -> dict[str, list[int]]:
        return {name: sorted(one.partition for one in each.assignment()) for name, each in self.consumers.items()}

    def poll(self) -> None:
        for consumer in self.consumers.values():
            self.values += [record.value for record in consumer.poll(timeout=0.05)]

    def settle(self) -> None:
        """Poll until each member has its part: rebalances happen inside poll."""
        even = PARTITIONS // len(self.consumers)
        while any(len(share) != even for share in self.shares().values()):
            self.poll()
        print(f"{self.group}: {self.shares()}")
        held = [partition for share in self.shares().values() for partition in share]
        assert sorted(held) == list(range(PARTITIONS))


def main() -> None:
    with broker_address(__doc__) as bootstrap, ExitStack() as stack:
        topic = new_topic(bootstrap, "groups", partitions=PARTITIONS)
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(RECORDS):
                producer.send(topic, b"%d" % number, partition=number % PARTITIONS)

        billing = Members(bootstrap, topic, f"{topic}-billing")
        for name in ("anna", "boris", "clara"):
            billing.join(name, stack)
            billing.settle()
        billing.leave("boris")
        billing.settle()
        while len(set(billing.values)) < RECORDS:
            billing.poll()
        print(f"{billing.group} has read {len(set(billing.values))} records")

        shipping = Members(bootstrap, topic, f"{topic}-shipping")
        shipping.join("dora", stack)
        shipping.settle()
        while len(set(shipping.values)) < RECORDS:
            shipping.poll()
        print(f"{shipping.group} has read the same {len(set(shipping.values))} records")
        assert set(billing.values) == set(shipping.values)


if __name__ == "__main__":
    main()
