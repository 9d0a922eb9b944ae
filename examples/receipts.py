"""What the three examples of delivery semantics share: the task, the command line, and where to stop.

The task: read payments from one topic, and write a receipt for each to another. `at_most_once.py`, `at_least_once.py`
and `exactly_once.py` do it with the three promises that one can make about a crash. Each of them runs as

    moldau topics create payments receipts --bootstrap-server localhost:9092
    python examples/exactly_once.py localhost:9092

and can be killed at any moment, and started again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from moldau import Consumer
from moldau.client.consumer.decode import Record


@dataclass(frozen=True)
class Task:
    """What to read, what to write, and as whom."""

    bootstrap_servers: str
    payments: str
    receipts: str
    name: str
    batch: int
    stop_at_the_end: bool

    def consumer(self) -> Consumer:
        """Reads payments, as a member of the group `name`. When to commit is what the three examples differ in.

        The member is static: a process that is started again within the session takes its partitions back at once,
        where the group would else wait for the session of the one that was killed to end.
        """
        return Consumer(
            self.payments,
            bootstrap_servers=self.bootstrap_servers,
            group_id=self.name,
            group_instance_id=self.name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=self.batch,
        )

    def batches(self, consumer: Consumer) -> Iterator[list[Record]]:
        """Payments as they come, for ever, or until there are no more."""
        while True:
            if records := consumer.poll(timeout=0.2):
                yield records
            elif self.stop_at_the_end and consumer.assignment() and not any(consumer.lag().values()):
                return


def receipt_for(payment: Record) -> bytes:
    """The work itself, so to speak."""
    return b"receipt for " + (payment.value or b"nothing")


def task_of(example: str) -> Task:
    """From the command line."""
    parser = argparse.ArgumentParser(description=f"Write receipts for payments, {example.replace('-', ' ')}.")
    parser.add_argument("bootstrap_servers", help="where the brokers are, such as localhost:9092")
    parser.add_argument("--payments", default="payments", help="the topic to read")
    parser.add_argument("--receipts", default="receipts", help="the topic to write")
    parser.add_argument("--name", default=f"receipts-{example}", help="the group, and this member of it")
    parser.add_argument("--batch", type=int, default=100, help="payments taken at a time")
    parser.add_argument("--stop-at-the-end", action="store_true", help="end when there are no more payments")
    given = parser.parse_args()
    return Task(given.bootstrap_servers, given.payments, given.receipts, given.name, given.batch, given.stop_at_the_end)


def say(count: int) -> None:
    """One line a batch, at once: whoever watches may want to kill us just now."""
    print(f"{count} receipts", flush=True)
