"""confluent-kafka (current librdkafka): administration, offsets, and batches that only it creates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.compat import wire
from tests.compat.drivers import FETCH_WAIT_MS, TIMEOUT_S, ConfluentKafka, Message
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

CLIENT = ConfluentKafka()


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[Consumer]:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "never joined",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": FETCH_WAIT_MS,
    }
    consumer = Consumer(settings)
    yield consumer
    consumer.close()


def done(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(TIMEOUT_S) for future in futures.values()]


def code_of(futures: dict[Any, Any]) -> int:
    with pytest.raises(KafkaException) as caught:
        done(futures)
    code: int = caught.value.args[0].code()
    return code


# Topics ---------------------------------------------------------------------------------------------------------------


def test_topics_are_created_listed_grown_and_deleted(
    admin: AdminClient, raw: RawConnection, unused_name: Callable[[], str]
) -> None:
    name = unused_name()
    done(admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)]))
    wait_until(lambda: wire.is_served(raw, name, 2))
    assert sorted(admin.list_topics(timeout=TIMEOUT_S).topics[name].partitions) == [0, 1]
    done(admin.create_partitions([NewPartitions(name, 5)]))
    wait_until(lambda: wire.is_served(raw, name, 5))
    done(admin.delete_topics([name]))
    wait_until(lambda: name not in admin.list_topics(timeout=TIMEOUT_S).topics)


def test_topics_are_described_with_their_ids(admin: AdminClient, raw: RawConnection, topic: str) -> None:
    futures = admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True)
    (described,) = done(futures)
    assert described.name == topic
    assert not described.is_internal
    assert [partition.id for partition in described.partitions] == [0]
    assert described.partitions[0].leader.id == described.partitions[0].isr[0].id
    high, low = described.topic_id.get_most_significant_bits(), described.topic_id.get_least_significant_bits()
    mask = (1 << 64) - 1
    assert ((high & mask) << 64 | (low & mask)).to_bytes(16, "big") == wire.topic_id(raw, topic)
    assert len(described.authorized_operations) == 8


def test_the_cluster_is_described(admin: AdminClient, bootstrap: str) -> None:
    described = admin.describe_cluster(include_authorized_operations=True).result(TIMEOUT_S)
    assert f"{described.nodes[0].host}:{described.nodes[0].port}" == bootstrap
    assert described.controller.id == described.nodes[0].id
    assert described.cluster_id
    assert len(described.authorized_operations) == 7


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"num_partitions": 0}, KafkaError.INVALID_PARTITIONS),
        ({"replication_factor": 3}, KafkaError.INVALID_REPLICATION_FACTOR),
        ({"config": {"no.such.setting": "1"}}, KafkaError.INVALID_CONFIG),
        ({"config": {"retention.ms": "soon"}}, KafkaError.INVALID_CONFIG),
    ],
)
def test_an_impossible_topic_is_refused(
    wanted: dict[str, Any], code: int, admin: AdminClient, unused_name: Callable[[], str]
) -> None:
    topic = NewTopic(unused_name(), **{"num_partitions": 1, "replication_factor": 1, **wanted})
    # librdkafka itself refuses a request for zero partitions.
    assert code_of(admin.create_topics([topic])) in (code, KafkaError._INVALID_ARG)


def test_existing_and_missing_topics_are_reported(
    admin: AdminClient, topic: str, unused_name: Callable[[], str]
) -> None:
    assert code_of(admin.create_topics([NewTopic(topic, 1, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS
    assert code_of(admin.delete_topics([unused_name()])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert code_of(admin.create_partitions([NewPartitions(topic, 1)])) == KafkaError.INVALID_PARTITIONS


# Settings -------------------------------------------------------------------------------------------------------------


def settings_of(admin: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    (entries,) = done(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    found: dict[str, ConfigEntry] = entries
    return found


def test_settings_are_described_and_changed_one_by_one(admin: AdminClient, new_topic: Callable[..., str]) -> None:
    topic = new_topic(configs={"segment.bytes": "2000000"})
    before = settings_of(admin, topic)
    assert (before["segment.bytes"].value, before["segment.bytes"].is_default) == ("2000000", False)
    assert (before["retention.ms"].value, before["retention.ms"].is_default) == ("604800000", True)
    assert list(before["segment.bytes"].synonyms) == ["segment.bytes", "log.segment.bytes"]
    changes = [
        ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("segment.bytes", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    done(admin.incremental_alter_configs([resource]))
    wait_until(lambda: settings_of(admin, topic)["retention.ms"].value == "1000")
    after = settings_of(admin, topic)
    assert after["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert (after["segment.bytes"].value, after["segment.bytes"].is_default) == ("1073741824", True)
    assert after["cleanup.policy"].value == "delete,compact"


def test_a_broker_is_described(admin: AdminClient) -> None:
    broker = str(admin.describe_cluster().result(TIMEOUT_S).nodes[0].id)
    (entries,) = done(admin.describe_configs([ConfigResource(ResourceType.BROKER, broker)]))
    assert entries["node.id"].value == broker
    assert entries["node.id"].is_read_only
    assert not entries["log.retention.ms"].is_read_only


def test_a_bad_setting_is_refused(admin: AdminClient, topic: str, unused_name: Callable[[], str]) -> None:
    def change(name: str, key: str, value: str) -> dict[Any, Any]:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        futures: dict[Any, Any] = admin.incremental_alter_configs([resource])
        return futures

    assert code_of(change(topic, "retention.ms", "soon")) == KafkaError.INVALID_CONFIG
    assert code_of(change(topic, "no.such.setting", "1")) == KafkaError.INVALID_CONFIG
    assert code_of(change(unused_name(), "retention.ms", "1")) == KafkaError.UNKNOWN_TOPIC_OR_PART


# Offsets --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def timed(bootstrap: str, topic: str) -> str:
    times = [1_000, 3_000, 2_000, 3_000]
    CLIENT.produce(bootstrap, topic, [Message(b"key", b"value", (), time) for time in times])
    return topic


def test_offsets_are_found_by_time(consumer: Consumer, timed: str) -> None:
    def found(time: int) -> int:
        (answer,) = consumer.offsets_for_times([TopicPartition(timed, 0, time)], TIMEOUT_S)
        offset: int = answer.offset
        return offset

    assert [found(time) for time in (0, 1_000, 1_001, 3_000)] == [0, 0, 1, 1]
    assert found(3_001) == OFFSET_END


def test_the_ends_of_a_partition_are_known(consumer: Consumer, admin: AdminClient, timed: str) -> None:
    assert consumer.get_watermark_offsets(TopicPartition(timed, 0), TIMEOUT_S) == (0, 4)
    admin.delete_records([TopicPartition(timed, 0, 3)])[TopicPartition(timed, 0)].result(TIMEOUT_S)
    assert consumer.get_watermark_offsets(TopicPartition(timed, 0), TIMEOUT_S) == (3, 4)


def test_offsets_are_listed_by_spec(admin: AdminClient, timed: str) -> None:
    def listed(spec: OffsetSpec) -> tuple[int, int]:
        (answer,) = done(admin.list_offsets({TopicPartition(timed, 0): spec}))
        return answer.offset, answer.timestamp

    assert listed(OffsetSpec.earliest()) == (0, -1)
    assert listed(OffsetSpec.latest()) == (4, -1)
    assert listed(OffsetSpec.max_timestamp()) == (1, 3_000)
    assert listed(OffsetSpec.for_timestamp(1_500)) == (1, 3_000)
    committed = admin.list_offsets(
        {TopicPartition(timed, 0): OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED
    )
    assert done(committed)[0].offset == 4


def test_records_are_deleted_up_to_an_offset(admin: AdminClient, bootstrap: str, timed: str) -> None:
    place = TopicPartition(timed, 0, 2)
    (answer,) = done(admin.delete_records([place]))
    assert answer.low_watermark == 2
    assert code_of(admin.delete_records([TopicPartition(timed, 0, 99)])) == KafkaError.OFFSET_OUT_OF_RANGE
    assert code_of(admin.delete_records([TopicPartition(timed, 0, OFFSET_BEGINNING)])) in (
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._INVALID_ARG,
    )
    done(admin.delete_records([TopicPartition(timed, 0, OFFSET_END)]))
    assert CLIENT.consume(bootstrap, timed) == []


# Reading --------------------------------------------------------------------------------------------------------------


def test_a_reader_seeks_back_and_forth(consumer: Consumer, timed: str) -> None:
    consumer.assign([TopicPartition(timed, 0, 0)])
    for offset in (0, 3, 1, 2):
        consumer.seek(TopicPartition(timed, 0, offset))
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert (message.error(), message.offset()) == (None, offset)


def test_a_reader_inside_a_batch_gets_no_record_before_its_offset(consumer: Consumer, timed: str) -> None:
    consumer.assign([TopicPartition(timed, 0, 2)])
    assert [consumer.poll(TIMEOUT_S).offset() for _ in range(2)] == [2, 3]


def test_an_offset_out_of_range_is_reset(bootstrap: str, timed: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": "never joined", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(timed, 0, 1_000)])
        assert consumer.poll(TIMEOUT_S).offset() == 0
    finally:
        consumer.close()


def test_many_partitions_are_read_together(consumer: Consumer, bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=20)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": False})
    sent = {(number % 20, b"%d" % number) for number in range(400)}
    for partition, value in sent:
        producer.produce(topic, value=value, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(20)])
    found = set()
    while len(found) < len(sent):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        found.add((message.partition(), message.value()))
    assert found == sent


def test_delivery_reports_have_partition_and_offset(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": False, "acks": "all"})
    offsets: list[int] = []
    for number in range(50):
        producer.produce(
            topic, value=b"%d" % number, partition=0, on_delivery=lambda _, message: offsets.append(message.offset())
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert offsets == list(range(50))


def test_of_a_batch_for_a_compacted_topic_only_the_records_without_keys_are_reported_as_invalid(
    bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(configs={"cleanup.policy": "compact"})
    settings = {"bootstrap.servers": bootstrap, "batch.num.messages": 20, "linger.ms": 60_000}
    producer = Producer(settings)  # the twenty records are sent as one batch, when the last one is added
    errors: dict[int, int] = {}

    def report(error: KafkaError, message: Any) -> None:
        errors[int(message.value())] = error.code()

    def all_reported() -> bool:
        producer.poll(FETCH_WAIT_MS / 1000)
        return len(errors) == 20

    for number in range(20):
        key = None if number % 2 else b"key"
        producer.produce(topic, b"%d" % number, key, partition=0, on_delivery=report)
    wait_until(all_reported)
    invalid = [number for number, code in errors.items() if code == KafkaError.INVALID_RECORD]
    assert sorted(invalid) == list(range(1, 20, 2))
    assert {errors[number] for number in range(0, 20, 2)} == {KafkaError._INVALID_DIFFERENT_RECORD}


def test_without_acknowledgement_no_offset_is_reported(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": False, "acks": "0"})
    offsets: list[int | None] = []
    producer.produce(topic, b"value", partition=0, on_delivery=lambda _, message: offsets.append(message.offset()))
    assert producer.flush(TIMEOUT_S) == 0
    assert offsets in ([None], [OFFSET_INVALID], [0])
    assert [read.value for read in CLIENT.consume(bootstrap, topic, count=1)] == [b"value"]


def test_a_null_header_value_is_not_an_empty_one(bootstrap: str, topic: str) -> None:
    headers = (("null", None), ("empty", b""))
    CLIENT.produce(bootstrap, topic, [Message(b"key", b"value", headers)])
    (found,) = CLIENT.consume(bootstrap, topic)
    assert found.headers == headers
