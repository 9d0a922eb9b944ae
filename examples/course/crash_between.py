"""Chapter 6: a crash between the work and the commit. The order of the two decides what is lost or done twice."""

from __future__ import annotations

from collections import Counter

from course import broker_address, new_topic

from moldau import Consumer, Producer

RECORDS = 20
BATCH = 5


class Crash(Exception):
    """Stands for the end of the process."""


def process(bootstrap: str, topic: str, group: str, done: Counter[bytes], commit_first: bool, crash_in: int) -> None:
    """Work through the topic in batches of five. In batch `crash_in`, crash between the work and the commit."""
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "max_poll_records": BATCH}
    with Consumer(topic, bootstrap_servers=bootstrap, group_id=group, **settings) as consumer:
        batch = 0
        while not (consumer.assignment() and not any(consumer.lag().values())):
            records = consumer.poll(timeout=0.5)
            if not records:
                continue
            batch += 1
            steps = [consumer.commit, lambda taken=records: done.update(one.value for one in taken)]
            if not commit_first:
                steps.reverse()
            steps[0]()
            if batch == crash_in:
                raise Crash
            steps[1]()


def crash_and_restart(bootstrap: str, topic: str, commit_first: bool) -> tuple[list[bytes], list[bytes]]:
    """What was lost and what was done twice."""
    group, done = f"{topic}-{commit_first}", Counter[bytes]()
    try:
        process(bootstrap, topic, group, done, commit_first, crash_in=2)
    except Crash:
        pass
    process(bootstrap, topic, group, done, commit_first, crash_in=0)
    lost = [b"%d" % number for number in range(RECORDS) if b"%d" % number not in done]
    return lost, [value for value, times in done.items() if times > 1]


def main() -> None:
    with broker_address(__doc__) as bootstrap:
        topic = new_topic(bootstrap, "crash")
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(RECORDS):
                producer.send(topic, b"%d" % number)
        lost, twice = crash_and_restart(bootstrap, topic, commit_first=True)
        print(f"commit, then work: lost {lost}, done twice {twice}")
        assert lost and not twice
        lost, twice = crash_and_restart(bootstrap, topic, commit_first=False)
        print(f"work, then commit: lost {lost}, done twice {twice}")
        assert twice and not lost


if __name__ == "__main__":
    main()
