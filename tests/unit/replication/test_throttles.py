"""Replication throttles."""

from __future__ import annotations

import pytest

from moldau.replication.throttles import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    UNLIMITED,
    ReplicationThrottle,
    is_throttled,
)


class ThrottleSetup:
    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.now = 100.0
        self.throttle = ReplicationThrottle(lambda: self.rate, lambda: self.now)


def test_copied_bytes_are_paid_back_at_the_rate() -> None:
    setup = ThrottleSetup(1000)
    assert not setup.throttle.exceeded
    setup.throttle.count(3000)
    assert setup.throttle.exceeded
    setup.now += 2.9
    assert setup.throttle.exceeded
    setup.now += 0.2
    assert not setup.throttle.exceeded


def test_over_a_long_time_no_more_than_the_rate_is_copied() -> None:
    setup = ThrottleSetup(1000)
    copied = 0
    for _ in range(10_000):
        if not setup.throttle.exceeded:
            setup.throttle.count(70)
            copied += 70
        setup.now += 0.01
    assert 80 * 1000 < copied <= 100 * 1000 + 70, "not the expected bytes of a hundred seconds"


def test_time_without_traffic_is_not_saved_up() -> None:
    setup = ThrottleSetup(1000)
    setup.now += 3600
    setup.throttle.count(1000)
    assert setup.throttle.exceeded


def test_without_a_rate_nothing_is_throttled_and_with_rate_zero_everything_is() -> None:
    setup = ThrottleSetup(UNLIMITED)
    setup.throttle.count(1 << 40)
    assert not setup.throttle.exceeded
    setup.rate = 0
    assert setup.throttle.exceeded


def test_bytes_copied_at_a_low_rate_are_paid_back_soon_after_the_rate_is_raised() -> None:
    setup = ThrottleSetup(1)
    setup.throttle.count(1_000_000)
    assert setup.throttle.exceeded
    setup.rate = 10_000_000
    setup.now += 0.2
    assert not setup.throttle.exceeded


def test_a_changed_rate_applies_at_once() -> None:
    setup = ThrottleSetup(10)
    setup.throttle.count(1000)
    setup.rate = UNLIMITED
    assert not setup.throttle.exceeded


@pytest.mark.parametrize(
    ("text", "named"),
    [("*", True), ("0:1", False), ("3:2", True), ("0:1, 3:2", True), ("3:1,2:2", False), ("", False), (None, False)],
)
def test_a_topic_names_its_throttled_replicas(text: str | None, named: bool) -> None:
    configs = {} if text is None else {LEADER_REPLICAS: text}
    assert is_throttled(configs, LEADER_REPLICAS, 3, 2) is named
    assert not is_throttled(configs, FOLLOWER_REPLICAS, 3, 2)
