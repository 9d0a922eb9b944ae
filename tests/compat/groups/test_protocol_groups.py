"""Group APIs in each version, over raw connections."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from moldau.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from moldau.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember, LeaveGroupResponse
from moldau.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from moldau.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from moldau.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.support.raw import RawConnection

E = ErrorCode
RETRIES = 200
TRANSIENT = {E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR}


def versions(api: ApiKey) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", range(APIS[api].min_version, APIS[api].max_version + 1))


@pytest.fixture
def group(raw: RawConnection) -> str:
    """The name of a group that no other test uses, with a ready coordinator."""
    name = f"group-{uuid.uuid4().hex[:12]}"
    for _ in range(RETRIES):
        found = raw.call(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key=name), FindCoordinatorResponse)
        if found.error_code == E.NONE and _describe(raw, name).error_code not in TRANSIENT:
            return name
    raise AssertionError("no coordinator")


def _describe(raw: RawConnection, group: str, version: int = 5) -> Any:
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=version >= 3)
    return raw.call(ApiKey.DESCRIBE_GROUPS, version, request, DescribeGroupsResponse).groups[0]


def join(raw: RawConnection, group: str, version: int, member: str = "", instance: str | None = None) -> Any:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member,
        group_instance_id=instance if version >= 5 else None,
        protocol_type="test",
        protocols=[JoinGroupRequestProtocol(name="only", metadata=b"about me")],
    )
    return raw.call(ApiKey.JOIN_GROUP, version, request, JoinGroupResponse)


def joined(raw: RawConnection, group: str, version: int = 3) -> Any:
    response = join(raw, group, version)
    if response.error_code == E.MEMBER_ID_REQUIRED:
        response = join(raw, group, version, response.member_id)
    assert response.error_code == E.NONE
    return response


def synced(raw: RawConnection, group: str, version: int = 3) -> Any:
    member = joined(raw, group)
    request = SyncGroupRequest(
        group_id=group,
        generation_id=member.generation_id,
        member_id=member.member_id,
        protocol_type="test" if version >= 5 else None,
        protocol_name="only" if version >= 5 else None,
        assignments=[SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"yours")],
    )
    response = raw.call(ApiKey.SYNC_GROUP, version, request, SyncGroupResponse)
    assert (response.error_code, response.assignment) == (E.NONE, b"yours")
    if version >= 5:
        assert (response.protocol_type, response.protocol_name) == ("test", "only")
    return member


def topic_id(raw: RawConnection, topic: str) -> bytes:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    found: bytes = raw.call(ApiKey.METADATA, 12, request, MetadataResponse).topics[0].topic_id
    return found


def commit(raw: RawConnection, group: str, topic: str, offset: int, version: int = 8) -> E:
    by_id = version >= 10
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name="" if by_id else topic,
                topic_id=topic_id(raw, topic) if by_id else bytes(16),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset, committed_leader_epoch=0, committed_metadata="note"
                    )
                ],
            )
        ],
    )
    response = raw.call(ApiKey.OFFSET_COMMIT, version, request, OffsetCommitResponse)
    (answer,) = response.topics
    if by_id:
        assert answer.topic_id == topic_id(raw, topic)
    else:
        assert answer.name == topic
    return E(answer.partitions[0].error_code)


def fetch(raw: RawConnection, group: str, topic: str, version: int = 8) -> Any:
    """The partition's entry in the form that every version shares."""
    by_id = version >= 10
    request = OffsetFetchRequest(
        group_id=group,
        topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])],
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                topics=[
                    OffsetFetchRequestGroupTopic(
                        name="" if by_id else topic,
                        topic_id=topic_id(raw, topic) if by_id else bytes(16),
                        partition_indexes=[0],
                    )
                ],
            )
        ],
    )
    response = raw.call(ApiKey.OFFSET_FETCH, version, request, OffsetFetchResponse)
    told = response.groups[0] if version >= 8 else response
    assert told.error_code == E.NONE
    (found,) = told.topics
    return found.partitions[0]


@versions(ApiKey.FIND_COORDINATOR)
def test_a_coordinator_is_a_broker_with_an_address(version: int, raw: RawConnection, group: str) -> None:
    request = FindCoordinatorRequest(key=group, coordinator_keys=[group, group + "-too"])
    response = raw.call(ApiKey.FIND_COORDINATOR, version, request, FindCoordinatorResponse)
    answers = response.coordinators if version >= 4 else [response]
    assert {(one.error_code, one.port > 0, bool(one.host)) for one in answers} == {(E.NONE, True, True)}


@versions(ApiKey.JOIN_GROUP)
def test_join(version: int, raw: RawConnection, group: str) -> None:
    response = joined(raw, group, version)
    assert (response.generation_id, response.protocol_name) == (1, "only")
    assert response.leader == response.member_id
    assert [(one.member_id, one.metadata) for one in response.members] == [(response.member_id, b"about me")]
    if version >= 7:
        assert response.protocol_type == "test"


@versions(ApiKey.SYNC_GROUP)
def test_sync(version: int, raw: RawConnection, group: str) -> None:
    synced(raw, group, version)


@versions(ApiKey.HEARTBEAT)
def test_heartbeat(version: int, raw: RawConnection, group: str) -> None:
    member = synced(raw, group)
    codes = [
        raw.call(
            ApiKey.HEARTBEAT,
            version,
            HeartbeatRequest(group_id=group, generation_id=generation, member_id=name),
            HeartbeatResponse,
        ).error_code
        for generation, name in ((1, member.member_id), (9, member.member_id), (1, "nobody"))
    ]
    assert codes == [E.NONE, E.ILLEGAL_GENERATION, E.UNKNOWN_MEMBER_ID]


@versions(ApiKey.LEAVE_GROUP)
def test_leave(version: int, raw: RawConnection, group: str) -> None:
    member = synced(raw, group).member_id
    request = LeaveGroupRequest(group_id=group, member_id=member, members=[LeaveGroupRequestMember(member_id=member)])
    response = raw.call(ApiKey.LEAVE_GROUP, version, request, LeaveGroupResponse)
    assert response.error_code == E.NONE
    assert [one.error_code for one in response.members] == ([E.NONE] if version >= 3 else [])
    assert _describe(raw, group).group_state == "Empty"


@versions(ApiKey.OFFSET_COMMIT)
def test_commit(version: int, raw: RawConnection, group: str, topic: str) -> None:
    assert commit(raw, group, topic, 7, version) == E.NONE
    assert fetch(raw, group, topic).committed_offset == 7


@versions(ApiKey.OFFSET_FETCH)
def test_fetch(version: int, raw: RawConnection, group: str, topic: str) -> None:
    before = fetch(raw, group, topic, version)
    assert (before.committed_offset, before.error_code) == (-1, E.NONE)
    commit(raw, group, topic, 7)
    after = fetch(raw, group, topic, version)
    assert (after.committed_offset, after.metadata, after.error_code) == (7, "note", E.NONE)
    if version >= 5:
        assert after.committed_leader_epoch == 0


@pytest.mark.parametrize("version", range(2, APIS[ApiKey.OFFSET_FETCH].max_version + 1))
def test_fetch_all(version: int, raw: RawConnection, group: str, topic: str) -> None:
    commit(raw, group, topic, 7)
    request = OffsetFetchRequest(
        group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]
    )
    response = raw.call(ApiKey.OFFSET_FETCH, version, request, OffsetFetchResponse)
    (found,) = response.groups[0].topics if version >= 8 else response.topics
    assert [one.committed_offset for one in found.partitions] == [7]
    assert (found.topic_id == topic_id(raw, topic)) if version >= 10 else (found.name == topic)


def test_one_request_fetches_the_offsets_of_many_groups(raw: RawConnection, group: str, topic: str) -> None:
    commit(raw, group, topic, 7)
    wanted = OffsetFetchRequestGroupTopic(name=topic, partition_indexes=[0])
    names = [group, *(f"{group}-{number}" for number in range(20))]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=one, topics=[wanted]) for one in names])
    response = raw.call(ApiKey.OFFSET_FETCH, 9, request, OffsetFetchResponse)
    assert [one.group_id for one in response.groups] == names
    assert [one.topics[0].partitions[0].committed_offset for one in response.groups] == [7] + [-1] * 20


def test_offsets_of_topics_that_are_not_there_are_refused(raw: RawConnection, group: str) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    named = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="none", partitions=[partition])])
    response = raw.call(ApiKey.OFFSET_COMMIT, 8, named, OffsetCommitResponse)
    assert response.topics[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    unknown = OffsetCommitRequestTopic(topic_id=uuid.uuid4().bytes, partitions=[partition])
    response = raw.call(
        ApiKey.OFFSET_COMMIT, 10, OffsetCommitRequest(group_id=group, topics=[unknown]), OffsetCommitResponse
    )
    assert response.topics[0].partitions[0].error_code == E.UNKNOWN_TOPIC_ID


@versions(ApiKey.DESCRIBE_GROUPS)
def test_describe(version: int, raw: RawConnection, group: str) -> None:
    member = synced(raw, group)
    found = _describe(raw, group, version)
    assert (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "test", "only")
    (described,) = found.members
    assert (described.member_id, described.member_assignment) == (member.member_id, b"yours")
    assert (described.member_metadata, described.client_id) == (b"about me", "raw")
    missing = _describe(raw, "none-" + group, version)
    assert missing.group_state == "Dead"
    assert missing.error_code == (E.GROUP_ID_NOT_FOUND if version >= 6 else E.NONE)


@versions(ApiKey.LIST_GROUPS)
def test_list(version: int, raw: RawConnection, group: str) -> None:
    synced(raw, group)

    def listed(**filters: list[str]) -> dict[str, Any]:
        response = raw.call(ApiKey.LIST_GROUPS, version, ListGroupsRequest(**filters), ListGroupsResponse)
        assert response.error_code == E.NONE
        return {one.group_id: one for one in response.groups}

    found = listed()[group]
    assert found.protocol_type == "test"
    if version >= 4:
        assert found.group_state == "Stable"
        assert group not in listed(states_filter=["Empty"])
    if version >= 5:
        assert found.group_type.lower() == "classic"
        assert group not in listed(types_filter=["consumer"])


@versions(ApiKey.DELETE_GROUPS)
def test_delete(version: int, raw: RawConnection, group: str, topic: str) -> None:
    commit(raw, group, topic, 7)
    busy = group + "-busy"
    synced(raw, busy)
    request = DeleteGroupsRequest(groups_names=[group, busy, group + "-none"])
    response = raw.call(ApiKey.DELETE_GROUPS, version, request, DeleteGroupsResponse)
    codes = {one.group_id: one.error_code for one in response.results}
    assert codes == {group: E.NONE, busy: E.NON_EMPTY_GROUP, group + "-none": E.GROUP_ID_NOT_FOUND}
    assert fetch(raw, group, topic).committed_offset == -1


def test_offset_delete(raw: RawConnection, group: str, topic: str) -> None:
    commit(raw, group, topic, 7)
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])],
    )
    response = raw.call(ApiKey.OFFSET_DELETE, 0, request, OffsetDeleteResponse)
    assert (response.error_code, response.topics[0].partitions[0].error_code) == (E.NONE, E.NONE)
    assert fetch(raw, group, topic).committed_offset == -1


@versions(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def test_the_new_protocol(version: int, raw: RawConnection, group: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    member = str(uuid.uuid4())

    def heartbeat(epoch: int, **fields: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)
        return raw.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, request, ConsumerGroupHeartbeatResponse)

    answer = heartbeat(0, rebalance_timeout_ms=5_000, subscribed_topic_names=[topic], topic_partitions=[])
    assert answer.error_code == E.NONE, answer
    assert answer.heartbeat_interval_ms > 0
    for _ in range(RETRIES):
        if answer.assignment is not None and answer.assignment.topic_partitions:
            break
        answer = heartbeat(answer.member_epoch, topic_partitions=[])
    (assigned,) = answer.assignment.topic_partitions
    assert (assigned.topic_id, sorted(assigned.partitions)) == (topic_id(raw, topic), [0, 1, 2])
    described = raw.call(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        version,
        ConsumerGroupDescribeRequest(group_ids=[group, group + "-none"]),
        ConsumerGroupDescribeResponse,
    )
    found, missing = described.groups
    assert missing.error_code == E.GROUP_ID_NOT_FOUND
    assert [one.member_id for one in found.members] == [member]
    assert found.members[0].target_assignment.topic_partitions[0].topic_name == topic
    if version >= 1:
        assert found.members[0].member_type == 1
    assert heartbeat(-1).member_epoch == -1


def test_a_regular_expression_also_subscribes_to_internal_topics(raw: RawConnection, group: str) -> None:
    member = str(uuid.uuid4())

    def heartbeat(epoch: int, **fields: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)
        return raw.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request, ConsumerGroupHeartbeatResponse)

    answer = heartbeat(0, rebalance_timeout_ms=5_000, subscribed_topic_regex="__consumer_off.*", topic_partitions=[])
    for _ in range(RETRIES):
        assert answer.error_code == E.NONE, answer
        if answer.assignment is not None and answer.assignment.topic_partitions:
            break
        # Apache Kafka resolves the expression in the background and assigns in a later heartbeat.
        answer = heartbeat(answer.member_epoch, topic_partitions=[])
    assert answer.assignment is not None, "nothing was assigned"
    assert [one.topic_id for one in answer.assignment.topic_partitions] == [topic_id(raw, "__consumer_offsets")]
    assert heartbeat(-1).member_epoch == -1
