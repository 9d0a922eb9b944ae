"""Chapter 2: batching. The same records in one request each, and in batches."""

from __future__ import annotations

import time

from course import broker_address, new_topic

from moldau import Producer

RECORDS = 1_000


def send(bootstrap: str, topic: str, wait_for_each: bool, **settings: int) -> tuple[float, int]:
    """Send the records. Returns the time that it took, and the number of requests."""
    with Producer(bootstrap_servers=bootstrap, **settings) as producer:
        producer.send(topic, b"first").result()  # connect, and learn where the topic is
        began, requests = time.perf_counter(), producer.metrics()["request-total"]
        for number in range(RECORDS):
            future = producer.send(topic, b"measurement %d" % number)
            if wait_for_each:
                future.result()
        producer.flush()
        return time.perf_counter() - began, int(producer.metrics()["request-total"] - requests)


def main() -> None:
    with broker_address(__doc__) as bootstrap:
        topic = new_topic(bootstrap, "batching")
        alone_s, alone = send(bootstrap, topic, wait_for_each=True, linger_ms=0)
        batched_s, batched = send(bootstrap, topic, wait_for_each=False)
        print(f"waiting for each record: {alone:5} requests, {alone_s * 1000:7.1f} ms")
        print(f"in batches:              {batched:5} requests, {batched_s * 1000:7.1f} ms")
        assert alone == RECORDS
        assert batched < RECORDS / 10


if __name__ == "__main__":
    main()
