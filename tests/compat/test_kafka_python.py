"""kafka-python: administration and offsets."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.compat import wire
from tests.compat.drivers import FETCH_WAIT_MS, TIMEOUT_S, KafkaPython, Message
from tests.compat.kafka_python import (
    AlterConfigOp,
    ConfigResource,
    KafkaAdminClient,
    KafkaConsumer,
    OffsetSpec,
    TopicPartition,
    errors,
)
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

CLIENT = KafkaPython()


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[KafkaConsumer]:
    client = KafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=FETCH_WAIT_MS)
    yield client
    client.close(autocommit=False)


# Topics ---------------------------------------------------------------------------------------------------------------


def test_topics_are_created_listed_grown_and_deleted(
    admin: KafkaAdminClient, raw: RawConnection, unused_name: Callable[[], str]
) -> None:
    name = unused_name()
    wanted = {name: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "1000"}}}
    (created,) = admin.create_topics(wanted, wait_for_metadata=True)["topics"]
    assert (created["name"], created["error_code"], created["num_partitions"]) == (name, 0, 2)
    assert created["configs"]["retention.ms"]["value"] == "1000"
    assert name in admin.list_topics()
    admin.create_partitions({name: 3})
    wait_until(lambda: wire.is_served(raw, name, 3))
    (described,) = admin.describe_topics([name])
    assert sorted(partition["partition_index"] for partition in described["partitions"]) == [0, 1, 2]
    admin.delete_topics([name])
    wait_until(lambda: name not in admin.list_topics())


def test_a_topic_is_described_and_deleted_by_its_id(admin: KafkaAdminClient, raw: RawConnection, topic: str) -> None:
    topic_id = uuid.UUID(bytes=wire.topic_id(raw, topic))
    (described,) = admin.describe_topics([topic_id])
    assert (described["name"], described["topic_id"]) == (topic, str(topic_id)) or described["topic_id"] == topic_id
    (deleted,) = admin.delete_topics([topic_id])["topics"]
    assert deleted["name"] == topic


def test_partitions_are_described(admin: KafkaAdminClient, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    described = str(admin.describe_topic_partitions([topic]))
    assert topic in described


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"num_partitions": 0}, errors.InvalidPartitionsError),
        ({"replication_factor": 3}, errors.InvalidReplicationFactorError),
        ({"configs": {"no.such.setting": "1"}}, errors.InvalidConfigurationError),
        ({"assignments": {0: [77]}}, errors.InvalidReplicationAssignmentError),
    ],
)
def test_an_impossible_topic_is_refused(
    wanted: dict[str, Any], error: type[Exception], admin: KafkaAdminClient, unused_name: Callable[[], str]
) -> None:
    with pytest.raises(error):
        admin.create_topics({unused_name(): wanted})


def test_existing_and_missing_topics_are_reported(
    admin: KafkaAdminClient, topic: str, unused_name: Callable[[], str]
) -> None:
    with pytest.raises(errors.TopicAlreadyExistsError):
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.delete_topics([unused_name()])
    with pytest.raises(errors.InvalidPartitionsError):
        admin.create_partitions({topic: 1})


def test_the_cluster_and_its_directories_are_described(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    cluster = admin.describe_cluster()
    (broker,) = cluster["brokers"]
    assert f"{broker['host']}:{broker['port']}" == bootstrap
    assert topic in str(admin.describe_log_dirs())


# Settings -------------------------------------------------------------------------------------------------------------


def settings_of(admin: KafkaAdminClient, topic: str) -> dict[str, Any]:
    resource = ConfigResource("topic", topic)
    found: dict[str, Any] = admin.describe_configs([resource], config_filter="all")["topic"][topic]
    return found


@pytest.mark.parametrize("incremental", [True, False])
def test_settings_are_described_altered_and_reset(
    incremental: bool, admin: KafkaAdminClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(configs={"segment.bytes": "2000000"})
    assert settings_of(admin, topic)["segment.bytes"]["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    change = ConfigResource("topic", topic, {"retention.ms": "1000"})
    assert admin.alter_configs([change], incremental=incremental) == {"topic": {topic: "OK"}}
    wait_until(lambda: settings_of(admin, topic)["retention.ms"]["value"] == "1000")
    # The request replaces all settings; the client adds those that were set before.
    assert settings_of(admin, topic)["segment.bytes"]["value"] == "2000000"
    reset = ConfigResource("topic", topic, {"retention.ms": None})
    assert admin.reset_configs([reset], incremental=incremental) == {"topic": {topic: "OK"}}
    wait_until(lambda: settings_of(admin, topic)["retention.ms"]["value"] == "604800000")
    assert settings_of(admin, topic)["segment.bytes"]["value"] == "2000000"


def test_a_value_is_appended_to_a_list(admin: KafkaAdminClient, topic: str) -> None:
    change = ConfigResource("topic", topic, {"cleanup.policy": (AlterConfigOp.APPEND, "compact")})
    admin.alter_configs([change])
    wait_until(lambda: settings_of(admin, topic)["cleanup.policy"]["value"] == "delete,compact")


def test_a_bad_setting_is_refused(admin: KafkaAdminClient, topic: str) -> None:
    for key, value in (("retention.ms", "soon"), ("no.such.setting", "1")):
        change = ConfigResource("topic", topic, {key: value})
        outcome = admin.alter_configs([change], raise_on_unknown=False)["topic"][topic]
        assert outcome.startswith("[Error 40] InvalidConfig")


def test_a_broker_is_described(admin: KafkaAdminClient) -> None:
    broker = str(admin.describe_cluster()["brokers"][0]["broker_id"])
    found = admin.describe_configs([ConfigResource("broker", broker)], config_filter="all", include_synonyms=True)
    assert found["broker"][broker]["node.id"]["value"] == broker


# Offsets --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def timed(bootstrap: str, topic: str) -> str:
    times = [1_000, 3_000, 2_000, 3_000]
    CLIENT.produce(bootstrap, topic, [Message(b"key", b"value", (), time) for time in times])
    return topic


def test_offsets_are_found_by_time(consumer: KafkaConsumer, timed: str) -> None:
    place = TopicPartition(timed, 0)
    for asked, expected in ((0, (0, 1_000)), (1_001, (1, 3_000)), (3_000, (1, 3_000))):
        found = consumer.offsets_for_times({place: asked})[place]
        assert (found.offset, found.timestamp) == expected
    assert consumer.offsets_for_times({place: 3_001})[place] is None


def test_the_ends_of_a_partition_are_known(consumer: KafkaConsumer, admin: KafkaAdminClient, timed: str) -> None:
    place = TopicPartition(timed, 0)
    assert consumer.beginning_offsets([place]) == {place: 0}
    assert consumer.end_offsets([place]) == {place: 4}
    admin.delete_records({place: 3})
    assert consumer.beginning_offsets([place]) == {place: 3}


def test_offsets_are_listed_by_spec(admin: KafkaAdminClient, timed: str) -> None:
    place = TopicPartition(timed, 0)

    def listed(spec: Any) -> tuple[int, int]:
        found = admin.list_partition_offsets({place: spec})[place]
        return found.offset, found.timestamp

    assert listed(OffsetSpec.EARLIEST) == (0, -1)
    assert listed(OffsetSpec.LATEST) == (4, -1)
    assert listed(OffsetSpec.MAX_TIMESTAMP) == (1, 3_000)
    assert listed(1_500) == (1, 3_000)


def test_records_are_deleted_up_to_an_offset(admin: KafkaAdminClient, bootstrap: str, timed: str) -> None:
    place = TopicPartition(timed, 0)
    assert admin.delete_records({place: 2})[place]["low_watermark"] == 2
    with pytest.raises(errors.OffsetOutOfRangeError):
        admin.delete_records({place: 99})
    assert [read.offset for read in CLIENT.consume(bootstrap, timed, count=2)] == [2, 3]


# Reading --------------------------------------------------------------------------------------------------------------


def test_a_reader_seeks_back_and_forth(consumer: KafkaConsumer, timed: str) -> None:
    place = TopicPartition(timed, 0)
    consumer.assign([place])
    for offset in (0, 3, 1, 2):
        consumer.seek(place, offset)
        found = consumer.poll(TIMEOUT_S * 1_000, max_records=1)
        assert [record.offset for record in found[place]] == [offset]
    assert consumer.position(place) == 3


def test_topics_and_partitions_are_listed(consumer: KafkaConsumer, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    assert topic in consumer.topics()
    assert consumer.partitions_for_topic(topic) == {0, 1, 2}


# The cluster ----------------------------------------------------------------------------------------------------------


def test_the_admin_client_describes_quorum_features_and_config_resources(
    admin: KafkaAdminClient, raw: RawConnection, topic: str
) -> None:
    (broker,) = wire.metadata(raw, []).brokers
    found = admin.describe_metadata_quorum()
    ((partition,),) = [one["partitions"] for one in found["topics"]]
    assert (partition["leader_id"], partition["error"]) == (broker.node_id, None)
    assert [one["replica_id"] for one in partition["current_voters"]] == [broker.node_id]
    features = admin.describe_features()
    assert features["group.version"]["finalized"] == (1, 1)
    assert admin.update_features({"group.version": 1}, validate_only=True) == {"group.version": "OK"}
    listed = admin.list_config_resources()
    assert listed["broker"] == [str(broker.node_id)]
    assert topic in listed["topic"]
