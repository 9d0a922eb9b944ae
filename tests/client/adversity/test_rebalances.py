"""Groups whose members join and leave during faults: they read every record and never stall."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from moldau import Admin, Consumer, Producer
from moldau.client.admin.topics import NewTopic
from tests.client.adversity.faults import random_faults
from tests.support.adversity import AdversityProxy
from tests.support.process import BrokerProcess

PARTITIONS = 4
BURST = 40
PATIENCE_S = 90.0

PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"session_timeout_ms": 2_000, "heartbeat_interval_ms": 200},
    "cooperative": {
        "session_timeout_ms": 2_000,
        "heartbeat_interval_ms": 200,
        "partition_assignment_strategy": "cooperative-sticky",
    },
    "consumer": {"group_protocol": "consumer"},
}


class Readings:
    """The records that all members of a group have read."""

    def __init__(self) -> None:
        self._values: set[bytes] = set()
        self._changed = threading.Condition()

    def add(self, values: list[bytes]) -> None:
        with self._changed:
            self._values.update(values)
            self._changed.notify_all()

    def wait_for(self, expected: set[bytes]) -> None:
        with self._changed:
            came = self._changed.wait_for(lambda: expected <= self._values, PATIENCE_S)
            assert came, f"stalled: {len(expected - self._values)} of {len(expected)} records did not come"


class Member:
    """A consumer that polls in its own thread until it is told to leave."""

    def __init__(self, readings: Readings, topic: str, settings: dict[str, Any]) -> None:
        self._readings = readings
        self._settings = settings
        self._topic = topic
        self._leave = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with Consumer(self._topic, group_id=self._topic, **self._settings) as consumer:
                while not self._leave.is_set():
                    self._readings.add([record.value for record in consumer.poll(0.1)])
        except BaseException as error:
            self._error = error
            raise

    def leave(self) -> None:
        self._leave.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "a member does not end"
        assert self._error is None, self._error


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_that_join_and_leave_during_faults_read_everything_together(
    protocol: str,
    mortal_broker: BrokerProcess,
    proxy: AdversityProxy,
    unused_name: Callable[[], str],
    count: Callable[[int, int], int],
    seed: int,
) -> None:
    topic = unused_name()
    with Admin(bootstrap_servers=mortal_broker.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS)])
    settings = {
        "bootstrap_servers": proxy.bootstrap,
        "auto_offset_reset": "earliest",
        "request_timeout_ms": 1_000,
        "reconnect_backoff_max_ms": 200,
        "retry_backoff_max_ms": 200,
        "auto_commit_interval_ms": 100,
        **PROTOCOLS[protocol],
    }
    chance = random.Random(seed)
    faults = itertools.islice(random_faults(proxy, mortal_broker, chance), count(3, 200))
    readings = Readings()
    members = [Member(readings, topic, settings) for _ in range(2)]
    with Producer(bootstrap_servers=mortal_broker.bootstrap, reconnect_backoff_max_ms=200) as producer:
        for number, fault in enumerate(faults):
            members.append(Member(readings, topic, settings))
            fault()
            members.pop(chance.randrange(len(members))).leave()
            values = [b"%d.%d" % (number, i) for i in range(BURST)]
            sent = [producer.send(topic, value, partition=i % PARTITIONS) for i, value in enumerate(values)]
            for future in sent:
                future.result(PATIENCE_S)
            readings.wait_for(set(values))
        for member in members:
            member.leave()
