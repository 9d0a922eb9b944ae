"""At-most-once delivery: no payment gets two receipts; after a crash some may get none.

The program commits the offsets first and then writes the receipts. If the process dies between these steps, these
receipts are lost: the next process starts after the committed offsets. Use this for work that may be lost but must not
be repeated: a sample, a measurement that the next one replaces, a text message.
"""

from __future__ import annotations

from receipts import Task, receipt_for, say, task_of

from moldau import Producer


def run(task: Task) -> None:
    # The producer retries. It does not write duplicates, because it is idempotent by default.
    with Producer(bootstrap_servers=task.bootstrap_servers) as producer, task.consumer() as consumer:
        for payments in task.batches(consumer):
            consumer.commit()
            for payment in payments:
                producer.send(task.receipts, key=payment.key, value=receipt_for(payment))
            producer.flush()
            say(len(payments))


if __name__ == "__main__":
    run(task_of("at-most-once"))
