"""Exactly-once delivery: every payment gets one receipt, as seen by `read_committed` consumers, after any crash.

The receipts and the offsets of their payments are written in one transaction: either both are committed or neither is.
The next process with the same transactional.id aborts the open transaction of the previous process, and fences that
process if it is still alive. Only writes to topics are covered: a letter that was sent cannot be aborted.
"""

from __future__ import annotations

from receipts import Task, receipt_for, say, task_of

from moldau import Producer, TopicPartition


def run(task: Task) -> None:
    with (
        Producer(bootstrap_servers=task.bootstrap_servers, transactional_id=task.name) as producer,
        task.consumer() as consumer,
    ):
        producer.init_transactions()
        for payments in task.batches(consumer):
            # An exception in this block aborts the transaction and ends the process. The next process reads the same
            # payments again, because their offsets were not committed either.
            with producer.transaction():
                for payment in payments:
                    producer.send(task.receipts, key=payment.key, value=receipt_for(payment))
                read = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in payments}
                # The group metadata fences this member if it has lost its partitions: its commit then fails.
                producer.send_offsets(read, consumer.group_metadata())
            say(len(payments))


if __name__ == "__main__":
    run(task_of("exactly-once"))
