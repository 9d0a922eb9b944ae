"""Exactly once: every payment gets one receipt, whatever crashes, for those who read with `read_committed`.

The receipts and the offsets of their payments are one transaction: both are there or neither. The next process with the
same transactional.id aborts what the last one left open, and fences it should it still be alive. Only what happens in
topics is covered: a letter that was sent cannot be aborted.
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
            # Whatever goes wrong in here ends the process, with the transaction aborted. The next one reads the same
            # payments again: their offsets were not committed either.
            with producer.transaction():
                for payment in payments:
                    producer.send(task.receipts, key=payment.key, value=receipt_for(payment))
                read = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in payments}
                # With the group's metadata a member that has lost its partitions cannot commit any more.
                producer.send_offsets(read, consumer.group_metadata())
            say(len(payments))


if __name__ == "__main__":
    run(task_of("exactly-once"))
