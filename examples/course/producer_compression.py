"""Chapter 2: compression. A batch is compressed as a whole, so the size depends on the data and on the batch."""

from __future__ import annotations

import json
import random

from course import broker_address, new_topic

from moldau import Admin, Producer, TopicPartition

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 2_000


def stored_bytes(bootstrap: str, values: list[bytes], **settings: object) -> int:
    """Send the values to a new topic. Returns the size of the topic on disk."""
    topic = new_topic(bootstrap, "compression")
    with Producer(bootstrap_servers=bootstrap, linger_ms=1_000, **settings) as producer:
        for value in values:
            producer.send(topic, value)
        producer.flush()
    partition = TopicPartition(topic, 0)
    with Admin(bootstrap_servers=bootstrap) as admin:
        directories = admin.describe_log_dirs(partitions=partition)
    return max(one.replicas[partition].size for some in directories.values() for one in some if one.replicas)


def main() -> None:
    chance = random.Random(1)
    rows = [{"user": f"user-{chance.randrange(500)}", "page": "/orders", "took_ms": n % 300} for n in range(RECORDS)]
    text = [json.dumps(row).encode() for row in rows]
    noise = [chance.randbytes(60) for _ in range(RECORDS)]
    with broker_address(__doc__) as bootstrap:
        print("codec      JSON   random bytes")
        sizes = {}
        for codec in CODECS:
            sizes[codec] = [stored_bytes(bootstrap, data, compression_type=codec) for data in (text, noise)]
            print(f"{codec:7} {sizes[codec][0]:7} {sizes[codec][1]:8}")
        assert all(sizes[codec][0] < sizes["none"][0] / 2 for codec in CODECS[1:])
        assert all(sizes[codec][1] > sizes["none"][1] * 0.8 for codec in CODECS[1:])

        small = stored_bytes(bootstrap, text, compression_type="zstd", batch_size=512)
        print(f"zstd with batches of 512 bytes: {small} bytes of JSON")
        assert small > 2 * sizes["zstd"][0]


if __name__ == "__main__":
    main()
