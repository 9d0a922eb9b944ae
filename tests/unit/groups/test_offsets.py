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
from tests.unit.groups.world import SESSION_MS, START_MS, World, subscription, topics

E = ErrorCode
RETENTION_MS = 60_000
P = TxnProducer(7, 0)


def aging_world() -> World:
    return World(
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
    world = World()
    assert world.commit(42, metadata="here") == E.NONE
    found = world.committed()
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
    world = World()
    (known,) = world.stable_group()
    assert world.commit(1, known if member == "member" else member, generation) == code


def test_a_commit_with_a_generation_is_refused_if_the_group_has_no_members() -> None:
    world = World()
    assert world.commit(1, "m", 1) == E.GROUP_ID_NOT_FOUND
    world.commit(1)
    assert world.commit(1, "m", 1) == E.ILLEGAL_GENERATION


def test_members_may_commit_while_others_rejoin_but_not_before_the_leader_assigns() -> None:
    world = World()
    leader, follower = world.stable_group(2)
    world.join(leader)
    assert world.commit(1, follower, 1) == E.NONE
    world.join(follower)
    assert world.commit(2, follower, 2) == E.REBALANCE_IN_PROGRESS
    assert world.commit(2, follower, 1) == E.ILLEGAL_GENERATION


def test_a_commit_renews_the_session() -> None:
    world = World()
    (member,) = world.stable_group()
    world.advance(SESSION_MS - 1)
    world.commit(1, member, 1)
    world.advance(SESSION_MS - 1)
    assert world.heartbeat(member, 1) == E.NONE


def test_long_metadata_is_refused() -> None:
    world = World()
    assert world.commit(1, metadata="x" * 4096) == E.NONE
    assert world.commit(2, metadata="x" * 4097) == E.OFFSET_METADATA_TOO_LARGE
    assert world.committed().offset == 1


def test_an_offset_that_is_not_stored_is_not_committed() -> None:
    world = World()
    world.commit(1)
    world.broken = True
    ticket = world._ticket()
    from moldau.groups.events import Commit, CommitOffsets

    world.feed(CommitOffsets(ticket, "g", "", -1, None, [Commit("t", 0, 2)]))
    assert world.answer(ticket) == E.COORDINATOR_NOT_AVAILABLE
    assert world.committed().offset == 1


# Fetching -------------------------------------------------------------------------------------------------------------


def test_fetch_returns_no_offset_for_a_partition_without_a_commit() -> None:
    world = World()
    assert world.committed() == (0, -1, -1, "", E.NONE)
    world.commit(1)
    assert world.committed(partition=1) == (1, -1, -1, "", E.NONE)


def test_the_offsets_of_all_topics_can_be_fetched() -> None:
    world = World()
    world.commit(1, partition=0)
    world.commit(2, partition=1)
    world.commit(3, topic="u")
    code, found = world.ask(FetchOffsets, "g", None)
    assert code == E.NONE
    assert {(topic, one.partition, one.offset) for topic, some in found for one in some} == {
        ("t", 0, 1),
        ("t", 1, 2),
        ("u", 0, 3),
    }


def test_commits_survive_a_restart_of_the_coordinator() -> None:
    world = World()
    world.commit(9, metadata="kept")
    world.reload()
    assert world.committed()[1:4] == (9, 3, "kept")


# Transactions ---------------------------------------------------------------------------------------------------------


def test_an_offset_of_a_transaction_is_visible_after_the_commit() -> None:
    world = World()
    world.commit(1)
    world.commit(2, producer=P)
    assert world.committed().offset == 1
    assert world.committed(require_stable=True).error == E.UNSTABLE_OFFSET_COMMIT
    assert world.committed(partition=1, require_stable=True).error == E.NONE
    world.marker(P.id, True)
    assert world.committed(require_stable=True).offset == 2


def test_an_offset_of_an_aborted_transaction_is_dropped() -> None:
    world = World()
    world.commit(2, producer=P)
    world.marker(P.id, False)
    assert world.committed(require_stable=True).offset == -1
    assert world.ask(ListGroups) == []


@pytest.mark.parametrize("committed", [True, False])
def test_a_restart_before_the_marker_keeps_the_offset_pending(committed: bool) -> None:
    world = World()
    world.commit(2, producer=P)
    world.reload()
    assert world.committed(require_stable=True).error == E.UNSTABLE_OFFSET_COMMIT
    world.marker(P.id, committed)
    world.reload()
    assert world.committed(require_stable=True).offset == (2 if committed else -1)


def test_a_transaction_that_ends_late_does_not_overwrite_a_later_commit() -> None:
    world = World()
    world.commit(2, producer=P)
    world.commit(3)
    world.marker(P.id, True)
    assert world.committed().offset == 3


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
    world = World()
    (member,) = world.stable_group()
    assert world.commit(1, member, 0, producer=P) == E.ILLEGAL_GENERATION
    assert world.commit(1, "gone", 1, producer=P) == E.UNKNOWN_MEMBER_ID
    assert world.commit(1, member, 1, producer=P) == E.NONE
    assert world.commit(1, producer=P) == E.NONE, "old producers do not send their member id"


# Deleting -------------------------------------------------------------------------------------------------------------


def test_offsets_of_an_empty_group_can_be_deleted() -> None:
    world = World()
    world.commit(1)
    world.commit(2, partition=1)
    assert world.ask(DeleteOffsets, "g", [("t", 0), ("t", 5)]) == (E.NONE, [E.NONE, E.NONE])
    assert world.committed().offset == -1
    assert world.committed(partition=1).offset == 2
    assert world.ask(DeleteOffsets, "none", [("t", 0)]) == (E.GROUP_ID_NOT_FOUND, [])


def test_offsets_of_topics_that_members_read_cannot_be_deleted() -> None:
    world = World(known=topics(t=1, u=1))
    (member,) = world.stable_group()
    world.commit(1, member, 1)
    world.commit(1, member, 1, topic="u")
    answer = world.ask(DeleteOffsets, "g", [("t", 0), ("u", 0)])
    assert answer == (E.NONE, [E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE])


def test_offsets_cannot_be_deleted_if_the_subscription_of_a_member_is_unknown() -> None:
    world = World()
    (member,) = world.stable_group(protocols=[("x", b"")], protocol_type="connect")
    world.commit(1, member, 1)
    assert world.ask(DeleteOffsets, "g", [("t", 0)]) == (E.NON_EMPTY_GROUP, [])


def test_only_a_group_without_members_can_be_deleted() -> None:
    world = World()
    (member,) = world.stable_group()
    world.commit(1, member, 1)
    assert world.ask(DeleteGroup, "g") == E.NON_EMPTY_GROUP
    world.leave(member)
    assert world.ask(DeleteGroup, "g") == E.NONE
    assert world.ask(DeleteGroup, "g") == E.GROUP_ID_NOT_FOUND
    world.reload()
    assert world.shard.groups == {}


def test_a_group_with_many_offsets_is_deleted_in_several_batches() -> None:
    world = World()
    from moldau.groups.events import Commit, CommitOffsets

    world.ask(CommitOffsets, "g", "", -1, None, [Commit("t", index, 1) for index in range(5_000)])
    ticket = world._ticket()
    world.feed(DeleteGroup(ticket, "g"))
    assert world.answer(ticket) is None
    world.advance(0)
    assert world.answer(ticket) == E.NONE
    assert world.shard.groups == {}


def test_offsets_of_a_deleted_topic_are_deleted() -> None:
    world = World()
    world.commit(1)
    world.commit(2, topic="u", group="other")
    world.feed(TopicsChanged({}, ["t"]))
    assert world.committed().offset == -1
    assert world.committed(topic="u", group="other").offset == 2
    world.reload()
    assert world.committed().offset == -1


# Expiry ---------------------------------------------------------------------------------------------------------------


def test_offsets_of_a_group_without_members_expire_after_the_retention() -> None:
    world = aging_world()
    world.commit(1)
    world.advance(RETENTION_MS - 1)
    assert world.committed().offset == 1
    world.advance(1_000)
    assert world.committed().offset == -1
    assert world.shard.groups == {}


def test_a_group_keeps_its_offsets_for_the_retention_after_the_last_member_left() -> None:
    world = aging_world()
    (member,) = world.stable_group(session_ms=1_000_000)
    world.commit(1, member, 1)
    world.advance(RETENTION_MS * 3)
    assert world.committed().offset == 1
    world.leave(member)
    world.advance(RETENTION_MS - 1)
    assert world.committed().offset == 1
    world.advance(2_000)
    assert world.committed().offset == -1
    world.reload()
    assert world.shard.groups == {}


def test_offsets_of_topics_that_a_live_group_no_longer_reads_expire() -> None:
    world = aging_world()
    (member,) = world.stable_group(session_ms=1_000_000)
    world.commit(1, member, 1)
    world.commit(1, member, 1, topic="old")
    world.advance(RETENTION_MS + 1_000)
    assert world.committed().offset == 1
    assert world.committed(topic="old").offset == -1


def test_a_commit_may_have_its_own_retention() -> None:
    world = aging_world()
    world.commit(1, retention_ms=5_000)
    world.commit(2, partition=1)
    world.advance(6_000)
    assert world.committed().offset == -1
    assert world.committed(partition=1).offset == 2


def test_an_offset_does_not_expire_while_a_transaction_may_replace_it() -> None:
    world = aging_world()
    world.commit(1)
    world.commit(2, producer=P)
    world.advance(RETENTION_MS * 2)
    assert world.committed().offset == 1


# Listing --------------------------------------------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_type() -> None:
    world = World()
    world.stable_group()
    world.commit(1, group="simple")
    world.beat("m", 0, group="modern")

    def listed(**filters: list[str]) -> set[str]:
        return {one.group_id for one in world.ask(ListGroups, **filters)}

    assert listed() == {"g", "simple", "modern"}
    assert listed(states=["stable"]) == {"g", "modern"}
    assert listed(states=["Empty"]) == {"simple"}
    assert listed(types=["consumer"]) == {"modern"}
    assert listed(types=["Classic"], states=["STABLE"]) == {"g"}
    assert listed(states=["Dead"]) == set()


def test_a_group_that_was_never_formed_is_removed() -> None:
    world = aging_world()
    world.member_id(protocols=[("range", subscription("t"))])
    assert "g" in world.shard.groups
    world.advance(SESSION_MS + 2_000)
    assert world.shard.groups == {}
    assert world.now == START_MS + SESSION_MS + 2_000
