"""Cluster APIs over raw connections: config resources, quorum, features, registrations.

Also run against Apache Kafka.
"""

from __future__ import annotations

import uuid

import pytest

from moldau.wire.errors import ErrorCode
from moldau.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
)
from moldau.wire.messages.list_config_resources import ListConfigResourcesRequest
from moldau.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from moldau.wire.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeatureUpdate,
    UpdateFeaturesResponse,
)
from tests.compat.test_protocol_configs import BROKER, GROUP, SET, TOPIC, broker_name, increment, replace
from tests.compat.wire import ask
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

CLIENT_METRICS = 16
UPGRADE, SAFE_DOWNGRADE = 1, 2


def listed(raw: RawConnection, *types: int, version: int = 1) -> dict[int, list[str]]:
    answer = ask(raw, ListConfigResourcesRequest(resource_types=list(types)), version)
    assert answer.error_code == 0
    found: dict[int, list[str]] = {}
    for one in answer.config_resources:
        found.setdefault(one.resource_type, []).append(one.resource_name)
    return found


def quorum(raw: RawConnection, topic: str, index: int = 0, version: int = 2) -> DescribeQuorumResponse:
    partition = DescribeQuorumRequestPartition(partition_index=index)
    wanted = DescribeQuorumRequestTopic(topic_name=topic, partitions=[partition])
    answer: DescribeQuorumResponse = ask(raw, DescribeQuorumRequest(topics=[wanted]), version)
    assert answer.error_code == 0
    return answer


def updated(
    raw: RawConnection, feature: str, level: int, kind: int = UPGRADE, version: int = 2
) -> UpdateFeaturesResponse:
    update = UpdateFeaturesRequestFeatureUpdate(feature=feature, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=[update], validate_only=version > 0)
    answer: UpdateFeaturesResponse = ask(raw, request, version)
    return answer


def test_config_resources_are_topics_brokers_and_groups_with_settings(raw: RawConnection, topic: str) -> None:
    group = f"group/{uuid.uuid4()}"
    assert topic in listed(raw, TOPIC)[TOPIC]
    assert listed(raw, BROKER) == {BROKER: [broker_name(raw)]}
    assert group not in listed(raw, GROUP).get(GROUP, [])
    assert increment(raw, GROUP, group, ("consumer.session.timeout.ms", SET, "50000")).error_code == 0
    try:
        wait_until(lambda: group in listed(raw, GROUP).get(GROUP, []))
        everything = listed(raw)
        assert topic in everything[TOPIC]
        assert group in everything[GROUP]
    finally:
        assert replace(raw, GROUP, group, {}).error_code == 0
    wait_until(lambda: group not in listed(raw, GROUP).get(GROUP, []))


def test_before_version_1_only_subscriptions_to_client_metrics_are_listed(raw: RawConnection, topic: str) -> None:
    assert listed(raw, version=0) == listed(raw, CLIENT_METRICS) == {}


def test_an_unknown_type_cannot_be_listed(raw: RawConnection) -> None:
    answer = ask(raw, ListConfigResourcesRequest(resource_types=[99]), 1)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_controller_leads_the_quorum(version: int, raw: RawConnection) -> None:
    answer = quorum(raw, "__cluster_metadata", version=version)
    ((partition,),) = [topic.partitions for topic in answer.topics]
    assert partition.error_code == 0
    assert str(partition.leader_id) == broker_name(raw)
    assert partition.leader_epoch >= 1
    assert [one.replica_id for one in partition.current_voters] == [partition.leader_id]
    assert [one.node_id for one in answer.nodes] == ([partition.leader_id] if version >= 2 else [])
    assert all(one.listeners for one in answer.nodes)


@pytest.mark.parametrize(("topic", "index"), [("other", 0), ("__cluster_metadata", 1)])
def test_only_the_metadata_partition_has_a_quorum(topic: str, index: int, raw: RawConnection) -> None:
    ((partition,),) = [one.partitions for one in quorum(raw, topic, index).topics]
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partition.error_message


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_feature_may_be_set_to_the_version_that_it_has(version: int, raw: RawConnection) -> None:
    answer = updated(raw, "group.version", 1, version=version)
    assert answer.error_code == 0
    assert [(one.feature, one.error_code) for one in answer.results] == ([("group.version", 0)] if version < 2 else [])


@pytest.mark.parametrize(
    ("feature", "level", "kind"),
    [("no.such.feature", 1, UPGRADE), ("group.version", 7, UPGRADE), ("group.version", 0, UPGRADE)],
    ids=["unknown", "too-new", "lower"],
)
def test_a_feature_version_that_is_not_there_is_refused(
    feature: str, level: int, kind: int, raw: RawConnection
) -> None:
    answer = updated(raw, feature, level, kind)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert feature in (answer.error_message or "")


def test_a_feature_cannot_be_lowered(raw: RawConnection, moldau_only: None) -> None:
    answer = updated(raw, "group.version", 0, SAFE_DOWNGRADE)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "cannot be lowered" in (answer.error_message or "")


def unregistered(raw: RawConnection, broker: int) -> UnregisterBrokerResponse:
    answer: UnregisterBrokerResponse = ask(raw, UnregisterBrokerRequest(broker_id=broker))
    return answer


def test_a_broker_that_is_not_registered_cannot_be_unregistered(raw: RawConnection) -> None:
    answer = unregistered(raw, 4711)
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert answer.error_message


def test_a_live_broker_is_not_unregistered(raw: RawConnection, moldau_only: None) -> None:
    answer = unregistered(raw, int(broker_name(raw)))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "alive" in (answer.error_message or "")
