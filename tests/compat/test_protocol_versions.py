"""Every version of every API, called once with a valid request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
)
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsRequestTopic
from moldau.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestConfig, CreateTopicsRequestTopic
from moldau.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from moldau.wire.messages.describe_cluster import DescribeClusterRequest
from moldau.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from moldau.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsRequestTopic
from moldau.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
)
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from moldau.wire.primitives import ZERO_UUID
from tests.compat import wire
from tests.compat.wire import ask
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

TOPIC_RESOURCE = 2
TOPIC_SOURCE = 1
SET = 0
ALL_TOPIC_OPERATIONS = 3576
ALL_CLUSTER_OPERATIONS = 8096
NOT_ASKED = -2147483648
FIRST_PRODUCE_VERSION = 3  # earlier versions are advertised, but cannot carry record batches
GONE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

SERVED = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
)


def every_version(key: ApiKey) -> pytest.MarkDecorator:
    api = APIS[key]
    return pytest.mark.parametrize("version", range(api.min_version, api.max_version + 1))


def advertised(connection: RawConnection, version: int) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="moldau-tests", client_software_version="1.0")
    response: ApiVersionsResponse = ask(connection, request, version)
    return response


@every_version(ApiKey.API_VERSIONS)
def test_api_versions(version: int, raw: RawConnection) -> None:
    response = advertised(raw, version)
    assert response.error_code == 0
    ranges = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
    assert list(ranges) == sorted(ranges)
    for key in SERVED:
        lowest = 0 if key == ApiKey.PRODUCE else APIS[key].min_version
        assert ranges[key] == (lowest, APIS[key].max_version), key.name


def test_nothing_is_advertised_that_the_definitions_do_not_know(raw: RawConnection, moldau_only: None) -> None:
    for entry in advertised(raw, 4).api_keys:
        api = APIS[ApiKey(entry.api_key)]
        assert entry.max_version <= api.max_version
        assert entry.min_version == (0 if api.key == ApiKey.PRODUCE else api.min_version)


@every_version(ApiKey.METADATA)
def test_metadata(version: int, raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    response = ask(raw, request, version)
    (broker,) = response.brokers
    assert f"{broker.host}:{broker.port}" == f"{raw.socket.getpeername()[0]}:{raw.socket.getpeername()[1]}"
    (found,) = response.topics
    assert (found.error_code, found.name) == (0, topic)
    assert sorted(partition.partition_index for partition in found.partitions) == [0, 1]
    for partition in found.partitions:
        assert partition.leader_id == broker.node_id
        assert partition.replica_nodes == partition.isr_nodes == [broker.node_id]
        assert partition.error_code == 0
    if version >= 1:
        assert response.controller_id == broker.node_id
    if version >= 2:
        assert response.cluster_id
    if version >= 8:
        assert found.topic_authorized_operations == ALL_TOPIC_OPERATIONS
    if 8 <= version <= 10:
        assert response.cluster_authorized_operations == ALL_CLUSTER_OPERATIONS
    if version >= 10:
        assert found.topic_id != ZERO_UUID
    if version >= 12:
        by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=found.topic_id)])
        assert [entry.name for entry in ask(raw, by_id, version).topics] == [topic]


@pytest.mark.parametrize("version", range(FIRST_PRODUCE_VERSION, APIS[ApiKey.PRODUCE].max_version + 1))
def test_produce(version: int, raw: RawConnection, topic: str) -> None:
    key = wire.topic_id(raw, topic) if version >= wire.TOPIC_IDS_FROM else topic
    for expected in (0, 2):
        answer = wire.produce(raw, key, wire.batch_of(b"one", b"two"), version=version)
        assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, expected, -1)
        if version >= 5:
            assert answer.log_start_offset == 0
    assert wire.stored_values(raw, topic) == [b"one", b"two"] * 2


@every_version(ApiKey.FETCH)
def test_fetch(version: int, raw: RawConnection, topic: str) -> None:
    key = wire.topic_id(raw, topic) if version >= wire.TOPIC_IDS_FROM else topic
    wire.produced(raw, topic, b"one", b"two")
    response = wire.fetch(raw, key, [wire.fetch_partition()], version=version)
    (found,) = response.responses
    assert (found.topic_id if version >= wire.TOPIC_IDS_FROM else found.topic) == key
    answer = wire.only_partition(response)
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 2, 2)
    assert [record.value for record in wire.records_in(answer.records)] == [b"one", b"two"]
    if version >= 5:
        assert answer.log_start_offset == 0
    if version >= 11:
        assert answer.preferred_read_replica == -1


@every_version(ApiKey.LIST_OFFSETS)
def test_list_offsets(version: int, raw: RawConnection, topic: str) -> None:
    wire.produced(raw, topic, b"one", b"two", timestamp=1_000)
    wire.produced(raw, topic, b"three", timestamp=2_000)
    latest = wire.list_offset(raw, topic, wire.LATEST, version=version)
    earliest = wire.list_offset(raw, topic, wire.EARLIEST, version=version)
    by_time = wire.list_offset(raw, topic, 1_500, version=version)
    assert (latest.error_code, latest.offset, latest.timestamp) == (0, 3, -1)
    assert (earliest.error_code, earliest.offset, earliest.timestamp) == (0, 0, -1)
    assert (by_time.error_code, by_time.offset, by_time.timestamp) == (0, 2, 2_000)
    if version >= 4:
        assert latest.leader_epoch == earliest.leader_epoch == by_time.leader_epoch >= 0


@every_version(ApiKey.CREATE_TOPICS)
def test_create_topics(version: int, raw: RawConnection, unused_name: Callable[[], str]) -> None:
    name = unused_name()
    wanted = CreateTopicsRequestTopic(
        name=name,
        num_partitions=3,
        replication_factor=1,
        configs=[CreateTopicsRequestConfig(name="retention.ms", value="86400000")],
    )
    (answer,) = ask(raw, CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), version).topics
    assert (answer.error_code, answer.name) == (0, name)
    if version >= 5:
        assert (answer.num_partitions, answer.replication_factor) == (3, 1)
        assert [entry.name for entry in answer.configs] == sorted(entry.name for entry in answer.configs)
        retention = next(entry for entry in answer.configs if entry.name == "retention.ms")
        assert (retention.value, retention.config_source) == ("86400000", TOPIC_SOURCE)
    wait_until(lambda: wire.is_served(raw, name, 3))
    if version >= 7:
        assert answer.topic_id == wire.topic_id(raw, name)


@every_version(ApiKey.DELETE_TOPICS)
def test_delete_topics(version: int, raw: RawConnection, new_topic: Callable[..., str]) -> None:
    by_name, by_id = new_topic(), new_topic()
    topic_id = wire.topic_id(raw, by_id)
    if version >= 6:
        topics = [DeleteTopicsRequestTopic(name=by_name), DeleteTopicsRequestTopic(topic_id=topic_id)]
        request = DeleteTopicsRequest(topics=topics, timeout_ms=10_000)
    else:
        request = DeleteTopicsRequest(topic_names=[by_name, by_id], timeout_ms=10_000)
    answers = ask(raw, request, version).responses
    assert sorted((answer.error_code, answer.name) for answer in answers) == [
        (0, name) for name in sorted([by_name, by_id])
    ]
    if version >= 6:
        assert topic_id in [answer.topic_id for answer in answers]
    for name in (by_name, by_id):
        wait_until(lambda name=name: wire.describe_topic(raw, name).error_code == GONE)


@every_version(ApiKey.CREATE_PARTITIONS)
def test_create_partitions(version: int, raw: RawConnection, topic: str) -> None:
    wanted = CreatePartitionsRequestTopic(name=topic, count=4, assignments=None)
    (answer,) = ask(raw, CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000), version).results
    assert (answer.error_code, answer.name) == (0, topic)
    wait_until(lambda: wire.is_served(raw, topic, 4))
    wire.produced(raw, topic, b"in a new one", partition=3)
    assert wire.stored_values(raw, topic, partition=3) == [b"in a new one"]


@every_version(ApiKey.DELETE_RECORDS)
def test_delete_records(version: int, raw: RawConnection, topic: str) -> None:
    wire.produced(raw, topic, b"one", b"two", b"three")
    wanted = DeleteRecordsRequestTopic(
        name=topic, partitions=[DeleteRecordsRequestPartition(partition_index=0, offset=2)]
    )
    (found,) = ask(raw, DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000), version).topics
    (answer,) = found.partitions
    assert (found.name, answer.error_code, answer.low_watermark) == (topic, 0, 2)
    assert wire.list_offset(raw, topic, wire.EARLIEST).offset == 2


@every_version(ApiKey.DESCRIBE_CONFIGS)
def test_describe_configs(version: int, raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(configs={"segment.bytes": "2000000"})
    wanted = DescribeConfigsRequestResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=["segment.bytes", "cleanup.policy"]
    )
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True, include_documentation=True)
    (answer,) = ask(raw, request, version).results
    assert (answer.error_code, answer.resource_type, answer.resource_name) == (0, TOPIC_RESOURCE, topic)
    configs = {entry.name: entry for entry in answer.configs}
    assert set(configs) == {"segment.bytes", "cleanup.policy"}
    segment = configs["segment.bytes"]
    assert (segment.value, segment.config_source, segment.is_sensitive) == ("2000000", TOPIC_SOURCE, False)
    assert [(synonym.name, synonym.source) for synonym in segment.synonyms] == [
        ("segment.bytes", 1),
        ("log.segment.bytes", 5),
    ]
    if version >= 3:
        assert segment.documentation
        assert (segment.config_type, configs["cleanup.policy"].config_type) == (3, 7)  # an int, a list


def value_of(raw: RawConnection, topic: str, name: str) -> str | None:
    wanted = DescribeConfigsRequestResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=[name]
    )
    (answer,) = ask(raw, DescribeConfigsRequest(resources=[wanted])).results
    (entry,) = answer.configs
    value: str | None = entry.value
    return value


@every_version(ApiKey.ALTER_CONFIGS)
def test_alter_configs(version: int, raw: RawConnection, topic: str) -> None:
    config = AlterConfigsRequestConfig(name="retention.ms", value="60000")
    wanted = AlterConfigsRequestResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config])
    (answer,) = ask(raw, AlterConfigsRequest(resources=[wanted]), version).responses
    assert (answer.error_code, answer.resource_type, answer.resource_name) == (0, TOPIC_RESOURCE, topic)
    wait_until(lambda: value_of(raw, topic, "retention.ms") == "60000")


@every_version(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def test_incremental_alter_configs(version: int, raw: RawConnection, topic: str) -> None:
    config = IncrementalAlterConfigsRequestConfig(name="retention.ms", config_operation=SET, value="70000")
    wanted = IncrementalAlterConfigsRequestResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config])
    (answer,) = ask(raw, IncrementalAlterConfigsRequest(resources=[wanted]), version).responses
    assert (answer.error_code, answer.resource_type, answer.resource_name) == (0, TOPIC_RESOURCE, topic)
    wait_until(lambda: value_of(raw, topic, "retention.ms") == "70000")


@every_version(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def test_offset_for_leader_epoch(version: int, raw: RawConnection, topic: str) -> None:
    wire.produced(raw, topic, b"one", b"two")
    epoch = wire.list_offset(raw, topic, wire.LATEST).leader_epoch
    asked = OffsetForLeaderEpochRequestPartition(partition=0, leader_epoch=epoch)
    wanted = OffsetForLeaderEpochRequestTopic(topic=topic, partitions=[asked])
    (found,) = ask(raw, OffsetForLeaderEpochRequest(replica_id=-1, topics=[wanted]), version).topics
    (answer,) = found.partitions
    assert (found.topic, answer.error_code, answer.leader_epoch, answer.end_offset) == (topic, 0, epoch, 2)


@every_version(ApiKey.DESCRIBE_CLUSTER)
def test_describe_cluster(version: int, raw: RawConnection) -> None:
    response = ask(raw, DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert response.error_code == 0
    (broker,) = response.brokers
    assert (broker.host, broker.port) == raw.socket.getpeername()
    assert response.controller_id == broker.broker_id
    assert response.cluster_authorized_operations == ALL_CLUSTER_OPERATIONS
    metadata = ask(raw, MetadataRequest(topics=[]))
    assert response.cluster_id == metadata.cluster_id
    if version >= 1:
        assert response.endpoint_type == 1
    silent = ask(raw, DescribeClusterRequest(), version)
    assert silent.cluster_authorized_operations == NOT_ASKED


@every_version(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def test_describe_topic_partitions(version: int, raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    request = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequestTopic(name=topic)])
    response = ask(raw, request, version)
    (found,) = response.topics
    assert (found.error_code, found.name, found.topic_id) == (0, topic, wire.topic_id(raw, topic))
    assert found.topic_authorized_operations == ALL_TOPIC_OPERATIONS
    assert [partition.partition_index for partition in found.partitions] == [0, 1]
    assert all(partition.isr_nodes == [partition.leader_id] for partition in found.partitions)
    assert response.next_cursor is None


@every_version(ApiKey.DESCRIBE_LOG_DIRS)
def test_describe_log_dirs(version: int, raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    wire.produced(raw, topic, b"x" * 1_000, partition=1)
    wanted = DescribeLogDirsRequestTopic(topic=topic, partitions=[0, 1, 7])
    response = ask(raw, DescribeLogDirsRequest(topics=[wanted]), version)
    (directory,) = response.results
    assert directory.error_code == 0
    assert directory.log_dir.startswith("/")
    (found,) = directory.topics
    sizes = {partition.partition_index: partition.partition_size for partition in found.partitions}
    ((header, _),) = wire.stored_batches(raw, topic, partition=1)
    assert (found.name, sizes) == (topic, {0: 0, 1: header.size})
    assert all(partition.offset_lag == 0 and not partition.is_future_key for partition in found.partitions)
    if version >= 4:
        assert directory.total_bytes >= directory.usable_bytes > 0
    if version >= 3:
        assert response.error_code == 0


@every_version(ApiKey.FIND_COORDINATOR)
def test_find_coordinator(version: int, raw: RawConnection) -> None:
    """The API must be served, whatever it returns: librdkafka uses lz4 only if it finds this API."""
    request = FindCoordinatorRequest(key="a group", coordinator_keys=["a group", "another"])
    response: FindCoordinatorResponse = ask(raw, request, version)
    answers = response.coordinators if version >= 4 else [response]
    assert [found.key for found in response.coordinators] == (["a group", "another"] if version >= 4 else [])
    for answer in answers:
        assert answer.error_code in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE)


@pytest.mark.parametrize("version", range(FIRST_PRODUCE_VERSION))
def test_produce_before_record_batches_is_refused_in_its_own_format(
    version: int, raw: RawConnection, topic: str, moldau_only: None
) -> None:
    """These versions are advertised so that an old librdkafka enables compression. The broker refuses all such
    requests."""
    body = old_produce_body(topic)
    raw.send(ApiKey.PRODUCE, version, body)
    frame = raw.receive_frame()
    # correlation id, one topic, its name, one partition, its index, then the error code
    at = 4 + 4 + 2 + len(topic.encode()) + 4 + 4
    assert int.from_bytes(frame[at : at + 2], "big", signed=True) == ErrorCode.INVALID_RECORD


def old_produce_body(topic: str) -> bytes:
    """acks, time-out, one topic, one partition, and an empty message set of format 0."""
    name = topic.encode()
    message = bytes(26)
    parts = [
        (1).to_bytes(2, "big"),
        (10_000).to_bytes(4, "big"),
        (1).to_bytes(4, "big"),
        len(name).to_bytes(2, "big") + name,
        (1).to_bytes(4, "big"),
        (0).to_bytes(4, "big"),
        len(message).to_bytes(4, "big") + message,
    ]
    return b"".join(parts)
