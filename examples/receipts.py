"""Shared code of the three examples of delivery guarantees: the task, the command line, and the end of input.

The task is to read payments from one topic and write a receipt for each to another topic. `at_most_once.py`,
`at_least_once.py` and `exactly_once.py` do this with three different guarantees after a crash. Run each of them with

    moldau topics create payments receipts --bootstrap-server localhost:9092
    python examples/exactly_once.py localhost:9092

Each program can be killed at any time and started again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from moldau import Consumer
from moldau.client.consumer.decode import Record


@dataclass(frozen=True)
class Task:
    """The brokers, the topics to read and to write, and the name of this process."""

    bootstrap_servers: str
    payments: str
    receipts: str
    name: str
    batch: int
    stop_at_the_end: bool

    def consumer(self) -> Consumer:
        """A consumer of payments, as a member of the group `name`. The three examples differ in when they commit.

        The member is static: a process that is restarted within the session timeout gets its partitions back
        immediately. Otherwise the group would wait for the session timeout of the killed process.
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
        """Yield payments as they arrive, forever, or with `stop_at_the_end` until all are read."""
        while True:
            if records := consumer.poll(timeout=0.2):
                yield records
            elif self.stop_at_the_end and consumer.assignment() and not any(consumer.lag().values()):
                return


def receipt_for(payment: Record) -> bytes:
    """The receipt: this stands for the real work of an application."""
    return b"receipt for " + (payment.value or b"nothing")


def task_of(example: str) -> Task:
    """Create the task from the command line."""
    parser = argparse.ArgumentParser(description=f"Write receipts for payments, {example.replace('-', ' ')}.")
    parser.add_argument("bootstrap_servers", help="addresses of the brokers, for example localhost:9092")
    parser.add_argument("--payments", default="payments", help="the topic to read")
    parser.add_argument("--receipts", default="receipts", help="the topic to write")
    parser.add_argument(
        "--name", default=f"receipts-{example}", help="the group id, and the instance id of this member"
    )
    parser.add_argument("--batch", type=int, default=100, help="the maximum number of payments per batch")
    parser.add_argument("--stop-at-the-end", action="store_true", help="stop when all payments have been read")
    given = parser.parse_args()
    return Task(given.bootstrap_servers, given.payments, given.receipts, given.name, given.batch, given.stop_at_the_end)


def say(count: int) -> None:
    """Print one line per batch, unbuffered: a test or a user may kill the process at this point."""
    print(f"{count} receipts", flush=True)
