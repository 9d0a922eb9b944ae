"""Blocking consumer and threads: one caller at a time, wakeup from any thread, listeners in the caller's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from moldau import Consumer, OffsetAndMetadata, TopicPartition
from moldau.client.errors import ClosedError, ConcurrentUseError, WakeupError
from tests.client.consumer.conftest import PATIENCE_S
from tests.client.consumer.reading import poll, poll_until, take, values
from tests.support.waiting import wait_until

Consumers = Callable[..., Consumer]
Write = Callable[..., int]


def in_use(consumer: Consumer) -> bool:
    return consumer._use._owner is not None


def test_a_second_thread_gets_an_error_and_the_first_is_not_disturbed(
    consumer: Consumers, write: Write, topic: str
) -> None:
    one = consumer(topic)
    found: list[bytes | None] = []
    reader = threading.Thread(target=lambda: found.extend(values(take(one, 1))))
    reader.start()
    wait_until(lambda: in_use(one))
    for call in (one.poll, one.assignment, one.seek_to_end, lambda: next(iter(one)), one.close):
        with pytest.raises(ConcurrentUseError, match="in use by another thread"):
            call()
    write(topic, [b"v"])
    reader.join(PATIENCE_S)
    assert found == [b"v"]


def test_threads_may_use_a_consumer_one_after_the_other(consumer: Consumers, write: Write, topic: str) -> None:
    write(topic, [b"%d" % i for i in range(6)])
    one = consumer(topic)
    found: list[bytes | None] = []
    for _ in range(3):
        reader = threading.Thread(target=lambda: found.extend(values(take(one, 2))))
        reader.start()
        reader.join(PATIENCE_S)
    assert found == [b"%d" % i for i in range(6)]


def test_wakeup_ends_the_poll_that_waits(consumer: Consumers, topic: str) -> None:
    one = consumer(topic)
    waker = threading.Thread(target=lambda: (wait_until(lambda: in_use(one)), one.wakeup()))
    waker.start()
    with pytest.raises(WakeupError):
        one.poll(timeout=None)
    waker.join(PATIENCE_S)


def test_wakeup_before_a_poll_ends_only_that_poll(consumer: Consumers, write: Write, topic: str) -> None:
    write(topic, [b"v"])
    one = consumer(topic)
    one.wakeup()
    with pytest.raises(WakeupError):
        poll(one, 1)
    assert values(poll(one, 1)) == [b"v"]


def test_a_closed_consumer_raises_and_ends_its_iteration(consumer: Consumers, write: Write, topic: str) -> None:
    write(topic, [b"%d" % i for i in range(5)])
    one = consumer(topic)
    seen = []
    for record in one:
        seen.append(record.offset)
        if record.offset == 1:
            one.close()
    assert seen == [0, 1]
    one.close()
    one.wakeup()
    with pytest.raises(ClosedError):
        one.poll()
    with pytest.raises(ClosedError):
        one.position((topic, 0))


class Listener:
    """Records each call and its thread, and uses the consumer during the call."""

    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.heard: list[tuple[str, frozenset[TopicPartition]]] = []
        self.threads: set[int] = set()
        self.in_assigned: Callable[[Sequence[TopicPartition]], None] = lambda partitions: None
        self.in_revoked: Callable[[Sequence[TopicPartition]], None] = lambda partitions: None

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append(("assigned", frozenset(partitions)))
        self.threads.add(threading.get_ident())
        self.in_assigned(partitions)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append(("revoked", frozenset(partitions)))
        self.threads.add(threading.get_ident())
        self.in_revoked(partitions)


def test_a_listener_runs_in_the_callers_thread_and_may_use_the_consumer(
    consumer: Consumers, write: Write, topic: str, group: str
) -> None:
    write(topic, [b"%d" % i for i in range(10)])
    here = TopicPartition(topic, 0)
    listener = Listener()
    one = consumer(group_id=group, group_protocol="consumer", enable_auto_commit=False)

    def on_assigned(partitions: Sequence[TopicPartition]) -> None:
        assert list(partitions) == [here]
        assert one.position(here) == 0
        one.seek(here, 4)
        assert one.committed(here) == {here: None}
        one.commit({here: 4})

    def on_revoked(partitions: Sequence[TopicPartition]) -> None:
        one.commit()

    listener.in_assigned, listener.in_revoked = on_assigned, on_revoked
    one.subscribe([topic], listener=listener)
    assert values(take(one, 2)) == [b"4", b"5"]
    assert one.committed(here) == {here: OffsetAndMetadata(4)}
    one.close()
    assert listener.heard == [("assigned", {here}), ("revoked", {here})]
    assert listener.threads == {threading.get_ident()}
    looking = consumer(group_id=group, group_protocol="consumer")
    committed = looking.committed(here)[here]
    assert committed is not None and committed.offset == 6, "the listener's commit at the end was lost"


def test_an_error_of_a_listener_is_raised_and_the_consumer_continues(
    consumer: Consumers, write: Write, topic: str, group: str
) -> None:
    write(topic, [b"v"])
    listener = Listener()

    def on_assigned(partitions: Sequence[TopicPartition]) -> None:
        raise LookupError("no database")

    listener.in_assigned = on_assigned
    one = consumer(topic, group_id=group, group_protocol="consumer", listener=listener)
    with pytest.raises(LookupError, match="no database"):
        poll(one, 1)
    assert values(poll(one, 1)) == [b"v"]


def test_commit_callbacks_run_inside_later_calls_in_the_callers_thread(
    consumer: Consumers, write: Write, topic: str, group: str
) -> None:
    write(topic, [b"%d" % i for i in range(3)])
    here = TopicPartition(topic, 0)
    one = consumer(topic, group_id=group, group_protocol="consumer", enable_auto_commit=False)
    record = take(one, 2)[-1]
    told: list[tuple[object, object, int]] = []
    one.commit_async(record, lambda offsets, error: told.append((dict(offsets), error, threading.get_ident())))
    one.pause(here)
    poll_until(one, lambda: bool(told))
    ((offsets, error, thread),) = told
    assert error is None and thread == threading.get_ident()
    assert offsets == {here: OffsetAndMetadata(2, "", record.leader_epoch)}


@pytest.mark.parametrize("how", ["iterate", "poll"])
def test_a_record_on_which_the_application_failed_is_not_committed(
    bootstrap: str, write: Write, topic: str, group: str, how: str
) -> None:
    write(topic, [b"%d" % i for i in range(10)])
    settings = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest", "max_poll_records": 4}
    settings |= {"group_id": group, "group_protocol": "consumer"}

    def work(consumer: Consumer) -> None:
        records = iter(consumer) if how == "iterate" else (one for _ in range(3) for one in poll(consumer, 1))
        for record in records:
            if record.offset == 5:
                raise LookupError("no database")

    with pytest.raises(LookupError), Consumer(topic, **settings) as failing:
        work(failing)
    with Consumer(topic, **settings) as other:
        assert take(other, 1)[0].offset == (5 if how == "iterate" else 4)


def test_iterating_commits_no_record_that_was_not_yielded(
    consumer: Consumers, write: Write, topic: str, group: str
) -> None:
    write(topic, [b"%d" % i for i in range(100)])
    here = TopicPartition(topic, 0)
    one = consumer(topic, group_id=group, group_protocol="consumer")
    for record in one:
        if record.offset == 30:
            one.commit()
            committed = one.committed(here)[here]
            assert committed is not None and committed.offset == 31
        if record.offset == 41:
            break
    one.close()  # close commits automatically
    other = consumer(topic, group_id=group, group_protocol="consumer")
    assert take(other, 1)[0].offset == 42
