"""At-least-once delivery: every payment gets a receipt; after a crash some may get two.

The program writes the receipts, waits until they are acknowledged, and then commits the offsets. If the process dies
between these steps, the next process handles the same payments again. This is the right choice for most applications,
especially if doing the work twice does no harm.
"""

from __future__ import annotations

from receipts import Task, receipt_for, say, task_of

from moldau import Producer


def run(task: Task) -> None:
    with Producer(bootstrap_servers=task.bootstrap_servers) as producer, task.consumer() as consumer:
        for payments in task.batches(consumer):
            sent = [producer.send(task.receipts, key=one.key, value=receipt_for(one)) for one in payments]
            for future in sent:
                future.result()  # raises if the write failed: the process ends without a commit
            consumer.commit()
            say(len(payments))


if __name__ == "__main__":
    run(task_of("at-least-once"))
