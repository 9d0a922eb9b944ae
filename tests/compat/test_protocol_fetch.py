"""Fetch without sessions: whole batches, byte limits, waiting, and wrong offsets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.header import encode_request_header
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from moldau.wire.messages.fetch import FetchRequest, FetchRequestTopic, FetchResponse
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.compat import wire
from tests.compat.wire import fetch_partition
from tests.support.raw import RawConnection

FOREVER_MS = 60_000  # longer than a connection waits for an answer: an answered fetch was woken
SHORT_WAIT_MS = 300
READ_COMMITTED = 1


def send_fetch(connection: RawConnection, request: FetchRequest) -> None:
    connection.send(ApiKey.FETCH, wire.FETCH_VERSION, request.encode(wire.FETCH_VERSION))


def receive_fetch(connection: RawConnection) -> FetchResponse:
    response: FetchResponse = connection.receive(ApiKey.FETCH, wire.FETCH_VERSION, FetchResponse)
    return response


def values(answer: Any) -> list[bytes | None]:
    return [record.value for record in wire.records_in(answer.records)]


# Bytes ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def filled(raw: RawConnection, topic: str) -> str:
    """Four batches of two records: offsets 0-1, 2-3, 4-5, 6-7."""
    for number in range(4):
        wire.produced(raw, topic, b"%d first" % number, b"%d second" % number)
    return topic


@pytest.fixture
def batch_bytes(raw: RawConnection, filled: str) -> int:
    sizes = {header.size for header, _ in wire.stored_batches(raw, filled)}
    assert len(sizes) == 1
    return sizes.pop()


def test_a_fetch_from_inside_a_batch_returns_the_whole_batch(raw: RawConnection, filled: str) -> None:
    answer = wire.fetch_one(raw, filled, offset=5)
    assert [header.base_offset for header, _ in wire.batches_in(answer.records)] == [4, 6]


def test_the_first_batch_is_whole_with_any_limit(raw: RawConnection, filled: str, batch_bytes: int) -> None:
    for limit in (0, 1, batch_bytes - 1):
        answer = wire.fetch_one(raw, filled, offset=2, partition_max_bytes=limit)
        assert [header.base_offset for header, _ in wire.batches_in(answer.records)] == [2]
        answer = wire.fetch_one(raw, filled, offset=2, max_bytes=limit)
        assert [header.base_offset for header, _ in wire.batches_in(answer.records)] == [2]


def test_a_limit_ends_the_response_after_the_batches_that_fit(
    raw: RawConnection, filled: str, batch_bytes: int
) -> None:
    limit = 2 * batch_bytes + 10
    answer = wire.fetch_one(raw, filled, partition_max_bytes=limit)
    # The last batch may be incomplete; clients handle that.
    assert len(answer.records) <= limit
    assert [header.base_offset for header, _ in wire.batches_in(answer.records)] == [0, 2]


def test_the_limit_of_the_request_is_shared_by_its_partitions(
    raw: RawConnection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    for partition in (0, 1):
        wire.produced(raw, topic, b"x" * 1_000, partition=partition)
    response = wire.fetch(raw, topic, [fetch_partition(0), fetch_partition(1)], max_bytes=1)
    found = {answer.partition_index: len(answer.records) for answer in response.responses[0].partitions}
    assert found[0] > 1_000
    assert found[1] == 0


def test_a_reader_with_a_small_limit_gets_to_the_end(raw: RawConnection, filled: str) -> None:
    offset = 0
    found = []
    while offset < 8:
        batches = list(wire.batches_in(wire.fetch_one(raw, filled, offset, max_bytes=1).records))
        found += [header.base_offset for header, _ in batches]
        offset = batches[-1][0].last_offset + 1
    assert found == [0, 2, 4, 6]


def test_many_partitions_of_many_topics_come_in_one_answer(raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topics = [new_topic(partitions=3) for _ in range(2)]
    for topic in topics:
        for partition in range(3):
            wire.produced(raw, topic, f"{topic} {partition}".encode(), partition=partition)
    wanted = [
        FetchRequestTopic(topic=topic, partitions=[fetch_partition(index) for index in range(3)]) for topic in topics
    ]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=wire.MEGABYTE, topics=wanted)
    response = wire.ask(raw, request, wire.FETCH_VERSION)
    found = {
        (topic.topic, answer.partition_index): values(answer)
        for topic in response.responses
        for answer in topic.partitions
    }
    assert found == {(topic, index): [f"{topic} {index}".encode()] for topic in topics for index in range(3)}


# Waiting --------------------------------------------------------------------------------------------------------------


def test_a_fetch_at_the_end_waits_and_then_returns_nothing(raw: RawConnection, filled: str) -> None:
    started = time.monotonic()
    answer = wire.fetch_one(raw, filled, offset=8, max_wait_ms=SHORT_WAIT_MS)
    waited = time.monotonic() - started
    # A loop computes timers from its cached time, which may be a few milliseconds old.
    assert waited >= 0.8 * SHORT_WAIT_MS / 1000
    assert (answer.error_code, answer.high_watermark, bytes(answer.records)) == (0, 8, b"")


def test_a_waiting_fetch_is_woken_by_a_produce(bootstrap: str, raw: RawConnection, topic: str) -> None:
    with RawConnection(bootstrap) as reader:
        send_fetch(reader, wire.fetch_request(topic, [fetch_partition()], max_wait_ms=FOREVER_MS))
        wire.produced(raw, topic, b"news")
        answer = wire.only_partition(receive_fetch(reader))
    assert values(answer) == [b"news"]
    assert answer.high_watermark == 1


def test_a_fetch_waits_for_min_bytes(bootstrap: str, raw: RawConnection, topic: str) -> None:
    with RawConnection(bootstrap) as reader:
        wanted = wire.fetch_request(topic, [fetch_partition()], max_wait_ms=FOREVER_MS, min_bytes=2_000)
        send_fetch(reader, wanted)
        for number in range(3):
            wire.produced(raw, topic, bytes([number]) * 900)
        answer = wire.only_partition(receive_fetch(reader))
    # Two batches are too few bytes. If one of them had woken the fetch, the third would not be in the answer.
    assert values(answer) == [bytes([number]) * 900 for number in range(3)]


def test_bytes_of_several_partitions_count_together(
    bootstrap: str, raw: RawConnection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    with RawConnection(bootstrap) as reader:
        wanted = wire.fetch_request(
            topic, [fetch_partition(0), fetch_partition(1)], max_wait_ms=FOREVER_MS, min_bytes=1_500
        )
        send_fetch(reader, wanted)
        for partition in (0, 1):
            wire.produced(raw, topic, b"x" * 1_000, partition=partition)
        (found,) = receive_fetch(reader).responses
    assert sorted(len(answer.records) > 1_000 for answer in found.partitions) == [True, True]


def test_many_readers_wait_for_the_same_record(bootstrap: str, raw: RawConnection, topic: str) -> None:
    readers = [RawConnection(bootstrap) for _ in range(20)]
    try:
        for reader in readers:
            send_fetch(reader, wire.fetch_request(topic, [fetch_partition()], max_wait_ms=FOREVER_MS))
        wire.produced(raw, topic, b"for all")
        assert [values(wire.only_partition(receive_fetch(reader))) for reader in readers] == [[b"for all"]] * 20
    finally:
        for reader in readers:
            reader.close()


@pytest.mark.parametrize("limits", [{"max_wait_ms": 0}, {"min_bytes": 0, "max_wait_ms": FOREVER_MS}])
def test_a_fetch_with_max_wait_zero_does_not_wait(limits: dict[str, int], raw: RawConnection, topic: str) -> None:
    answer = wire.fetch_one(raw, topic, **limits)
    assert (answer.error_code, bytes(answer.records)) == (0, b"")


def test_min_bytes_above_max_bytes_does_not_wait_for_ever(raw: RawConnection, filled: str) -> None:
    answer = wire.fetch_one(raw, filled, max_wait_ms=FOREVER_MS, min_bytes=1_000_000, max_bytes=100)
    assert values(answer)[0] == b"0 first"


def test_a_fetch_of_nothing_is_answered_at_once(raw: RawConnection) -> None:
    response = wire.fetch(raw, None, max_wait_ms=FOREVER_MS)
    assert (response.error_code, response.session_id, response.responses) == (0, 0, [])


def test_deleting_the_topic_wakes_its_readers(bootstrap: str, raw: RawConnection, topic: str) -> None:
    with RawConnection(bootstrap) as reader:
        # Both requests are sent in one write, so a server that answered the first has also read the second.
        fetch = wire.fetch_request(topic, [fetch_partition()], max_wait_ms=FOREVER_MS)
        frames = [
            encode_request_header(ApiKey.METADATA, 1, 1, "reader") + MetadataRequest(topics=[]).encode(1),
            encode_request_header(ApiKey.FETCH, wire.FETCH_VERSION, 2, "reader") + fetch.encode(wire.FETCH_VERSION),
        ]
        reader.socket.sendall(b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))
        reader.receive(ApiKey.METADATA, 1, MetadataResponse, 1)
        wire.ask(raw, DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=topic)], timeout_ms=10_000))
        answer = wire.only_partition(reader.receive(ApiKey.FETCH, wire.FETCH_VERSION, FetchResponse, 2))
    assert answer.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


# Offsets and epochs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [9, 1 << 40, -1, -5])
def test_an_offset_out_of_range_is_answered_at_once(offset: int, raw: RawConnection, filled: str) -> None:
    answer = wire.fetch_one(raw, filled, offset, max_wait_ms=FOREVER_MS)
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (-1, -1, -1)
    assert bytes(answer.records or b"") == b""


def test_one_offset_that_does_not_exist_ends_the_wait_of_all(raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    response = wire.fetch(raw, topic, [fetch_partition(0), fetch_partition(1, 99)], max_wait_ms=FOREVER_MS)
    codes = {answer.partition_index: answer.error_code for answer in response.responses[0].partitions}
    assert codes == {0: 0, 1: ErrorCode.OFFSET_OUT_OF_RANGE}


def test_an_unknown_partition_has_an_error_beside_a_known_one(raw: RawConnection, filled: str) -> None:
    response = wire.fetch(raw, filled, [fetch_partition(7), fetch_partition(0)])
    found = {answer.partition_index: answer for answer in response.responses[0].partitions}
    assert found[7].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(values(found[0])) == 8


def test_an_unknown_topic_has_an_error_by_name_and_by_id(raw: RawConnection, unused_name: Callable[[], str]) -> None:
    by_name = wire.fetch_one(raw, unused_name())
    by_id = wire.fetch_one(raw, b"nobody has this!")
    assert by_name.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_an_epoch_is_checked_where_it_is_given(raw: RawConnection, filled: str) -> None:
    epoch = wire.list_offset(raw, filled, wire.LATEST).leader_epoch

    def code(current: int) -> int:
        wanted = fetch_partition(0, current_leader_epoch=current)
        return wire.only_partition(wire.fetch(raw, filled, [wanted])).error_code

    assert code(epoch) == 0
    assert code(-1) == 0
    assert code(epoch + 1) == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_diverging_fetcher_gets_the_diverging_epoch(raw: RawConnection, filled: str) -> None:
    epoch = wire.list_offset(raw, filled, wire.LATEST).leader_epoch
    same = wire.only_partition(wire.fetch(raw, filled, [fetch_partition(0, 4, last_fetched_epoch=epoch)]))
    assert (same.error_code, len(values(same))) == (0, 4)
    # The fetcher claims records in this epoch beyond the end of the epoch.
    wanted = fetch_partition(0, 100, last_fetched_epoch=epoch)
    parted = wire.only_partition(wire.fetch(raw, filled, [wanted], max_wait_ms=FOREVER_MS))
    assert parted.error_code == 0
    assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (epoch, 8)
    assert values(parted) == []


def test_a_client_that_is_not_a_replica_is_not_served_as_one(raw: RawConnection, filled: str) -> None:
    response = wire.fetch(raw, filled, [fetch_partition()], replica_id=77, max_wait_ms=FOREVER_MS)
    assert wire.only_partition(response).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("isolation", "aborted"), [(0, None), (READ_COMMITTED, [])])
def test_isolation_decides_whether_aborted_transactions_are_listed(
    isolation: int, aborted: list[object] | None, raw: RawConnection, filled: str
) -> None:
    answer = wire.fetch_one(raw, filled, isolation_level=isolation)
    assert (answer.aborted_transactions, answer.last_stable_offset) == (aborted, 8)
    assert len(values(answer)) == 8
