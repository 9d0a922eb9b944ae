"""At most once: no payment gets two receipts; after a crash some may get none.

First commit, then work. What was committed and not yet written when the process died is gone: the next one begins
behind it. For what is cheap to lose and bad to repeat: a sample, a reading that the next one replaces, a text message.
"""

from __future__ import annotations

from receipts import Task, receipt_for, say, task_of

from moldau import Producer


def run(task: Task) -> None:
    # A producer that tries again could write twice if it were not idempotent, which it is unless told otherwise.
    with Producer(bootstrap_servers=task.bootstrap_servers) as producer, task.consumer() as consumer:
        for payments in task.batches(consumer):
            consumer.commit()
            for payment in payments:
                producer.send(task.receipts, key=payment.key, value=receipt_for(payment))
            producer.flush()
            say(len(payments))


if __name__ == "__main__":
    run(task_of("at-most-once"))
