"""Fixtures for tests of clients: a broker that tests may kill, and a proxy in front of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.adversity import AdversityProxy
from tests.support.process import BrokerProcess

SETTINGS = {
    # Members that a trouble has separated from their group are to be back soon.
    "group.min.session.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.heartbeat.interval.ms": "200",
    "offsets.topic.num.partitions": "2",
}


@pytest.fixture(scope="session")
def mortal_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A Moldau broker whose groups are quick; it may be killed and is started again by whoever did it."""
    with BrokerProcess(tmp_path_factory.mktemp("adversity") / "data", SETTINGS) as broker:
        yield broker


@pytest.fixture
def proxy(mortal_broker: BrokerProcess) -> Iterator[AdversityProxy]:
    """The way to it that misbehaves on command."""
    with AdversityProxy(mortal_broker.bootstrap) as proxy:
        yield proxy
