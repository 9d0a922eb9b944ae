"""Chapter 3: keys. Records with the same key go to the same partition, in order, until partitions are added."""

from __future__ import annotations

from collections import defaultdict

from course import broker_address, new_topic, read_all

from moldau import Admin, Producer

CUSTOMERS = [f"customer-{number}" for number in range(20)]


def send_orders(bootstrap: str, topic: str, rounds: int) -> dict[str, set[int]]:
    """Send orders of each customer. Returns the partitions that each customer's orders went to."""
    places: dict[str, set[int]] = defaultdict(set)
    with Producer(bootstrap_servers=bootstrap, key_serializer="str", value_serializer="str") as producer:
        sent = [(name, producer.send(topic, str(n), key=name)) for n in range(rounds) for name in CUSTOMERS]
        for name, future in sent:
            places[name].add(future.result().partition)
    return places


def main() -> None:
    with broker_address(__doc__) as bootstrap:
        topic = new_topic(bootstrap, "keys", partitions=3)
        before = send_orders(bootstrap, topic, rounds=5)
        print(f"customer-0 is in partition {before['customer-0']}, customer-1 in {before['customer-1']}")
        assert all(len(places) == 1 for places in before.values())

        orders: dict[bytes, list[int]] = defaultdict(list)
        for record in read_all(bootstrap, topic):
            orders[record.key].append(int(record.value))
        assert all(numbers == [0, 1, 2, 3, 4] for numbers in orders.values())
        print("the orders of each customer are read in the order in which they were sent")

        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_partitions({topic: 5})
        after = send_orders(bootstrap, topic, rounds=1)
        moved = [name for name in CUSTOMERS if after[name] != before[name]]
        print(f"with 5 partitions instead of 3, {len(moved)} of {len(CUSTOMERS)} customers have moved")
        assert moved


if __name__ == "__main__":
    main()
