"""ListOffsets, DeleteRecords and OffsetForLeaderEpoch: log start and end, by time and by epoch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.records import BatchRecord, Codec, encode_batch
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponsePartition,
)
from moldau.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponsePartition,
)
from tests.compat import wire
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection

EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6


def delete_records(
    connection: RawConnection, topic: str, offset: int, *, partition: int = 0
) -> DeleteRecordsResponsePartition:
    wanted = DeleteRecordsRequestPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsRequestTopic(name=topic, partitions=[wanted])], timeout_ms=10_000
    )
    ((answer,),) = [found.partitions for found in wire.ask(connection, request).topics]
    return answer


@pytest.fixture
def timed(raw: RawConnection, topic: str) -> str:
    """Timestamps 1000 to 1050, then 3000, 2000, 3000: the largest appears twice, and offsets are not ordered by
    time."""
    times = [1_000, 1_010, 1_020, 1_030, 1_040, 1_050]
    first = encode_batch([BatchRecord(offset, time, b"key", b"value") for offset, time in enumerate(times)])
    assert wire.produce(raw, topic, first).error_code == 0
    second = [BatchRecord(offset, time, b"key", b"value") for offset, time in enumerate([3_000, 2_000, 3_000])]
    assert wire.produce(raw, topic, encode_batch(second, codec=Codec.LZ4)).error_code == 0
    return topic


# By time --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "offset", "timestamp"),
    [
        (0, 0, 1_000),
        (1_000, 0, 1_000),
        (1_001, 1, 1_010),
        (1_050, 5, 1_050),
        (1_051, 6, 3_000),
        (2_500, 6, 3_000),
        (3_000, 6, 3_000),
        (3_001, -1, -1),
        (1 << 50, -1, -1),
    ],
)
def test_the_first_record_at_or_after_a_time(
    asked: int, offset: int, timestamp: int, raw: RawConnection, timed: str
) -> None:
    answer = wire.list_offset(raw, timed, asked)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, timestamp)
    assert answer.leader_epoch == (-1 if offset < 0 else wire.list_offset(raw, timed, wire.LATEST).leader_epoch)


def test_the_largest_timestamp_is_that_of_the_first_record_to_have_it(raw: RawConnection, timed: str) -> None:
    answer = wire.list_offset(raw, timed, wire.MAX_TIMESTAMP)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, 6, 3_000)


def test_an_empty_partition_has_no_largest_timestamp(raw: RawConnection, topic: str) -> None:
    answer = wire.list_offset(raw, topic, wire.MAX_TIMESTAMP)
    assert (answer.error_code, answer.offset, answer.timestamp, answer.leader_epoch) == (0, -1, -1, -1)


def test_a_time_before_the_log_start_finds_the_log_start(raw: RawConnection, timed: str) -> None:
    assert delete_records(raw, timed, 3).low_watermark == 3
    answer = wire.list_offset(raw, timed, 1_000)
    assert (answer.offset, answer.timestamp) == (3, 1_030)


def test_an_empty_partition_begins_where_it_ends(raw: RawConnection, topic: str) -> None:
    for spec in (wire.EARLIEST, wire.LATEST, EARLIEST_LOCAL):
        answer = wire.list_offset(raw, topic, spec)
        assert (answer.error_code, answer.offset) == (0, 0)


def test_there_is_no_tiered_storage(raw: RawConnection, timed: str) -> None:
    assert wire.list_offset(raw, timed, EARLIEST_LOCAL).offset == 0
    for spec in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        answer = wire.list_offset(raw, timed, spec)
        assert (answer.error_code, answer.offset, answer.leader_epoch) == (0, -1, -1)


@pytest.mark.parametrize(("spec", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11), (-100, 11)])
def test_a_special_timestamp_that_the_version_does_not_have_is_refused(
    spec: int, version: int, raw: RawConnection, timed: str
) -> None:
    answer = wire.list_offset(raw, timed, spec, version=version)
    assert (answer.error_code, answer.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)


def test_unknown_partitions_and_wrong_epochs_are_errors(raw: RawConnection, timed: str) -> None:
    epoch = wire.list_offset(raw, timed, wire.LATEST).leader_epoch
    code = {
        "unknown": wire.list_offset(raw, timed, wire.LATEST, partition=9).error_code,
        "current": wire.list_offset(raw, timed, wire.LATEST, current_leader_epoch=epoch).error_code,
        "future": wire.list_offset(raw, timed, wire.LATEST, current_leader_epoch=epoch + 1).error_code,
    }
    assert code == {
        "unknown": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "current": 0,
        "future": ErrorCode.UNKNOWN_LEADER_EPOCH,
    }


def test_a_partition_named_twice_is_an_error(raw: RawConnection, timed: str) -> None:
    answers = wire.list_offsets_of(raw, timed, [(0, wire.LATEST), (0, wire.EARLIEST)])
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST]


def test_readers_of_committed_records_see_the_same_end(raw: RawConnection, timed: str) -> None:
    assert wire.list_offset(raw, timed, wire.LATEST, isolation_level=1).offset == 9


def test_times_are_found_in_a_log_of_many_batches(raw: RawConnection, topic: str) -> None:
    for number in range(300):
        wire.produced(raw, topic, b"x" * 200, timestamp=10_000 + 10 * number)
    for number in (0, 1, 57, 150, 298, 299):
        assert wire.list_offset(raw, topic, 10_000 + 10 * number).offset == number
        assert wire.list_offset(raw, topic, 10_000 + 10 * number - 9).offset == number
    assert wire.list_offset(raw, topic, wire.MAX_TIMESTAMP).offset == 299


def test_on_a_log_append_time_topic_the_brokers_time_is_searched(
    raw: RawConnection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(configs={"message.timestamp.type": "LogAppendTime"})
    before = wire.now_ms()
    wire.produced(raw, topic, b"one", b"two", timestamp=5)
    answer = wire.list_offset(raw, topic, before)
    assert (answer.offset, answer.timestamp >= before) == (0, True)
    assert wire.list_offset(raw, topic, 6).offset == 0


# Deleting -------------------------------------------------------------------------------------------------------------


def test_deleted_records_are_gone_for_readers(raw: RawConnection, timed: str) -> None:
    answer = delete_records(raw, timed, 4)
    assert (answer.error_code, answer.low_watermark) == (0, 4)
    assert wire.list_offset(raw, timed, wire.EARLIEST).offset == 4
    assert wire.fetch_one(raw, timed, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    found = wire.fetch_one(raw, timed, 4)
    # The whole batch is returned; the log start offset tells which records are deleted.
    assert (found.log_start_offset, wire.records_in(found.records)[0].offset) == (4, 0)


def test_deleting_deleted_records_again_changes_nothing(raw: RawConnection, timed: str) -> None:
    delete_records(raw, timed, 4)
    answer = delete_records(raw, timed, 2)
    assert (answer.error_code, answer.low_watermark) == (0, 4)


def test_all_records_can_be_deleted_and_writing_continues(raw: RawConnection, timed: str) -> None:
    answer = delete_records(raw, timed, -1)
    assert (answer.error_code, answer.low_watermark) == (0, 9)
    assert wire.list_offset(raw, timed, wire.EARLIEST).offset == 9
    assert wire.produced(raw, timed, b"after") == 9
    assert wire.stored_values(raw, timed) == [b"after"]


def test_deleted_records_have_no_largest_timestamp(raw: RawConnection, timed: str, moldau_only: None) -> None:
    """Apache Kafka still returns a record that was deleted."""
    delete_records(raw, timed, -1)
    assert wire.list_offset(raw, timed, wire.MAX_TIMESTAMP).offset == -1


@pytest.mark.parametrize("offset", [10, 1 << 40, -2])
def test_records_of_unknown_partitions_cannot_be_deleted(offset: int, raw: RawConnection, timed: str) -> None:
    answer = delete_records(raw, timed, offset)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_records_of_an_unknown_partition_cannot_be_deleted(raw: RawConnection, topic: str) -> None:
    answer = delete_records(raw, topic, 0, partition=5)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


@pytest.mark.parametrize(("policy", "code"), [("compact", ErrorCode.POLICY_VIOLATION), ("compact,delete", 0)])
def test_records_of_a_compacted_topic_cannot_be_deleted(
    policy: str, code: int, raw: RawConnection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(configs={"cleanup.policy": policy})
    wire.produced(raw, topic, b"one", b"two")
    assert delete_records(raw, topic, 1).error_code == code


# Epochs ---------------------------------------------------------------------------------------------------------------


def end_of_epoch(
    connection: RawConnection, topic: str, epoch: int, *, partition: int = 0, current: int = -1
) -> OffsetForLeaderEpochResponsePartition:
    asked = OffsetForLeaderEpochRequestPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    wanted = OffsetForLeaderEpochRequestTopic(topic=topic, partitions=[asked])
    ((answer,),) = [
        found.partitions
        for found in wire.ask(connection, OffsetForLeaderEpochRequest(replica_id=-1, topics=[wanted])).topics
    ]
    return answer


def test_an_epoch_ends_where_the_log_does_while_it_lasts(raw: RawConnection, timed: str) -> None:
    epoch = wire.list_offset(raw, timed, wire.LATEST).leader_epoch
    answer = end_of_epoch(raw, timed, epoch)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, epoch, 9)


@pytest.mark.parametrize("beyond", [1, 1_000])
def test_a_future_epoch_has_no_end(beyond: int, raw: RawConnection, timed: str) -> None:
    epoch = wire.list_offset(raw, timed, wire.LATEST).leader_epoch
    answer = end_of_epoch(raw, timed, epoch + beyond)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, -1, -1)


def test_a_request_for_an_epoch_must_have_the_current_leader_epoch(raw: RawConnection, timed: str) -> None:
    epoch = wire.list_offset(raw, timed, wire.LATEST).leader_epoch
    assert end_of_epoch(raw, timed, epoch, current=epoch).error_code == 0
    assert end_of_epoch(raw, timed, epoch, current=epoch + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert end_of_epoch(raw, timed, epoch, partition=8).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_empty_partition_has_an_epoch(raw: RawConnection, topic: str) -> None:
    """A consumer that waits at an empty log and validates its position must not see it as truncated."""
    epoch = wire.list_offset(raw, topic, wire.LATEST).leader_epoch
    assert wire.list_offset(raw, topic, wire.EARLIEST).leader_epoch == epoch
    answer = end_of_epoch(raw, topic, epoch)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, epoch, 0)
    same = wire.only_partition(wire.fetch(raw, topic, [wire.fetch_partition(0, 0, last_fetched_epoch=epoch)]))
    assert (same.error_code, same.diverging_epoch) == (0, None)
    beyond = wire.only_partition(wire.fetch(raw, topic, [wire.fetch_partition(0, 5, last_fetched_epoch=epoch)]))
    assert (beyond.diverging_epoch.epoch, beyond.diverging_epoch.end_offset) == (epoch, 0)


def test_an_epoch_is_known_from_its_beginning_not_from_its_first_record(broker: BrokerProcess) -> None:
    with RawConnection(broker.bootstrap) as raw:
        wire.create_topic(raw, "topic", 1, {})
        wire.produced(raw, "topic", b"one", b"two")
        first = wire.list_offset(raw, "topic", wire.LATEST).leader_epoch
    assert broker.stop() == 0
    broker.start()
    with RawConnection(broker.bootstrap) as raw:
        second = wire.list_offset(raw, "topic", wire.LATEST).leader_epoch
        assert second >= first
        for epoch in (first, second):
            answer = end_of_epoch(raw, "topic", epoch)
            assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, epoch, 2)
        wire.produced(raw, "topic", b"three")
        found = [(end_of_epoch(raw, "topic", epoch).end_offset) for epoch in (first, second)]
        assert found == ([2, 3] if second > first else [3, 3])
        headers = [header for header, _ in wire.stored_batches(raw, "topic")]
        assert [header.leader_epoch for header in headers] == [first, second]
