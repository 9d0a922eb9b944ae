"""Follower log: it becomes equal to the leader's log after any history."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.cluster.image import PartitionState
from moldau.log.config import LogConfig
from moldau.log.errors import OffsetNotInLog
from moldau.log.log import Log
from moldau.records import peek_header
from moldau.replication.follower_partition import FollowerPartition, Next
from moldau.replication.partition import Partition
from moldau.testing.faulty_fs import FaultyFileSystem
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.fetch import FetchResponseDivergingEpoch, FetchResponsePartition
from tests.unit.log.support import NOW, TOPIC_ID, batch, new_log, offsets, split

ROUNDS = 100
"""The number of answers after which a copy must be complete."""


class Unasked:
    def flushed(self, copy: FollowerPartition) -> None:
        """A replica without fetches except those of the test."""


class Replica:
    """A partition on one of several brokers, with a log in memory."""

    def __init__(self, node_id: int, config: LogConfig | None = None) -> None:
        self.node_id = node_id
        self.fs = FaultyFileSystem()
        self.partition = Partition("topic", TOPIC_ID, 0, new_log(self.fs, config), 0)

    @property
    def log(self) -> Log:
        return self.partition.log

    def lead(self, epoch: int) -> None:
        self.partition.lead(self.node_id, PartitionState((1, 2, 3), (self.node_id,), self.node_id, epoch, epoch), 0.0)

    def write(self, batches: int = 1, records: int = 1) -> None:
        for _ in range(batches):
            self.partition.append(batch(records), NOW)

    def follow(self, leader: Replica) -> FollowerPartition:
        self.partition.follow(leader.node_id, leader.partition.leader_epoch)
        copy = FollowerPartition(self.partition, Unasked())
        assert copy.cut_to_high_watermark(NOW)
        return copy

    def answer(self, copy: FollowerPartition, max_bytes: int = 1 << 20) -> FetchResponsePartition:
        """The leader's answer to a follower's fetch."""
        wanted = copy.target(max_bytes)
        answer = FetchResponsePartition(
            high_watermark=self.partition.high_watermark, log_start_offset=self.log.start_offset
        )
        try:
            diverging_epoch = self.partition.diverging_epoch(wanted.fetch_offset, wanted.last_fetched_epoch)
        except OffsetNotInLog:
            answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return answer
        if diverging_epoch is None:
            answer.records = self.log.read(wanted.fetch_offset, max_bytes, self.log.end_offset)
        else:
            answer.diverging_epoch = FetchResponseDivergingEpoch(
                epoch=diverging_epoch[0], end_offset=diverging_epoch[1]
            )
        return answer

    def copy_all(self, leader: Replica, max_bytes: int = 1 << 20) -> int:
        """Fetch until there is nothing left. Returns the number of answers."""
        copy = self.follow(leader)
        for number in range(ROUNDS):
            if copy.take(leader.answer(copy, max_bytes), NOW) is Next.WAIT:
                return number
        raise AssertionError(f"{self.log} is not {leader.log} after {ROUNDS} answers")


def batches(replica: Replica) -> list[bytes]:
    log = replica.log
    found = log.read(log.start_offset, 1 << 24, log.end_offset)
    return split(found) if found else []


def epochs(replica: Replica) -> list[int]:
    """The leader epoch of each batch."""
    return [peek_header(one).leader_epoch for one in batches(replica)]


@pytest.fixture
def a() -> Replica:
    return Replica(1)


@pytest.fixture
def b() -> Replica:
    return Replica(2)


# Divergent logs -------------------------------------------------------------------------------------------------------


def test_a_follower_copies_batches_as_they_are(a: Replica, b: Replica) -> None:
    a.lead(1)
    a.write(5, records=3)
    b.copy_all(a, max_bytes=200)
    assert batches(b) == batches(a)
    assert b.log.epochs.entries() == [(1, 0)]


def test_records_of_a_former_leader_are_truncated(a: Replica, b: Replica) -> None:
    # KIP-101, scenario 1: records that only the old leader has, at offsets where the new leader wrote others.
    a.lead(1)
    a.write(2)
    b.copy_all(a)
    a.write(1)
    b.lead(2)
    b.write(2)
    a.copy_all(b)
    assert epochs(a) == epochs(b) == [1, 1, 2, 2]
    assert batches(a) == batches(b)


def test_a_follower_that_is_ahead_keeps_the_records_it_shares_with_the_leader(a: Replica, b: Replica) -> None:
    # KIP-101, scenario 2: truncation to a lagging high watermark would lose records that both have.
    a.lead(1)
    a.write(3)
    b.copy_all(a)
    assert b.partition.high_watermark == 0
    b.lead(2)
    assert a.copy_all(b) == 0
    assert offsets(a.log) == offsets(b.log) == [0, 1, 2]


def test_logs_that_diverged_more_than_once_are_compared_until_they_agree(a: Replica, b: Replica) -> None:
    # KIP-279: epochs 1 and 3 here, 1, 2 and 4 there.
    a.lead(1)
    a.write(5)
    b.copy_all(a)
    a.write(5)
    b.lead(2)
    b.write(16)
    a.lead(3)
    a.write(5)
    b.lead(4)
    b.write(1)
    rounds = a.copy_all(b)
    assert rounds >= 2, "one truncation must not be enough"
    assert epochs(a) == epochs(b) == [1] * 5 + [2] * 16 + [4]
    assert batches(a) == batches(b)


def test_a_leader_without_records_has_an_epoch(a: Replica, b: Replica) -> None:
    a.lead(1)
    a.write(3)
    b.copy_all(a)
    a.write(2)
    b.lead(2)
    a.copy_all(b)
    assert offsets(a.log) == [0, 1, 2]


def test_an_empty_leader_leaves_its_followers_empty(a: Replica, b: Replica) -> None:
    b.lead(1)
    b.write(3)
    a.lead(2)
    b.copy_all(a)
    assert b.log.end_offset == 0
    a.write(1)
    b.copy_all(a)
    assert batches(b) == batches(a)


def test_a_truncation_inside_a_batch_removes_the_whole_batch_which_is_fetched_again(a: Replica, b: Replica) -> None:
    a.lead(1)
    a.write(1, records=2)
    b.copy_all(a)
    a.write(1, records=5)
    b.lead(2)
    b.write(1, records=3)
    a.copy_all(b)
    assert batches(a) == batches(b)


def test_an_empty_log_forgets_an_epoch_that_the_leader_does_not_know(a: Replica, b: Replica) -> None:
    """After an unclean election, both sides have only the number of the follower's epoch, and none of its records."""
    a.lead(1)
    a.write(1)
    b.lead(2)
    b.write(1)
    b.log.delete_before(1)
    a.lead(3)
    b.copy_all(a)
    assert (b.log.start_offset, b.log.end_offset) == (1, 1)
    a.write(1)
    b.copy_all(a)
    assert batches(b) == batches(a)[1:]


def test_an_empty_log_that_ends_inside_of_a_batch_begins_with_all_of_it(a: Replica, b: Replica) -> None:
    a.lead(1)
    a.write(1, records=3)
    b.lead(2)
    b.write(1)
    b.log.delete_before(1)
    a.lead(3)
    b.copy_all(a)
    assert batches(b) == batches(a)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_follower_becomes_equal_to_its_leader_after_any_history(data: st.DataObject) -> None:
    replicas = [Replica(node) for node in (1, 2, 3)]
    node = st.sampled_from(replicas)
    epoch = 0
    leader = replicas[0]
    leader.lead(epoch)
    for _ in range(data.draw(st.integers(1, 12))):
        step = data.draw(st.sampled_from(("elect", "write", "write", "copy", "copy some", "delete")))
        if step == "elect":
            leader = data.draw(node)
            epoch += data.draw(st.integers(1, 2))
            leader.lead(epoch)
        elif step == "write":
            leader.write(data.draw(st.integers(1, 4)), records=data.draw(st.integers(1, 3)))
        elif step == "delete":
            leader.log.delete_before(data.draw(st.integers(leader.log.start_offset, leader.log.end_offset)))
        else:
            follower = data.draw(st.sampled_from([one for one in replicas if one is not leader]))
            if step == "copy":
                follower.copy_all(leader, data.draw(st.sampled_from((1, 150, 1 << 20))))
            else:
                copy = follower.follow(leader)
                for _ in range(data.draw(st.integers(1, 3))):
                    copy.take(leader.answer(copy, 100), NOW)
    for follower in replicas:
        if follower is not leader:
            follower.copy_all(leader)
            assert offsets(follower.log) == [one for one in offsets(leader.log) if one >= follower.log.start_offset]
            common = min(len(batches(follower)), len(batches(leader)))
            assert common == 0 or batches(follower)[-common:] == batches(leader)[-common:]
            assert follower.log.end_offset == leader.log.end_offset


# Log start ------------------------------------------------------------------------------------------------------------


def test_the_log_start_follows_that_of_the_leader(a: Replica, b: Replica) -> None:
    a.lead(1)
    a.write(10)
    b.copy_all(a)
    a.log.delete_before(4)
    b.copy_all(a)
    assert b.log.start_offset == 4
    assert b.partition.high_watermark >= 4


def test_a_follower_without_records_starts_at_the_log_start_offset_of_its_leader(a: Replica, b: Replica) -> None:
    a.lead(1)
    a.write(2)
    b.copy_all(a)
    a.write(8)
    a.log.delete_before(6)
    b.copy_all(a)
    assert (b.log.start_offset, b.log.end_offset) == (6, 10)
    assert offsets(b.log) == [6, 7, 8, 9]


def test_a_log_start_inside_a_batch_is_adopted_by_the_follower(a: Replica, b: Replica) -> None:
    a.lead(1)
    a.write(1, records=5)
    a.log.delete_before(3)
    b.copy_all(a)
    assert (b.log.start_offset, b.log.end_offset) == (3, 5)
    assert batches(b)[0] == batches(a)[0]


# The high watermark ---------------------------------------------------------------------------------------------------


def test_the_high_watermark_follows_the_leader_up_to_the_local_log_end(a: Replica, b: Replica) -> None:
    a.lead(1)
    a.write(10)
    a.partition.refresh(0.0, 30.0)
    assert a.partition.high_watermark == 10
    copy = b.follow(a)
    copy.take(a.answer(copy, max_bytes=1), NOW)
    assert b.partition.high_watermark == b.log.end_offset == 1


def test_a_truncation_below_the_high_watermark_lowers_it(a: Replica, b: Replica) -> None:
    a.lead(1)
    a.write(10)
    a.partition.refresh(0.0, 30.0)
    b.copy_all(a)
    b.copy_all(a)
    assert b.partition.high_watermark == 10
    empty = Replica(3)
    empty.lead(2)
    b.copy_all(empty)
    assert b.partition.high_watermark == 0


# Faults ---------------------------------------------------------------------------------------------------------------


def test_damaged_records_are_refused_and_fetched_again(a: Replica, b: Replica) -> None:
    a.lead(1)
    a.write(3)
    copy = b.follow(a)
    answer = a.answer(copy)
    assert answer.records is not None
    damaged = bytearray(answer.records)
    damaged[-1] ^= 1
    answer.records = memoryview(damaged)
    assert copy.take(answer, NOW) is Next.BACK_OFF
    assert b.log.end_offset == 0
    assert copy.take(a.answer(copy), NOW) is Next.GO_ON
    assert batches(b) == batches(a)


def test_a_follower_with_a_full_disk_backs_off_and_continues_when_there_is_room(a: Replica, b: Replica) -> None:
    a.lead(1)
    a.write(3)
    copy = b.follow(a)
    b.fs.fail("pwritev", errno.ENOSPC, times=None)
    assert copy.take(a.answer(copy), NOW) is Next.BACK_OFF
    b.fs.heal()
    assert copy.take(a.answer(copy), NOW) is Next.GO_ON
    assert batches(b) == batches(a)


def test_back_offs_grow_to_a_bound(b: Replica, a: Replica) -> None:
    a.lead(1)
    copy = b.follow(a)
    pauses = [copy.next_back_off(1.0) for _ in range(10)]
    assert pauses[0] == 0.02
    assert pauses[-1] == 1.0
    assert pauses == sorted(pauses)


def test_back_offs_of_a_full_disk_grow_although_fetches_succeed(a: Replica, b: Replica) -> None:
    a.lead(1)
    a.write(3)
    copy = b.follow(a)
    b.fs.fail("pwritev", errno.ENOSPC, times=None)
    pauses = []
    for _ in range(10):
        assert copy.take(a.answer(copy), NOW) is Next.BACK_OFF
        pauses.append(copy.next_back_off(1.0))
    assert pauses[0] == 0.02
    assert pauses[-1] == 1.0
    b.fs.heal()
    assert copy.take(a.answer(copy), NOW) is Next.GO_ON
    assert copy.next_back_off(1.0) == 0.02


def test_a_topic_that_flushes_each_record_is_not_fetched_further_before_its_flush(a: Replica) -> None:
    b = Replica(2, LogConfig(flush_messages=1))
    a.lead(1)
    a.write(2)
    copy = b.follow(a)
    assert copy.take(a.answer(copy), NOW) is Next.FLUSH
    assert not copy.is_flushed
    job = b.log.flush_job()
    assert job is not None
    job.run()
    b.log.flush_done(job, NOW)
    assert copy.is_flushed
