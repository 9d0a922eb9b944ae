"""A broker that these tests may kill, and the proxy before it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.adversity import AdversityProxy
from tests.support.process import BrokerProcess

SETTINGS = {
    # Members that a trouble has separated from their group are to be back soon.
    "group.min.session.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "200",
    "offsets.topic.num.partitions": "2",
}


@pytest.fixture(scope="package")
def mortal_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("adversity") / "data", SETTINGS) as broker:
        yield broker


@pytest.fixture
def proxy(mortal_broker: BrokerProcess) -> Iterator[AdversityProxy]:
    with AdversityProxy(mortal_broker.bootstrap) as proxy:
        yield proxy
