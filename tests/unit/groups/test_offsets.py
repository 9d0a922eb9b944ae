"""Committed offsets: committing, fetching, transactions, deletion and expiry."""

from __future__ import annotations

import pytest

from moldau.coordinator.outcome import TxnProducer
from moldau.groups.config import GroupConfig
from moldau.groups.events import DeleteGroup, DeleteOffsets, FetchOffsets, ListGroups, TopicsChanged
from moldau.groups.offsets import GroupOffsets
from moldau.groups.stored_records import offset_key, offset_tail, offset_value, parse_offset, parse_tail
from moldau.wire.errors import ErrorCode
from moldau.wire.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from tests.unit.groups.shard_driver import SESSION_MS, START_MS, ShardDriver, subscription, topics

E = ErrorCode
RETENTION_MS = 60_000
P = TxnProducer(7, 0)


def aging_driver() -> ShardDriver:
    return ShardDriver(
        GroupConfig(initial_rebalance_delay_ms=0, offsets_retention_ms=RETENTION_MS, offsets_check_interval_ms=1_000)
    )


# Formats --------------------------------------------------------------------------------------------------------------


def test_keys_and_values_have_the_format_of_kafka() -> None:
    tail = offset_tail("tópico", 3)
    key = offset_key("grüppe".encode(), tail)
    decoded = OffsetCommitKey.decode(key, 1, 2)
    assert (key[:2], decoded.group, decoded.topic, decoded.partition) == (b"\0\1", "grüppe", "tópico", 3)
    assert parse_tail(tail) == ("tópico", 3)
    value = OffsetCommitValue.decode(offset_value(5, 6, "meta", 7), 3, 2)
    assert (value.offset, value.leader_epoch, value.metadata, value.commit_timestamp) == (5, 6, "meta", 7)
    expiring = OffsetCommitValue.decode(offset_value(5, 6, "meta", 7, 8), 1, 2)
    assert (expiring.offset, expiring.metadata, expiring.commit_timestamp, expiring.expire_timestamp) == (
        5,
        "meta",
        7,
        8,
    )


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_value_can_be_decoded(version: int) -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=6, metadata="m", commit_timestamp=7, expire_timestamp=8)
    found = parse_offset(version.to_bytes(2, "big") + value.encode(version))
    assert found == (5, 6 if version >= 3 else -1, "m", 7, 8 if version == 1 else -1)


# Committing -----------------------------------------------------------------------------------------------------------


def test_any_client_may_commit_for_a_group_without_members() -> None:
    driver = ShardDriver()
    assert driver.commit(42, metadata="here") == E.NONE
    found = driver.committed()
    assert (found.offset, found.leader_epoch, found.metadata, found.error) == (42, 3, "here", E.NONE)


@pytest.mark.parametrize(
    ("member", "generation", "code"),
    [
        ("member", 1, E.NONE),
        ("member", 0, E.ILLEGAL_GENERATION),
        ("member", 2, E.ILLEGAL_GENERATION),
        ("other", 1, E.UNKNOWN_MEMBER_ID),
        ("", -1, E.UNKNOWN_MEMBER_ID),
        ("member", -1, E.ILLEGAL_GENERATION),
    ],
)
def test_a_group_with_members_accepts_only_commits_of_its_current_generation(
    member: str, generation: int, code: ErrorCode
) -> None:
    driver = ShardDriver()
    (known,) = driver.stable_group()
    assert driver.commit(1, known if member == "member" else member, generation) == code


def test_a_commit_with_a_generation_is_refused_if_the_group_has_no_members() -> None:
    driver = ShardDriver()
    assert driver.commit(1, "m", 1) == E.GROUP_ID_NOT_FOUND
    driver.commit(1)
    assert driver.commit(1, "m", 1) == E.ILLEGAL_GENERATION


def test_members_may_commit_while_others_rejoin_but_not_before_the_leader_assigns() -> None:
    driver = ShardDriver()
    leader, follower = driver.stable_group(2)
    driver.join(leader)
    assert driver.commit(1, follower, 1) == E.NONE
    driver.join(follower)
    assert driver.commit(2, follower, 2) == E.REBALANCE_IN_PROGRESS
    assert driver.commit(2, follower, 1) == E.ILLEGAL_GENERATION


def test_a_commit_renews_the_session() -> None:
    driver = ShardDriver()
    (member,) = driver.stable_group()
    driver.advance(SESSION_MS - 1)
    driver.commit(1, member, 1)
    driver.advance(SESSION_MS - 1)
    assert driver.heartbeat(member, 1) == E.NONE


def test_long_metadata_is_refused() -> None:
    driver = ShardDriver()
    assert driver.commit(1, metadata="x" * 4096) == E.NONE
    assert driver.commit(2, metadata="x" * 4097) == E.OFFSET_METADATA_TOO_LARGE
    assert driver.committed().offset == 1


def test_an_offset_that_is_not_stored_is_not_committed() -> None:
    driver = ShardDriver()
    driver.commit(1)
    driver.broken = True
    ticket = driver._ticket()
    from moldau.groups.events import Commit, CommitOffsets

    driver.feed(CommitOffsets(ticket, "g", "", -1, None, [Commit("t", 0, 2)]))
    assert driver.answer(ticket) == E.COORDINATOR_NOT_AVAILABLE
    assert driver.committed().offset == 1


# Fetching -------------------------------------------------------------------------------------------------------------


def test_fetch_returns_no_offset_for_a_partition_without_a_commit() -> None:
    driver = ShardDriver()
    assert driver.committed() == (0, -1, -1, "", E.NONE)
    driver.commit(1)
    assert driver.committed(partition=1) == (1, -1, -1, "", E.NONE)


def test_the_offsets_of_all_topics_can_be_fetched() -> None:
    driver = ShardDriver()
    driver.commit(1, partition=0)
    driver.commit(2, partition=1)
    driver.commit(3, topic="u")
    code, found = driver.ask(FetchOffsets, "g", None)
    assert code == E.NONE
    assert {(topic, one.partition, one.offset) for topic, some in found for one in some} == {
        ("t", 0, 1),
        ("t", 1, 2),
        ("u", 0, 3),
    }


def test_commits_survive_a_restart_of_the_coordinator() -> None:
    driver = ShardDriver()
    driver.commit(9, metadata="kept")
    driver.reload()
    assert driver.committed()[1:4] == (9, 3, "kept")


# Transactions ---------------------------------------------------------------------------------------------------------


def test_an_offset_of_a_transaction_is_visible_after_the_commit() -> None:
    driver = ShardDriver()
    driver.commit(1)
    driver.commit(2, producer=P)
    assert driver.committed().offset == 1
    assert driver.committed(require_stable=True).error == E.UNSTABLE_OFFSET_COMMIT
    assert driver.committed(partition=1, require_stable=True).error == E.NONE
    driver.marker(P.id, True)
    assert driver.committed(require_stable=True).offset == 2


def test_an_offset_of_an_aborted_transaction_is_dropped() -> None:
    driver = ShardDriver()
    driver.commit(2, producer=P)
    driver.marker(P.id, False)
    assert driver.committed(require_stable=True).offset == -1
    assert driver.ask(ListGroups) == []


@pytest.mark.parametrize("committed", [True, False])
def test_a_restart_before_the_marker_keeps_the_offset_pending(committed: bool) -> None:
    driver = ShardDriver()
    driver.commit(2, producer=P)
    driver.reload()
    assert driver.committed(require_stable=True).error == E.UNSTABLE_OFFSET_COMMIT
    driver.marker(P.id, committed)
    driver.reload()
    assert driver.committed(require_stable=True).offset == (2 if committed else -1)


def test_a_transaction_that_ends_late_does_not_overwrite_a_later_commit() -> None:
    driver = ShardDriver()
    driver.commit(2, producer=P)
    driver.commit(3)
    driver.marker(P.id, True)
    assert driver.committed().offset == 3


def test_of_two_transactions_the_later_record_wins_in_any_order_of_their_ends() -> None:
    for order in ((1, 2), (2, 1)):
        offsets = GroupOffsets()
        offsets.store_pending(1, b"t", offset_value(10, 0, "", 0))
        offsets.store_pending(2, b"t", offset_value(20, 0, "", 0))
        for producer in order:
            offsets.end_transaction(producer, True)
        found = offsets.get(b"t")
        assert found is not None
        assert found.offset == 20


def test_a_transactional_commit_of_a_stale_member_is_refused() -> None:
    driver = ShardDriver()
    (member,) = driver.stable_group()
    assert driver.commit(1, member, 0, producer=P) == E.ILLEGAL_GENERATION
    assert driver.commit(1, "gone", 1, producer=P) == E.UNKNOWN_MEMBER_ID
    assert driver.commit(1, member, 1, producer=P) == E.NONE
    assert driver.commit(1, producer=P) == E.NONE, "old producers do not send their member id"


# Deleting -------------------------------------------------------------------------------------------------------------


def test_offsets_of_an_empty_group_can_be_deleted() -> None:
    driver = ShardDriver()
    driver.commit(1)
    driver.commit(2, partition=1)
    assert driver.ask(DeleteOffsets, "g", [("t", 0), ("t", 5)]) == (E.NONE, [E.NONE, E.NONE])
    assert driver.committed().offset == -1
    assert driver.committed(partition=1).offset == 2
    assert driver.ask(DeleteOffsets, "none", [("t", 0)]) == (E.GROUP_ID_NOT_FOUND, [])


def test_offsets_of_topics_that_members_read_cannot_be_deleted() -> None:
    driver = ShardDriver(known=topics(t=1, u=1))
    (member,) = driver.stable_group()
    driver.commit(1, member, 1)
    driver.commit(1, member, 1, topic="u")
    answer = driver.ask(DeleteOffsets, "g", [("t", 0), ("u", 0)])
    assert answer == (E.NONE, [E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE])


def test_offsets_cannot_be_deleted_if_the_subscription_of_a_member_is_unknown() -> None:
    driver = ShardDriver()
    (member,) = driver.stable_group(protocols=[("x", b"")], protocol_type="connect")
    driver.commit(1, member, 1)
    assert driver.ask(DeleteOffsets, "g", [("t", 0)]) == (E.NON_EMPTY_GROUP, [])


def test_only_a_group_without_members_can_be_deleted() -> None:
    driver = ShardDriver()
    (member,) = driver.stable_group()
    driver.commit(1, member, 1)
    assert driver.ask(DeleteGroup, "g") == E.NON_EMPTY_GROUP
    driver.leave(member)
    assert driver.ask(DeleteGroup, "g") == E.NONE
    assert driver.ask(DeleteGroup, "g") == E.GROUP_ID_NOT_FOUND
    driver.reload()
    assert driver.shard.groups == {}


def test_a_group_with_many_offsets_is_deleted_in_several_batches() -> None:
    driver = ShardDriver()
    from moldau.groups.events import Commit, CommitOffsets

    driver.ask(CommitOffsets, "g", "", -1, None, [Commit("t", index, 1) for index in range(5_000)])
    ticket = driver._ticket()
    driver.feed(DeleteGroup(ticket, "g"))
    assert driver.answer(ticket) is None
    driver.advance(0)
    assert driver.answer(ticket) == E.NONE
    assert driver.shard.groups == {}


def test_offsets_of_a_deleted_topic_are_deleted() -> None:
    driver = ShardDriver()
    driver.commit(1)
    driver.commit(2, topic="u", group="other")
    driver.feed(TopicsChanged({}, ["t"]))
    assert driver.committed().offset == -1
    assert driver.committed(topic="u", group="other").offset == 2
    driver.reload()
    assert driver.committed().offset == -1


# Expiry ---------------------------------------------------------------------------------------------------------------


def test_offsets_of_a_group_without_members_expire_after_the_retention() -> None:
    driver = aging_driver()
    driver.commit(1)
    driver.advance(RETENTION_MS - 1)
    assert driver.committed().offset == 1
    driver.advance(1_000)
    assert driver.committed().offset == -1
    assert driver.shard.groups == {}


def test_a_group_keeps_its_offsets_for_the_retention_after_the_last_member_left() -> None:
    driver = aging_driver()
    (member,) = driver.stable_group(session_ms=1_000_000)
    driver.commit(1, member, 1)
    driver.advance(RETENTION_MS * 3)
    assert driver.committed().offset == 1
    driver.leave(member)
    driver.advance(RETENTION_MS - 1)
    assert driver.committed().offset == 1
    driver.advance(2_000)
    assert driver.committed().offset == -1
    driver.reload()
    assert driver.shard.groups == {}


def test_offsets_of_topics_that_a_live_group_no_longer_reads_expire() -> None:
    driver = aging_driver()
    (member,) = driver.stable_group(session_ms=1_000_000)
    driver.commit(1, member, 1)
    driver.commit(1, member, 1, topic="old")
    driver.advance(RETENTION_MS + 1_000)
    assert driver.committed().offset == 1
    assert driver.committed(topic="old").offset == -1


def test_a_commit_may_have_its_own_retention() -> None:
    driver = aging_driver()
    driver.commit(1, retention_ms=5_000)
    driver.commit(2, partition=1)
    driver.advance(6_000)
    assert driver.committed().offset == -1
    assert driver.committed(partition=1).offset == 2


def test_an_offset_does_not_expire_while_a_transaction_may_replace_it() -> None:
    driver = aging_driver()
    driver.commit(1)
    driver.commit(2, producer=P)
    driver.advance(RETENTION_MS * 2)
    assert driver.committed().offset == 1


# Listing --------------------------------------------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_type() -> None:
    driver = ShardDriver()
    driver.stable_group()
    driver.commit(1, group="simple")
    driver.consumer_heartbeat("m", 0, group="modern")

    def listed(**filters: list[str]) -> set[str]:
        return {one.group_id for one in driver.ask(ListGroups, **filters)}

    assert listed() == {"g", "simple", "modern"}
    assert listed(states=["stable"]) == {"g", "modern"}
    assert listed(states=["Empty"]) == {"simple"}
    assert listed(types=["consumer"]) == {"modern"}
    assert listed(types=["Classic"], states=["STABLE"]) == {"g"}
    assert listed(states=["Dead"]) == set()


def test_a_group_that_was_never_formed_is_removed() -> None:
    driver = aging_driver()
    driver.member_id(protocols=[("range", subscription("t"))])
    assert "g" in driver.shard.groups
    driver.advance(SESSION_MS + 2_000)
    assert driver.shard.groups == {}
    assert driver.now == START_MS + SESSION_MS + 2_000
