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


class World:
    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.now = 100.0
        self.throttle = ReplicationThrottle(lambda: self.rate, lambda: self.now)


def test_copied_bytes_are_paid_back_at_the_rate() -> None:
    world = World(1000)
    assert not world.throttle.exceeded
    world.throttle.count(3000)
    assert world.throttle.exceeded
    world.now += 2.9
    assert world.throttle.exceeded
    world.now += 0.2
    assert not world.throttle.exceeded


def test_over_a_long_time_no_more_than_the_rate_is_copied() -> None:
    world = World(1000)
    copied = 0
    for _ in range(10_000):
        if not world.throttle.exceeded:
            world.throttle.count(70)
            copied += 70
        world.now += 0.01
    assert 80 * 1000 < copied <= 100 * 1000 + 70, "not the expected bytes of a hundred seconds"


def test_time_without_traffic_is_not_saved_up() -> None:
    world = World(1000)
    world.now += 3600
    world.throttle.count(1000)
    assert world.throttle.exceeded


def test_without_a_rate_nothing_is_held_back_and_with_none_allowed_everything_is() -> None:
    world = World(UNLIMITED)
    world.throttle.count(1 << 40)
    assert not world.throttle.exceeded
    world.rate = 0
    assert world.throttle.exceeded


def test_bytes_copied_at_a_low_rate_are_paid_back_soon_after_the_rate_is_raised() -> None:
    world = World(1)
    world.throttle.count(1_000_000)
    assert world.throttle.exceeded
    world.rate = 10_000_000
    world.now += 0.2
    assert not world.throttle.exceeded


def test_a_rate_that_is_changed_holds_from_then_on() -> None:
    world = World(10)
    world.throttle.count(1000)
    world.rate = UNLIMITED
    assert not world.throttle.exceeded


@pytest.mark.parametrize(
    ("text", "named"),
    [("*", True), ("0:1", False), ("3:2", True), ("0:1, 3:2", True), ("3:1,2:2", False), ("", False), (None, False)],
)
def test_a_topic_names_the_replicas_that_are_held_back(text: str | None, named: bool) -> None:
    configs = {} if text is None else {LEADER_REPLICAS: text}
    assert is_throttled(configs, LEADER_REPLICAS, 3, 2) is named
    assert not is_throttled(configs, FOLLOWER_REPLICAS, 3, 2)
