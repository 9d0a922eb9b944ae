"""Isolation level read_committed: only records of committed transactions are returned."""

from __future__ import annotations

from collections.abc import Callable

from moldau import Consumer, TopicPartition
from tests.client.consumer.reading import take, values
from tests.compat.transactions import requests
from tests.support.raw import RawConnection

Consumers = Callable[..., Consumer]


def test_records_of_aborted_and_open_transactions_are_not_returned(
    consumer: Consumers, topic: str, raw: RawConnection, unused_name: Callable[[], str]
) -> None:
    here = TopicPartition(topic, 0)
    for number, commit in enumerate((True, False, True)):
        name = unused_name()
        identity = requests.producer(raw, name)
        assert not requests.add(raw, name, identity, topic)
        assert not requests.write(raw, name, identity, topic, b"%d" % number, b"%d again" % number)
        requests.end(raw, name, identity, commit, version=3)
    open_name = unused_name()
    identity = requests.producer(raw, open_name)
    assert not requests.add(raw, open_name, identity, topic)
    assert not requests.write(raw, open_name, identity, topic, b"open")

    committed = consumer(topic, isolation_level="read_committed")
    assert values(take(committed, 4)) == [b"0", b"0 again", b"2", b"2 again"]
    assert committed.poll(timeout=0.2) == []
    assert committed.position(here) == 9 == committed.end_offsets(here)[here]
    everything = consumer(topic)
    assert len(take(everything, 7)) == 7
    requests.end(raw, open_name, identity, True, version=3)
    assert values(take(committed, 1)) == [b"open"]
