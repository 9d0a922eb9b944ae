"""Requests and decoded responses of the admin client, without a network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.admin import Append, GroupDescription, NewTopic, ProducerState, Subtract, TransactionDescription
from moldau.client.admin.configs import ConfigOp, ConfigSource, change_of
from moldau.client.admin.group_offsets import fetch_request, read_committed, read_fetched
from moldau.client.admin.groups import decode_assignment, read_classic_groups
from moldau.client.admin.replicas import read_elected, read_reassignments, reassign_request
from moldau.client.admin.topics import DescribedPages, create_request, topic_id_text
from moldau.client.admin.transactions import OpenTransaction, hanging, open_longer_than
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import GroupIdNotFound, GroupNotEmpty, MoldauError, PreferredLeaderNotAvailable
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.describe_groups import DescribeGroupsResponse, DescribeGroupsResponseGroup
from moldau.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from moldau.wire.messages.elect_leaders import (
    ElectLeadersResponse,
    ElectLeadersResponsePartition,
    ElectLeadersResponseTopic,
)
from moldau.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponsePartition,
    ListPartitionReassignmentsResponseTopic,
)
from moldau.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

ONE, TWO = TopicPartition("orders", 1), TopicPartition("orders", 2)


def page(topic: str, indexes: range, following: tuple[str, int] | None) -> DescribeTopicPartitionsResponse:
    partitions = [DescribeTopicPartitionsResponsePartition(partition_index=index, leader_id=1) for index in indexes]
    cursor = following and DescribeTopicPartitionsResponseCursor(topic_name=following[0], partition_index=following[1])
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(name=topic, partitions=partitions)], next_cursor=cursor
    )


def test_the_pages_of_a_topic_are_combined() -> None:
    pages = DescribedPages(["small", "large"])
    assert [topic.name for topic in pages.request().topics] == ["large", "small"]
    pages.add(page("large", range(2), ("large", 2)))
    request = pages.request()
    assert request.cursor is not None
    assert (request.cursor.topic_name, request.cursor.partition_index) == ("large", 2)
    pages.add(page("large", range(2, 5), ("small", 0)))
    assert [topic.name for topic in pages.request().topics] == ["small"]
    assert not pages.complete
    pages.add(page("small", range(1), None))
    assert pages.complete
    found = {
        name: len(topic.partitions) for name, topic in pages.answers().items() if not isinstance(topic, MoldauError)
    }
    assert found == {"large": 5, "small": 1}


def test_pages_without_progress_end() -> None:
    pages = DescribedPages(["large"])
    pages.add(page("large", range(2), ("large", 2)))
    with pytest.raises(MoldauError, match="repeats the same page"):
        pages.add(page("large", range(2), ("large", 2)))


def test_an_assignment_implies_the_numbers() -> None:
    (topic,) = create_request([NewTopic("a", 5, 3, assignments=[[1], [2]])], 1_000, False).topics
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    assert [(one.partition_index, one.broker_ids) for one in topic.assignments] == [(0, [1]), (1, [2])]


@pytest.mark.parametrize(
    ("change", "operation", "value"),
    [
        ("x", ConfigOp.SET, "x"),
        (5, ConfigOp.SET, "5"),
        (False, ConfigOp.SET, "false"),
        (None, ConfigOp.DELETE, None),
        (Append("a"), ConfigOp.APPEND, "a"),
        (Subtract("a"), ConfigOp.SUBTRACT, "a"),
    ],
)
def test_each_change_of_a_setting_is_encoded_as_its_operation(
    change: object, operation: ConfigOp, value: str | None
) -> None:
    config = change_of("name", change)  # type: ignore[arg-type]
    assert (config.config_operation, config.value) == (operation, value)


def test_a_source_of_a_newer_broker_is_unknown_and_no_error() -> None:
    assert ConfigSource(99) is ConfigSource.UNKNOWN


def test_a_dead_group_of_an_old_broker_is_not_found() -> None:
    response = DescribeGroupsResponse(groups=[DescribeGroupsResponseGroup(group_id="g", group_state="Dead")])
    assert isinstance(read_classic_groups(response)["g"], GroupIdNotFound)


def test_groups_of_other_protocols_are_described_without_their_assignments() -> None:
    group = DescribeGroupsResponseGroup(group_id="g", group_state="Stable", protocol_type="connect")
    found = read_classic_groups(DescribeGroupsResponse(groups=[group]))["g"]
    assert isinstance(found, GroupDescription)
    assert found.protocol_type == "connect"


@given(st.binary(max_size=60))
def test_any_bytes_decode_as_an_assignment_without_an_error(content: bytes) -> None:
    assert isinstance(decode_assignment(content), tuple)


@pytest.mark.parametrize("version", range(2, 10))
def test_offset_requests_are_built_in_every_version(version: int) -> None:
    for partitions in (None, [ONE, TWO]):
        sent = fetch_request("g", partitions, False)
        read = OffsetFetchRequest.decode(sent.encode(version), version)
        of_group = read.groups[0] if version >= 8 else read
        assert of_group.group_id == "g"
        assert (of_group.topics is None) == (partitions is None)
        assert [topic.partition_indexes for topic in of_group.topics or ()] == ([[1, 2]] if partitions else [])


def test_a_partition_without_a_commit_is_left_out() -> None:
    partitions = [
        OffsetFetchResponsePartition(partition_index=1, committed_offset=-1),
        OffsetFetchResponsePartition(partition_index=2, committed_offset=7, metadata=None),
    ]
    response = OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="orders", partitions=partitions)])
    assert read_fetched(response, "g") == {TWO: OffsetAndMetadata(7)}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS])
def test_the_error_of_a_commit_to_an_active_group_says_what_to_do(code: ErrorCode) -> None:
    partition = OffsetCommitResponsePartition(partition_index=1, error_code=code)
    response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[partition])])
    error = read_committed(response, "g")[ONE]
    assert isinstance(error, GroupNotEmpty)
    assert not error.retriable


def test_only_transactions_that_no_coordinator_ends_are_hanging() -> None:
    def producer(number: int, last: int = 0, start: int | None = 5) -> ProducerState:
        return ProducerState(number, 0, 0, last, 0, start)

    def transaction(number: int, *partitions: TopicPartition) -> TransactionDescription:
        return TransactionDescription(f"t{number}", 1, "Ongoing", number, 0, 60_000, 0, partitions)

    producers = {ONE: [producer(1), producer(2), producer(3, last=900), producer(4, start=None), producer(5)]}
    candidates = open_longer_than(producers, now_ms=1_000, max_ms=500)
    assert [one.producer.producer_id for one in candidates] == [1, 2, 5]
    known = {1: transaction(1, ONE), 2: transaction(2, TWO)}
    assert hanging(candidates, known) == [OpenTransaction(ONE, producer(2)), OpenTransaction(ONE, producer(5))]


def test_ids_look_as_kafka_shows_them() -> None:
    assert topic_id_text(bytes(range(16))) == "AAECAwQFBgcICQoLDA0ODw"
    assert topic_id_text(bytes(16)) == "-"


def test_an_election_that_was_not_needed_is_no_failure() -> None:
    codes = [ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    results = [
        ElectLeadersResponsePartition(partition_id=index, error_code=code, error_message=None)
        for index, code in enumerate(codes)
    ]
    topic = ElectLeadersResponseTopic(topic="orders", partition_result=results)
    found = read_elected(ElectLeadersResponse(replica_election_results=[topic]))
    assert found[TopicPartition("orders", 0)] is True
    assert found[ONE] is False
    assert isinstance(found[TWO], PreferredLeaderNotAvailable)


def test_a_reassignment_ends_with_those_that_are_not_removed() -> None:
    partition = ListPartitionReassignmentsResponsePartition(
        partition_index=1, replicas=[4, 1, 2], adding_replicas=[4], removing_replicas=[1]
    )
    topic = ListPartitionReassignmentsResponseTopic(name="orders", partitions=[partition])
    found = read_reassignments(ListPartitionReassignmentsResponse(topics=[topic]))
    assert found[ONE].target == (4, 2)


def test_a_null_list_of_replicas_cancels() -> None:
    request = reassign_request({ONE: [3, 4], TWO: None}, [TWO, ONE], 1_000, True)
    assert [(one.partition_index, one.replicas) for one in request.topics[0].partitions] == [(1, [3, 4]), (2, None)]
