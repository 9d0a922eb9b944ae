"""Chapter 7: read, process, write. The offsets that were read are part of the transaction."""

from __future__ import annotations

from course import broker_address, new_topic, read_all

from moldau import Consumer, Producer, TopicPartition

RECORDS = 10


def main() -> None:
    with broker_address(__doc__) as bootstrap:
        source, target = new_topic(bootstrap, "source"), new_topic(bootstrap, "target")
        partition = TopicPartition(source, 0)
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(RECORDS):
                producer.send(source, b"%d" % number)

        settings = {"group_id": f"{source}-squares", "auto_offset_reset": "earliest", "enable_auto_commit": False}
        with (
            Consumer(source, bootstrap_servers=bootstrap, max_poll_records=RECORDS // 2, **settings) as consumer,
            Producer(bootstrap_servers=bootstrap, transactional_id=f"{source}-squares") as producer,
        ):
            attempts = 0
            while (committed := consumer.committed(partition)[partition]) is None or committed.offset < RECORDS:
                records = consumer.poll(timeout=0.5)
                if not records:
                    continue
                attempts += 1
                try:
                    with producer.transaction():
                        for record in records:
                            producer.send(target, b"%d" % int(record.value) ** 2)
                        producer.send_offsets({partition: records[-1].offset + 1}, consumer.group_metadata())
                        if attempts == 1:
                            raise RuntimeError("a failure after everything was sent")
                except RuntimeError as error:
                    print(f"aborted: {error}; committed offset: {consumer.committed(partition)[partition]}")
                    assert consumer.committed(partition)[partition] is None
                    consumer.seek(partition, records[0].offset)  # the next process would start there, too
        squares = [int(one.value) for one in read_all(bootstrap, target, isolation_level="read_committed")]
        print(f"{attempts} transactions, committed offset {committed.offset}, squares {squares}")
        assert squares == [number**2 for number in range(RECORDS)]


if __name__ == "__main__":
    main()
