"""Chapter 1: compaction keeps the last record of each key. A record without a value (a tombstone) deletes its key.

This exercise moves the broker's clock, so it always starts a broker of its own.
"""

from __future__ import annotations

from course import read_all

from moldau import Producer
from moldau.testing import Broker

CONFIGS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01, "segment.ms": 60_000}
CHANGES = [(b"ada", b"Prague"), (b"bob", b"Brno"), (b"ada", b"Plzen"), (b"eve", b"Olomouc"), (b"bob", None)]


def main() -> None:
    with Broker({"log.cleaner.backoff.ms": 600_000}) as broker:  # look for work every ten minutes
        bootstrap = broker.bootstrap_servers
        broker.create_topic("addresses", configs=CONFIGS)
        with Producer(bootstrap_servers=bootstrap) as producer:
            for key, value in CHANGES:
                producer.send("addresses", value, key=key)
            producer.flush()
            # The active segment is never compacted. A record that comes after segment.ms starts the next one.
            broker.advance(minutes=2)
            producer.send("addresses", b"Zlin", key=b"kim", timestamp=broker.now_ms).result()
        before = read_all(bootstrap, "addresses")
        broker.advance(hours=1)
        after = read_all(bootstrap, "addresses")
        for title, records in (("before", before), ("after", after)):
            print(f"{title}:", *(f"{one.offset}: {one.key.decode()}={one.value}" for one in records), sep="\n  ")
        assert [one.offset for one in before] == [0, 1, 2, 3, 4, 5]
        # The tombstone itself stays for delete.retention.ms, so that slow readers learn of the deletion.
        assert [one.offset for one in after] == [2, 3, 4, 5]
        assert {one.key: one.value for one in before} == {one.key: one.value for one in after}
        print("a reader that builds a table from the topic gets the same table from both")


if __name__ == "__main__":
    main()
