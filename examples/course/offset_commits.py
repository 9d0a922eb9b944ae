"""Chapter 5: committed offsets. They belong to the group, and can be set while no member is there."""

from __future__ import annotations

from course import broker_address, new_topic

from moldau import Admin, Consumer, Producer, TopicPartition


def read(bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
    """Read so many records as the group's only member, and commit them."""
    found: list[bytes] = []
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    with Consumer(topic, bootstrap_servers=bootstrap, group_id=group, **settings) as consumer:
        while len(found) < count:
            found += [one.value for one in consumer.poll(timeout=0.5, max_records=count - len(found))]
        consumer.commit()
    return found


def main() -> None:
    with broker_address(__doc__) as bootstrap:
        topic = new_topic(bootstrap, "commits")
        group, partition = f"{topic}-readers", TopicPartition(topic, 0)
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(10):
                producer.send(topic, b"%d" % number)

        print(f"the first process reads   {read(bootstrap, topic, group, 4)}")
        with Admin(bootstrap_servers=bootstrap) as admin:
            committed = admin.list_group_offsets(group)[partition]
            print(f"the group has committed offset {committed.offset}: the next record to read, not the last one read")
            assert committed.offset == 4

            rest = read(bootstrap, topic, group, 6)
            print(f"the next process goes on: {rest}")
            assert rest == [b"%d" % number for number in range(4, 10)]

            admin.alter_group_offsets(group, {partition: 8})
        again = read(bootstrap, topic, group, 2)
        print(f"after setting the offset back to 8: {again}")
        assert again == [b"8", b"9"]


if __name__ == "__main__":
    main()
