"""Fetch sessions: partitions are named once, only changes are sent, and the cache is bounded."""

from __future__ import annotations

import pytest

from moldau.broker.requests.fetch_sessions import (
    EVICTABLE_AFTER_S,
    LOOK_AT_ALL_S,
    MAX_EPOCH,
    CopiedPartition,
    CopySession,
    FetchSessionError,
    FetchSessions,
    WatchedPartition,
)
from moldau.host.clock import SeededRandomness
from moldau.wire.errors import ErrorCode
from moldau.wire.tuned.fetch import FetchCall, FetchTarget


def call(
    session_id: int,
    epoch: int,
    offsets: dict[int, int] | None = None,
    forgotten: list[int] | None = None,
    topic: str = "t",
) -> FetchCall:
    targets = [FetchTarget(partition, -1, offset, -1, -1, 1024) for partition, offset in (offsets or {}).items()]
    return FetchCall(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1024,
        isolation_level=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[(topic, targets)] if targets else [],
        forgotten=[(topic, forgotten)] if forgotten else [],
        rack_id="",
    )


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, SeededRandomness(1))


def offsets_of(watched: list[WatchedPartition]) -> dict[int, int]:
    return {entry.target.partition: entry.target.fetch_offset for entry in watched}


def test_epoch_zero_begins_a_session_and_epochs_count_up() -> None:
    cache = sessions()
    session, watched, incremental = cache.open(call(0, 0, {0: 5, 1: 7}), False, 0)
    assert session is not None
    assert (offsets_of(watched), incremental) == ({0: 5, 1: 7}, False)
    for epoch in (1, 2, 3):
        again, watched, incremental = cache.open(call(session.id, epoch, {0: 10 + epoch}), False, 0)
        assert again is session
        assert (offsets_of(watched), incremental) == ({0: 10 + epoch, 1: 7}, True)


def test_forgotten_partitions_are_removed_and_new_ones_added() -> None:
    cache = sessions()
    session, _, _ = cache.open(call(0, 0, {0: 0, 1: 0}), False, 0)
    assert session is not None
    _, watched, _ = cache.open(call(session.id, 1, {2: 9}, forgotten=[0]), False, 0)
    assert offsets_of(watched) == {1: 0, 2: 9}


@pytest.mark.parametrize("epoch", [0 + 2, 99])
def test_a_wrong_epoch_is_refused_and_the_session_stays_open(epoch: int) -> None:
    cache = sessions()
    session, _, _ = cache.open(call(0, 0, {0: 0}), False, 0)
    assert session is not None
    with pytest.raises(FetchSessionError) as refused:
        cache.open(call(session.id, epoch), False, 0)
    assert refused.value.error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cache.open(call(session.id, 1), False, 0)[0] is session


def test_an_unknown_session_is_refused() -> None:
    with pytest.raises(FetchSessionError) as refused:
        sessions().open(call(77, 1), False, 0)
    assert refused.value.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_changing_between_names_and_ids_is_refused() -> None:
    cache = sessions()
    session, _, _ = cache.open(call(0, 0, {0: 0}), False, 0)
    assert session is not None
    with pytest.raises(FetchSessionError) as refused:
        cache.open(call(session.id, 1), True, 0)
    assert refused.value.error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_final_epoch_closes_the_session_and_serves_the_request() -> None:
    cache = sessions()
    session, _, _ = cache.open(call(0, 0, {0: 0}), False, 0)
    assert session is not None
    none, watched, incremental = cache.open(call(session.id, -1, {0: 3}), False, 0)
    assert (none, offsets_of(watched), incremental) == (None, {0: 3}, False)
    assert len(cache) == 0


def test_the_epoch_wraps_to_one() -> None:
    cache = sessions()
    session, _, _ = cache.open(call(0, 0, {0: 0}), False, 0)
    assert session is not None
    session.epoch = MAX_EPOCH
    cache.open(call(session.id, MAX_EPOCH), False, 0)
    assert session.epoch == 1


def test_a_full_cache_serves_without_a_session() -> None:
    cache = sessions(slots=1)
    first, _, _ = cache.open(call(0, 0, {0: 0, 1: 0}), False, 0)
    second, watched, _ = cache.open(call(0, 0, {0: 0}), False, 1)
    assert first is not None
    assert second is None
    assert offsets_of(watched) == {0: 0}
    assert cache.open(call(first.id, 1), False, 2)[0] is first


def test_a_larger_new_session_or_a_stale_old_one_causes_an_eviction() -> None:
    cache = sessions(slots=1)
    cache.open(call(0, 0, {0: 0}), False, 0)
    larger, _, _ = cache.open(call(0, 0, {0: 0, 1: 0}), False, 1)
    assert larger is not None
    later, _, _ = cache.open(call(0, 0, {0: 0}), False, 1 + EVICTABLE_AFTER_S)
    assert later is not None
    assert (len(cache), cache.evicted) == (1, 2)


def test_no_slots_means_no_sessions() -> None:
    assert sessions(slots=0).open(call(0, 0, {0: 0}), False, 0)[0] is None


def test_only_changed_partitions_are_sent() -> None:
    watched = WatchedPartition("t", FetchTarget(0, -1, 0, -1, -1, 1024))
    assert watched.take_difference(0, 5, 0, False)
    assert not watched.take_difference(0, 5, 0, False)
    assert watched.take_difference(0, 5, 0, True)
    assert watched.take_difference(0, 6, 0, False)
    assert watched.take_difference(0, 6, 2, False)
    assert watched.take_difference(ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, False)
    assert watched.take_difference(ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, False), "an error must be sent while it lasts"
    assert watched.take_difference(0, 6, 2, False)


def test_a_partition_that_got_records_is_moved_to_the_end() -> None:
    cache = sessions()
    session, watched, _ = cache.open(call(0, 0, {0: 0, 1: 0, 2: 0}), False, 0)
    assert session is not None
    session.served(watched[0])
    _, watched, _ = cache.open(call(session.id, 1), False, 0)
    assert [entry.target.partition for entry in watched] == [1, 2, 0]


def test_a_follower_replaces_a_consumers_session_and_is_never_evicted_for_one() -> None:
    cache = sessions(slots=1)
    consumer, _, _ = cache.open(call(0, 0, {0: 0, 1: 0}), False, 0)
    follower, _, _ = cache.open(call(0, 0, {0: 0})._replace(replica_id=2), False, 1)
    assert consumer is not None
    assert follower is not None
    assert cache.get(consumer.id) is None
    assert cache.open(call(0, 0, {0: 0, 1: 0, 2: 0}), False, 2 * EVICTABLE_AFTER_S)[0] is None


def test_a_new_session_of_a_follower_replaces_its_old_one() -> None:
    cache = sessions()
    for _ in range(5):
        cache.open(call(0, 0, {0: 0})._replace(replica_id=2), False, 0)
        cache.open(call(0, 0, {0: 0})._replace(replica_id=3), False, 0)
    assert len(cache) == 2


class Watched:
    """The part of a partition that a session uses."""

    failure = 0

    def __init__(self) -> None:
        self.waiters: dict[object, None] = {}

    def await_copy(self, waiter: object) -> None:
        self.waiters[waiter] = None

    def forget_copier(self, waiter: object) -> None:
        self.waiters.pop(waiter, None)


def copy_session(cache: FetchSessions) -> tuple[CopySession, dict[int, WatchedPartition]]:
    session, watched, _ = cache.open(call(0, 0, {0: 0, 1: 0, 2: 0})._replace(replica_id=2), False, 0)
    assert isinstance(session, CopySession)
    return session, {entry.target.partition: entry for entry in watched}


def test_only_named_or_changed_partitions_of_a_followers_session_are_read() -> None:
    cache = sessions()
    session, watched = copy_session(cache)
    one = watched[1]
    assert isinstance(one, CopiedPartition)
    cache.open(call(session.id, 1, {2: 5})._replace(replica_id=2), False, 0.1)
    assert list(session.touched) == [watched[2]]
    one.bytes_arrived(100)
    assert list(session.touched) == [watched[2], one]


def test_all_partitions_of_a_followers_session_are_read_periodically() -> None:
    cache = sessions()
    session, watched = copy_session(cache)
    cache.open(call(session.id, 1)._replace(replica_id=2), False, LOOK_AT_ALL_S / 2)
    assert not session.touched
    cache.open(call(session.id, 2)._replace(replica_id=2), False, LOOK_AT_ALL_S)
    assert set(session.touched) == set(watched.values())


def test_a_followers_session_watches_its_partitions_until_they_are_forgotten_or_it_ends() -> None:
    cache = sessions()
    session, watched = copy_session(cache)
    partitions = {index: Watched() for index in watched}
    for index, entry in watched.items():
        entry.found(partitions[index])  # type: ignore[arg-type]
    assert all(len(one.waiters) == 1 for one in partitions.values())
    cache.open(call(session.id, 1, forgotten=[0])._replace(replica_id=2), False, 0)
    assert [len(partitions[index].waiters) for index in (0, 1, 2)] == [0, 1, 1]
    cache.open(call(0, 0, {0: 0})._replace(replica_id=2), False, 0)
    assert not any(one.waiters for one in partitions.values()), "another session has replaced it"


def test_a_follower_in_a_new_epoch_is_sent_the_high_watermark_again() -> None:
    cache = sessions()
    session, watched = copy_session(cache)
    watched[0].take_difference(0, 7, 0, False)
    again = call(session.id, 1, {0: 0})._replace(replica_id=2)
    cache.open(again, False, 0)
    assert not watched[0].differs_from_sent(0, 7, 0, False)
    target = FetchTarget(0, 3, 0, -1, -1, 1024)
    cache.open(call(session.id, 2)._replace(replica_id=2, topics=[("t", [target])]), False, 0)
    assert watched[0].differs_from_sent(0, 7, 0, False)
