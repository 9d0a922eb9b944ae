"""Chapter 3: a partitioner of one's own. One large customer gets a partition, everybody else shares the others."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from typing import Any

from course import broker_address, new_topic

from moldau import Producer

LARGE = b"large-customer"


class LargeCustomerFirst:
    """Partition 0 is for the large customer alone."""

    def partition(
        self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, choice: Any
    ) -> int:
        if key_bytes == LARGE:
            return 0
        # hash() of Python differs between processes: a partitioner needs a hash that is always the same.
        return 1 + zlib.crc32(key_bytes or b"") % (choice.count - 1)


def main() -> None:
    keys = [LARGE] * 50 + [b"customer-%d" % number for number in range(50)]
    with broker_address(__doc__) as bootstrap:
        topic = new_topic(bootstrap, "own", partitions=4)
        partitions: dict[bytes, Counter[int]] = defaultdict(Counter)
        with Producer(bootstrap_servers=bootstrap, partitioner_class=LargeCustomerFirst) as producer:
            sent = [(key, producer.send(topic, b"an order", key=key)) for key in keys]
            for key, future in sent:
                partitions[key][future.result().partition] += 1
    others = sum((count for key, count in partitions.items() if key != LARGE), Counter())
    print(f"the large customer: {dict(partitions[LARGE])}; the others: {dict(sorted(others.items()))}")
    assert partitions[LARGE] == {0: 50}
    assert 0 not in others and others.total() == 50


if __name__ == "__main__":
    main()
