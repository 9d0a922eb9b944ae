"""Elections and reassignments over raw connections, on a cluster of one broker: every version, every refusal.

Also run against Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
)
from moldau.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersRequestTopicPartitions
from moldau.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequestTopic,
)
from moldau.wire.messages.metadata import MetadataRequest
from tests.compat.wire import ask
from tests.support.raw import RawConnection

PREFERRED, UNCLEAN = 0, 1


def every_version(key: ApiKey) -> pytest.MarkDecorator:
    api = APIS[key]
    return pytest.mark.parametrize("version", range(api.min_version, api.max_version + 1))


def elected(raw: RawConnection, version: int, kind: int, *wanted: tuple[str, list[int]]) -> dict[tuple[str, int], int]:
    topics = [ElectLeadersRequestTopicPartitions(topic=topic, partitions=indexes) for topic, indexes in wanted]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=topics or None)
    response = ask(raw, request, version)
    assert response.error_code == 0
    return {
        (topic.topic, one.partition_id): one.error_code
        for topic in response.replica_election_results
        for one in topic.partition_result
    }


def reassigned(
    raw: RawConnection, version: int, topic: str, index: int, replicas: list[int] | None, **fields: bool
) -> int:
    partition = AlterPartitionReassignmentsRequestPartition(partition_index=index, replicas=replicas)
    wanted = AlterPartitionReassignmentsRequestTopic(name=topic, partitions=[partition])
    response = ask(raw, AlterPartitionReassignmentsRequest(topics=[wanted], **fields), version)
    assert response.error_code == 0
    ((answer,),) = [one.partitions for one in response.responses]
    assert (response.responses[0].name, answer.partition_index) == (topic, index)
    return int(answer.error_code)


def broker_id(raw: RawConnection) -> int:
    (broker,) = ask(raw, MetadataRequest(topics=[])).brokers
    return int(broker.node_id)


@every_version(ApiKey.ELECT_LEADERS)
def test_elections(version: int, raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    for kind in (PREFERRED, UNCLEAN) if version else (PREFERRED,):
        assert elected(raw, version, kind, (topic, [0, 1, 2])) == {
            (topic, 0): ErrorCode.ELECTION_NOT_NEEDED,
            (topic, 1): ErrorCode.ELECTION_NOT_NEEDED,
            (topic, 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
    assert elected(raw, version, PREFERRED, (f"no-{topic}", [0])) == {
        (f"no-{topic}", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    assert (topic, 0) not in elected(raw, version, PREFERRED), "partitions that need no election must be left out"


@every_version(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def test_reassignments_that_change_nothing_or_are_impossible(
    version: int, raw: RawConnection, new_topic: Callable[..., str]
) -> None:
    topic, me = new_topic(partitions=1), broker_id(raw)
    assert reassigned(raw, version, topic, 0, [me]) == ErrorCode.NONE
    assert reassigned(raw, version, topic, 0, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert reassigned(raw, version, topic, 5, [me]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reassigned(raw, version, f"no-{topic}", 0, [me]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for replicas in ([], [me, me], [-5], [me + 4711]):
        assert reassigned(raw, version, topic, 0, replicas) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_request_may_insist_on_the_number_of_replicas(raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topic, me = new_topic(partitions=1), broker_id(raw)
    assert reassigned(raw, 1, topic, 0, [me], allow_replication_factor_change=False) == ErrorCode.NONE


@every_version(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def test_only_ongoing_reassignments_are_listed(version: int, raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=1)
    some = ListPartitionReassignmentsRequestTopic(name=topic, partition_indexes=[0, 7])
    unknown = ListPartitionReassignmentsRequestTopic(name=f"no-{topic}", partition_indexes=[0])
    for topics in (None, [], [some], [some, unknown]):
        response = ask(raw, ListPartitionReassignmentsRequest(topics=topics), version)
        assert (response.error_code, response.topics) == (0, [])
