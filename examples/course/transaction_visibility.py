"""Chapter 7: transactions. Records of several topics become visible together, or never."""

from __future__ import annotations

from course import broker_address, new_topic, read_all

from moldau import Producer


def seen(bootstrap: str, topics: list[str], isolation_level: str) -> list[bytes]:
    return [one.value for topic in topics for one in read_all(bootstrap, topic, isolation_level)]


def main() -> None:
    with broker_address(__doc__) as bootstrap:
        topics = [new_topic(bootstrap, "debits"), new_topic(bootstrap, "credits")]
        with Producer(bootstrap_servers=bootstrap, transactional_id=f"{topics[0]}-transfers") as producer:
            producer.init_transactions()

            producer.begin_transaction()
            for topic in topics:
                producer.send(topic, b"100 crowns")
            producer.flush()
            print(f"open:      {len(seen(bootstrap, topics, 'read_committed'))} records for read_committed")
            assert seen(bootstrap, topics, "read_committed") == []
            dirty = seen(bootstrap, topics, "read_uncommitted")
            print(f"           {len(dirty)} records for read_uncommitted")
            assert dirty == [b"100 crowns"] * 2
            producer.commit_transaction()
            committed = seen(bootstrap, topics, "read_committed")
            print(f"committed: {len(committed)} records for read_committed")
            assert committed == [b"100 crowns"] * 2

            producer.begin_transaction()
            producer.send(topics[0], b"half of a transfer")
            producer.abort_transaction()
            after = seen(bootstrap, topics, "read_committed")
            print(f"aborted:   {len(after)} records for read_committed, as before")
            assert after == committed


if __name__ == "__main__":
    main()
