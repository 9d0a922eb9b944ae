"""Retry order: batches after a refused one are refused until that one is retried."""

from __future__ import annotations

import errno

import pytest

from moldau.cluster.image import PartitionState
from moldau.log.errors import LogError
from moldau.replication.partition import Partition
from moldau.replication.retry_order import EXPLAINS_MS, MAX_PRODUCERS
from moldau.testing.faulty_fs import FaultyFileSystem
from moldau.wire.errors import ErrorCode
from tests.unit.log.support import NOW, TOPIC_ID, batch, new_log

PRODUCER = 7


@pytest.fixture
def fs() -> FaultyFileSystem:
    return FaultyFileSystem()


@pytest.fixture
def partition(fs: FaultyFileSystem) -> Partition:
    return Partition("topic", TOPIC_ID, 0, new_log(fs), 0)


def lead(partition: Partition) -> None:
    partition.lead(1, PartitionState((1, 2), (1, 2), 1, 0, 0), 0.0)


def send(partition: Partition, sequence: int, epoch: int = 0, producer: int = PRODUCER, after_ms: int = 0) -> ErrorCode:
    """The answer to the sender of one record."""
    try:
        partition.append(batch(producer_id=producer, epoch=epoch, sequence=sequence), NOW + after_ms)
    except LogError as error:
        return error.code
    return ErrorCode.NONE


def refuse_the_second(partition: Partition) -> None:
    """Sequence 0 is stored; 1 was refused because another broker led, or seemed to."""
    lead(partition)
    assert send(partition, 0) == ErrorCode.NONE
    partition.follow(2, 1)
    assert send(partition, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    lead(partition)


def test_batches_after_one_that_met_a_full_disk_are_refused_until_it_is_retried(
    partition: Partition, fs: FaultyFileSystem
) -> None:
    lead(partition)
    assert send(partition, 0) == ErrorCode.NONE
    fs.fail("pwritev", errno.ENOSPC)
    assert send(partition, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    assert send(partition, 2) == ErrorCode.KAFKA_STORAGE_ERROR
    assert [send(partition, sequence) for sequence in (1, 2, 3)] == [ErrorCode.NONE] * 3
    assert partition.log.end_offset == 4


@pytest.mark.parametrize("known", [0, 1], ids=["a producer that is new here", "a producer that is known"])
def test_batches_after_one_refused_by_a_new_leader_are_refused_until_it_is_retried(
    partition: Partition, known: int
) -> None:
    if known:
        lead(partition)
        assert send(partition, 0) == ErrorCode.NONE
        partition.follow(2, 1)
    assert send(partition, known) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    lead(partition)
    assert send(partition, known + 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert send(partition, known) == ErrorCode.NONE
    assert send(partition, known + 1) == ErrorCode.NONE


def test_other_gaps_are_out_of_order_errors(partition: Partition) -> None:
    refuse_the_second(partition)
    assert send(partition, 1) == ErrorCode.NONE
    assert send(partition, 5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(partition, 5, producer=8) == ErrorCode.NONE, "no batch of this producer was refused"


def test_a_refused_batch_that_is_never_retried_is_forgotten(partition: Partition) -> None:
    refuse_the_second(partition)
    assert send(partition, 2, after_ms=EXPLAINS_MS + 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_of_the_producer_has_no_refused_batches(partition: Partition) -> None:
    refuse_the_second(partition)
    assert send(partition, 0, epoch=1) == ErrorCode.NONE
    assert send(partition, 2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(partition, 1, epoch=1) == ErrorCode.NONE


def test_the_number_of_remembered_refusals_is_limited(partition: Partition) -> None:
    for producer in range(MAX_PRODUCERS + 1):
        assert send(partition, 0, producer=producer) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    lead(partition)
    assert send(partition, 1, producer=0) == ErrorCode.NONE, "the oldest one must be forgotten"
    assert send(partition, 1, producer=1) == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("length", [-1, 0, 10], ids=str)
def test_malformed_batches_are_refused_by_the_log_also_after_a_refusal(partition: Partition, length: int) -> None:
    broken = batch(producer_id=PRODUCER, epoch=0, sequence=1)
    broken[8:12] = length.to_bytes(4, "big", signed=True)
    assert send(partition, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    for leads in (False, True):
        if leads:
            lead(partition)
        with pytest.raises(LogError) as refused:
            partition.append(broken, NOW)
        assert refused.value.code == (ErrorCode.CORRUPT_MESSAGE if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER)
