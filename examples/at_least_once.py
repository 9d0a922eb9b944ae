"""At least once: every payment gets a receipt; after a crash some may get two.

First work, then commit, and only when the work is safe. What was written and not yet committed when the process died is
done again by the next one. Right for most things, above all where doing something twice does no harm.
"""

from __future__ import annotations

from receipts import Task, receipt_for, say, task_of

from moldau import Producer


def run(task: Task) -> None:
    with Producer(bootstrap_servers=task.bootstrap_servers) as producer, task.consumer() as consumer:
        for payments in task.batches(consumer):
            sent = [producer.send(task.receipts, key=one.key, value=receipt_for(one)) for one in payments]
            for future in sent:
                future.result()  # raises if it was not written: then nothing is committed, and the process ends
            consumer.commit()
            say(len(payments))


if __name__ == "__main__":
    run(task_of("at-least-once"))
