"""Exactly-once pipeline as a process: each batch of records and its offsets are in one transaction.

    python -m tests.client.transactions.pipeline BOOTSTRAP INPUT OUTPUT NAME RECORDS

NAME is the group, the member's name in it and the transactional id: a new process with the same NAME replaces the
earlier one. The process prints each step that it has taken, one word per line, so that a test can kill it there. It
ends when RECORDS input records are committed.
"""

from __future__ import annotations

import sys

from moldau import Consumer, OffsetAndMetadata, Producer, TopicPartition
from moldau.client.errors import ProducerFenced

RECORDS_A_POLL = 25
FENCED = 3
"""The exit code of a process that was fenced."""

STAGES = ["initialised", "polled", "sent", "flushed", "offsets", "committed"]


def say(word: str) -> None:
    print(word, flush=True)


def main(bootstrap: str, source: str, target: str, name: str, records: int) -> None:
    settings = {"bootstrap.servers": bootstrap, "retry.backoff.ms": 20}
    with (
        Producer(settings | {"transactional.id": name, "linger.ms": 0}) as producer,
        Consumer(
            settings
            | {
                "group.id": name,
                "group.instance.id": name,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "max.poll.records": RECORDS_A_POLL,
            }
        ) as consumer,
    ):
        producer.init_transactions()  # aborts an open transaction of a predecessor before its offsets are fetched
        say("initialised")
        consumer.subscribe([source])
        done = 0
        while done < records:
            polled = consumer.poll(0.5)
            say("polled")
            if polled:
                with producer.transaction():
                    for record in polled:
                        producer.send(target, record.value.upper(), key=record.key, partition=record.partition)
                    say("sent")
                    producer.flush()
                    say("flushed")
                    places = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in polled}
                    producer.send_offsets(
                        {place: OffsetAndMetadata(offset) for place, offset in places.items()},
                        consumer.group_metadata(),
                    )
                    say("offsets")
                say("committed")
            assigned = consumer.assignment()
            done = sum(consumer.position(place) for place in assigned)
    say("done")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:5], int(sys.argv[5]))
    except ProducerFenced:
        sys.exit(FENCED)
