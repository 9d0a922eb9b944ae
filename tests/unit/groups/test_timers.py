"""Timers of the group coordinator as keys of a dictionary."""

from __future__ import annotations

from itertools import combinations

import pytest

from moldau.groups.timers import (
    DeletedTopicsTimer,
    DowngradeTimer,
    ExpiryTimer,
    JoinTimer,
    PendingMemberTimer,
    RejoinTimer,
    RevocationTimer,
    SessionTimer,
    SyncTimer,
)
from tests.unit.groups.shard_driver import ShardDriver


@pytest.mark.parametrize(
    "timers",
    [
        [kind("g", "m") for kind in (SessionTimer, PendingMemberTimer, RevocationTimer, RejoinTimer)],
        [kind("g") for kind in (JoinTimer, SyncTimer, DowngradeTimer)],
        [ExpiryTimer(), DeletedTopicsTimer()],
    ],
)
def test_timers_of_different_kinds_do_not_replace_each_other(timers: list[object]) -> None:
    assert len(dict.fromkeys(timers)) == len(timers)
    assert all(one != other for one, other in combinations(timers, 2))


def test_a_timer_that_is_set_again_replaces_the_first() -> None:
    assert {SessionTimer("g", "m"): 1, SessionTimer("g", "m"): 2} == {SessionTimer("g", "m"): 2}


def test_a_member_has_its_session_timer_and_its_revocation_timer_at_the_same_time() -> None:
    driver = ShardDriver()
    first = driver.consumer_heartbeat("a", 0)
    driver.consumer_heartbeat("b", 0)
    driver.consumer_heartbeat("a", first.member_epoch, owned={"t": range(10)})
    assert {SessionTimer("g", "a"), RevocationTimer("g", "a")} <= driver.timers.keys()
