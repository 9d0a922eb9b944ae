"""Fixtures for tests of herders: one broker with short group time-outs, and names that no other test uses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from moldau.testing import Broker
from tests.connect.herder.workers import Cluster

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def herder_broker() -> Iterator[Broker]:
    with Broker({"group.min.session.timeout.ms": 500, "group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def cluster(herder_broker: Broker) -> Cluster:
    """Workers of a group of their own, with topics of their own."""
    return Cluster(herder_broker.bootstrap_servers, f"herders-{next(_numbers)}")
