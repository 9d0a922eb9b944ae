"""Fixtures for tests of clients: a broker that tests may kill, and a proxy in front of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.adversity import AdversityProxy
from tests.support.process import BrokerProcess

SETTINGS = {
    # Members that a fault has separated from their group must return soon.
    "group.min.session.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.heartbeat.interval.ms": "200",
    "offsets.topic.num.partitions": "2",
}


@pytest.fixture(scope="session")
def mortal_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A Moldau broker with short group time-outs. Tests may kill it, and must start it again."""
    with BrokerProcess(tmp_path_factory.mktemp("adversity") / "data", SETTINGS) as broker:
        yield broker


@pytest.fixture
def proxy(mortal_broker: BrokerProcess) -> Iterator[AdversityProxy]:
    """A faulty proxy in front of `mortal_broker`."""
    with AdversityProxy(mortal_broker.bootstrap) as proxy:
        yield proxy
