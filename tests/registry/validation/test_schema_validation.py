"""Schema validation on the broker: records without a schema that the registry has under their subject are refused."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import schema_registry as confluent_registry
from confluent_kafka.schema_registry.avro import AvroSerializer as ConfluentAvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau import Admin, Consumer, Producer
from moldau.client.admin.configs import ConfigResource
from moldau.errors import InvalidRecord
from moldau.records import BatchRecord, Codec, encode_batch
from moldau.schemas import AvroSerializer, RegistryClient
from moldau.schemas.schema import Schema, SchemaType
from moldau.schemas.serializers.schema_ids import header_value
from moldau.schemas.wire_format import KEY_ID_HEADER, VALUE_ID_HEADER, prefix
from moldau.service.login import hashed
from moldau.settings import SettingError
from moldau.testing import Broker, Registry
from moldau.testing.security import Security, allow
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.produce import ProduceResponse
from tests.compat import wire
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

VALUES = {"confluent.value.schema.validation": "true"}
STRATEGY = "io.confluent.kafka.serializers.subject."
ORDER = '{"type":"record","name":"shop.Order","fields":[{"name":"id","type":"int"}]}'
NewTopic = Callable[..., str]


@pytest.fixture(scope="module")
def shared_registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


@pytest.fixture(scope="module")
def shared_broker(shared_registry: Registry) -> Iterator[Broker]:
    settings = {
        "confluent.schema.registry.url": shared_registry.url,
        "confluent.missing.id.cache.ttl.sec": 0,
        "confluent.max.retries": 0,
    }
    with Broker(settings) as broker:
        yield broker


@pytest.fixture
def raw(shared_broker: Broker) -> Iterator[RawConnection]:
    with RawConnection(shared_broker.bootstrap_servers) as connection:
        yield connection


@pytest.fixture
def new_topic(shared_broker: Broker) -> NewTopic:
    def create(configs: dict[str, str] | None = None) -> str:
        name = f"topic-{next(_numbers)}"
        shared_broker.create_topic(name, 1, VALUES if configs is None else configs)
        return name

    return create


_numbers = itertools.count()


def with_id(schema_id: int, data: bytes = b"data") -> bytes:
    return prefix(schema_id) + data


def refused(connection: RawConnection, topic: str, batch: Any, version: int | None = None) -> dict[int, str]:
    """The messages of the records that were refused with INVALID_RECORD, by index. Nothing of the batch is stored."""
    end = wire.list_offset(connection, topic, wire.LATEST).offset
    answer = wire.produce(connection, topic, batch, version=version)
    assert answer.error_code == ErrorCode.INVALID_RECORD, answer
    assert "failed schema validation" in answer.error_message
    assert wire.list_offset(connection, topic, wire.LATEST).offset == end
    return {error.batch_index: error.batch_index_error_message for error in answer.record_errors}


# Values ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_records_with_a_registered_schema_and_tombstones_are_stored(
    codec: Codec, raw: RawConnection, new_topic: NewTopic, shared_registry: Registry
) -> None:
    topic = new_topic()
    schema_id = shared_registry.register(f"{topic}-value", ORDER)
    assert wire.produced(raw, topic, with_id(schema_id), None, with_id(schema_id, b""), codec=codec) == 0
    assert wire.stored_values(raw, topic) == [with_id(schema_id), None, with_id(schema_id, b"")]


def test_each_bad_record_is_named_with_its_reason(
    raw: RawConnection, new_topic: NewTopic, shared_registry: Registry
) -> None:
    topic = new_topic()
    good = shared_registry.register(f"{topic}-value", ORDER)
    other = shared_registry.register("other-value", '"bytes"')
    values = [with_id(good), b"", b"\x01\0\0\0\x01x", b"plain", with_id(9999), None, with_id(other), with_id(-1)]
    found = refused(raw, topic, wire.batch_of(*values))
    assert sorted(found) == [1, 2, 3, 4, 6, 7]
    assert "record 1: no schema id in the value: the value has 0 bytes" in found[1]
    assert "begins with byte 1" in found[2]
    assert "begins with byte 112" in found[3]
    assert found[4] == "record 4: the schema registry has no schema with id 9999"
    assert found[6] == f"record 6: the schema with id {other} is not registered under '{topic}-value'"
    assert "no schema with id -1" in found[7]
    # The same batch without them is stored.
    assert wire.produced(raw, topic, with_id(good), None) == 0


def test_topics_are_independent(raw: RawConnection, new_topic: NewTopic, shared_registry: Registry) -> None:
    checked, free = new_topic(), new_topic({})
    assert refused(raw, checked, wire.batch_of(b"x"))
    shared_registry.requests.clear()
    assert wire.produced(raw, free, b"x") == 0
    assert not shared_registry.requests


def test_the_setting_can_be_changed_while_the_topic_is_used(
    raw: RawConnection, shared_broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic({})
    assert wire.produced(raw, topic, b"x") == 0
    with Admin(bootstrap_servers=shared_broker.bootstrap_servers) as admin:
        admin.alter_configs({ConfigResource.topic(topic): {"moldau.value.schema.validation": "topic"}})
        assert refused(raw, topic, wire.batch_of(b"x"))
        admin.alter_configs({ConfigResource.topic(topic): {"moldau.value.schema.validation": "none"}})
    assert wire.produced(raw, topic, b"x") == 1


def test_an_old_client_gets_the_error_without_details(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert wire.produce(raw, topic, wire.batch_of(b"x"), version=7).error_code == ErrorCode.INVALID_RECORD


def test_known_ids_are_not_asked_for_again(raw: RawConnection, new_topic: NewTopic, shared_registry: Registry) -> None:
    topic = new_topic()
    schema_id = shared_registry.register(f"{topic}-value", ORDER)
    shared_registry.requests.clear()
    for _ in range(5):
        wire.produced(raw, topic, with_id(schema_id), with_id(schema_id))
    assert list(shared_registry.requests) == [("GET", f"/schemas/ids/{schema_id}/subjects")]


def test_requests_that_wait_keep_their_order(
    raw: RawConnection, new_topic: NewTopic, shared_registry: Registry
) -> None:
    topic = new_topic()
    ids = [shared_registry.register(f"{topic}-value", text) for text in ('"string"', '"bytes"')]
    version = wire.PRODUCE_VERSION
    values = [with_id(ids[number % 2], b"%d" % number) for number in range(20)]
    requests = [wire.produce_request(topic, [(0, wire.batch_of(value))]).encode(version) for value in values]
    sent = [raw.send(ApiKey.PRODUCE, version, request) for request in requests]
    answers = [raw.receive(ApiKey.PRODUCE, version, ProduceResponse, number) for number in sent]
    offsets = [answer.responses[0].partition_responses[0].base_offset for answer in answers]
    assert offsets == list(range(20))
    assert wire.stored_values(raw, topic) == values


def test_without_acknowledgement_good_records_are_stored_and_bad_ones_close_the_connection(
    shared_broker: Broker, raw: RawConnection, new_topic: NewTopic, shared_registry: Registry
) -> None:
    topic = new_topic()
    schema_id = shared_registry.register(f"{topic}-value", ORDER)
    version = wire.PRODUCE_VERSION
    with RawConnection(shared_broker.bootstrap_servers) as silent:
        for value in (with_id(schema_id), with_id(schema_id, b"2")):
            request = wire.produce_request(topic, [(0, wire.batch_of(value))], acks=0)
            silent.send(ApiKey.PRODUCE, version, request.encode(version))
        # The next answer is that of the next request: a produce with acks=0 has none.
        assert wire.list_offset(silent, topic, wire.LATEST).offset == 2
        bad = wire.produce_request(topic, [(0, wire.batch_of(with_id(9999)))], acks=0)
        silent.send(ApiKey.PRODUCE, version, bad.encode(version))
        assert silent.closed_by_peer()
    assert wire.stored_values(raw, topic) == [with_id(schema_id), with_id(schema_id, b"2")]


def test_a_request_for_several_partitions_is_judged_for_each(
    shared_broker: Broker, raw: RawConnection, shared_registry: Registry
) -> None:
    topic = f"topic-{next(_numbers)}"
    shared_broker.create_topic(topic, 3, VALUES)
    good = shared_registry.register(f"{topic}-value", ORDER)
    batches = [(0, wire.batch_of(b"x")), (1, wire.batch_of(with_id(good))), (2, wire.batch_of(with_id(9999)))]
    answer = wire.ask(raw, wire.produce_request(topic, batches), wire.PRODUCE_VERSION)
    codes = [partition.error_code for partition in answer.responses[0].partition_responses]
    assert codes == [ErrorCode.INVALID_RECORD, 0, ErrorCode.INVALID_RECORD]


def test_too_many_unknown_ids_are_asked_for_in_steps(
    raw: RawConnection, new_topic: NewTopic, shared_registry: Registry
) -> None:
    topic = new_topic()
    shared_registry.set_compatibility("NONE", f"{topic}-value")
    texts = [json.dumps({"type": "fixed", "name": f"F{number}", "size": 4}) for number in range(110)]
    ids = [shared_registry.register(f"{topic}-value", text) for text in texts]
    batch = wire.batch_of(*map(with_id, ids))
    answer = wire.produce(raw, topic, batch)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "100 unknown schema ids at a time" in answer.error_message
    assert wire.produce(raw, topic, batch).error_code == 0


# Keys, strategies, headers --------------------------------------------------------------------------------------------


def test_keys_are_validated_apart_from_values(
    raw: RawConnection, new_topic: NewTopic, shared_registry: Registry
) -> None:
    topic = new_topic({"confluent.key.schema.validation": "true"})
    key = shared_registry.register(f"{topic}-key", '"string"')
    now = wire.now_ms()

    def batch(*keys: bytes | None) -> Any:
        return encode_batch([BatchRecord(offset, now, one, b"any value") for offset, one in enumerate(keys)])

    assert wire.produce(raw, topic, batch(with_id(key), None)).error_code == 0
    found = refused(raw, topic, batch(with_id(key), b"plain", None))
    assert list(found) == [1]
    assert "no schema id in the key" in found[1]


@pytest.mark.parametrize(
    "settings",
    [
        {"moldau.value.schema.validation": "record"},
        {**VALUES, "confluent.value.subject.name.strategy": f"{STRATEGY}RecordNameStrategy"},
    ],
)
def test_the_record_name_may_be_the_subject(
    settings: dict[str, str], raw: RawConnection, new_topic: NewTopic, shared_registry: Registry
) -> None:
    topic = new_topic(settings)
    good = shared_registry.register("shop.Order", ORDER)
    elsewhere = shared_registry.register(f"{topic}-value", ORDER.replace("int", "long"))
    assert wire.produced(raw, topic, with_id(good)) == 0
    found = refused(raw, topic, wire.batch_of(with_id(elsewhere)))
    assert found[0] == f"record 0: the schema with id {elsewhere} is not registered under 'shop.Order'"


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        (Schema(ORDER), "shop.Order"),
        (Schema('{"title":"Invoice","type":"object"}', SchemaType.JSON), "Invoice"),
        (
            Schema('syntax = "proto3"; package p; message A { message In {} } message B {}', SchemaType.PROTOBUF),
            "p.A.In",
        ),
    ],
)
def test_topic_and_record_name_may_be_the_subject_for_every_type(
    schema: Schema, name: str, raw: RawConnection, new_topic: NewTopic, shared_registry: Registry
) -> None:
    topic = new_topic({"moldau.value.schema.validation": "topic-record"})
    other = shared_registry.register(f"{topic}-x", '"bytes"')
    good = shared_registry.register(f"{topic}-{name}", schema)
    assert wire.produced(raw, topic, with_id(good)) == 0
    assert refused(raw, topic, wire.batch_of(with_id(other)))


def test_ids_in_headers_count_instead_of_those_before_the_data(
    raw: RawConnection, new_topic: NewTopic, shared_registry: Registry
) -> None:
    topic = new_topic()
    with RegistryClient(shared_registry.url) as client:
        registered = client.register(f"{topic}-value", Schema(ORDER))
        elsewhere = client.register("elsewhere-value", Schema('"double"'))
    assert registered.guid
    headers = [
        [("other", b"1"), (VALUE_ID_HEADER, prefix(registered.id))],
        [(VALUE_ID_HEADER, header_value(registered)), (KEY_ID_HEADER, b"")],
        [(VALUE_ID_HEADER, header_value(elsewhere))],
        [(VALUE_ID_HEADER, b"\x01short")],
        [(VALUE_ID_HEADER, b"\x01" + bytes(16))],
        [("other", None)],
    ]
    now = wire.now_ms()

    def batch(*chosen: int) -> Any:
        return encode_batch(
            [BatchRecord(at, now, None, b"data", tuple(headers[index])) for at, index in enumerate(chosen)]
        )

    assert wire.produce(raw, topic, batch(0, 1)).error_code == 0
    found = refused(raw, topic, batch(0, 1, 2, 3, 4, 5))
    assert sorted(found) == [2, 3, 4, 5]
    assert "is not registered under" in found[2]
    assert "has neither a schema id nor a GUID" in found[3]
    assert "the schema registry has no schema with id 00000000-0000" in found[4]
    assert "no schema id in the value" in found[5]


def test_a_deleted_subject_no_longer_has_the_schema(
    raw: RawConnection, new_topic: NewTopic, shared_registry: Registry
) -> None:
    topic = new_topic()
    schema_id = shared_registry.register(f"{topic}-value", ORDER)
    with RegistryClient(shared_registry.url) as client:
        client.delete_subject(f"{topic}-value")
    assert refused(raw, topic, wire.batch_of(with_id(schema_id)))


# Clients --------------------------------------------------------------------------------------------------------------


def test_our_producer_sees_which_record_was_refused(
    shared_broker: Broker, shared_registry: Registry, new_topic: NewTopic
) -> None:
    topic = new_topic()
    with RegistryClient(shared_registry.url) as client:
        serializer = AvroSerializer(client, schema=ORDER)
        with Producer(bootstrap_servers=shared_broker.bootstrap_servers, linger_ms=50) as producer:
            good = producer.send(topic, serializer.serialize(topic, {"id": 1}))
            assert good.result(60).offset == 0
            bad = producer.send(topic, b"plain")
            with pytest.raises(InvalidRecord, match="no schema id in the value"):
                bad.result(60)
            # The producer is idempotent: the refused batch leaves no gap in its sequence numbers.
            assert producer.send(topic, serializer.serialize(topic, {"id": 2})).result(60).offset == 1


def _send_in_transaction(producer: Producer, topic: str, *values: bytes) -> None:
    with producer.transaction():
        for value in values:
            producer.send(topic, value).result(60)


def test_a_transaction_waits_for_schemas_too(
    shared_broker: Broker, shared_registry: Registry, new_topic: NewTopic, raw: RawConnection
) -> None:
    topic = new_topic()
    ids = [shared_registry.register(f"{topic}-value", text) for text in ('"string"', '"bytes"')]
    settings = {"bootstrap_servers": shared_broker.bootstrap_servers, "transactional_id": topic}
    with Producer(**settings) as producer:
        _send_in_transaction(producer, topic, *map(with_id, ids))
        with pytest.raises(InvalidRecord):
            _send_in_transaction(producer, topic, with_id(ids[0]), with_id(9999))
    with Consumer(bootstrap_servers=shared_broker.bootstrap_servers, isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        found: list[bytes | None] = []
        wait_until(lambda: found.extend(one.value for one in consumer.poll(1)) or len(found) >= 2, "both records")
    assert found == [with_id(schema_id) for schema_id in ids]
    # The record before the refused one is there, and belongs to the transaction that was aborted.
    assert wire.stored_values(raw, topic)[:2] == found
    assert with_id(9999) not in wire.stored_values(raw, topic)


def test_confluents_producer_and_serializer_pass_and_its_plain_bytes_do_not(
    shared_broker: Broker, shared_registry: Registry, new_topic: NewTopic
) -> None:
    topic = new_topic()
    with confluent_registry.SchemaRegistryClient({"url": shared_registry.url}) as client:
        serializer = ConfluentAvroSerializer(client, ORDER)
        value = serializer({"id": 1}, SerializationContext(topic, MessageField.VALUE))
    outcomes: list[Any] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": shared_broker.bootstrap_servers, "linger.ms": 0})
    for one in (value, b"plain", value):
        producer.produce(topic, one, on_delivery=lambda error, message: outcomes.append(error or message.offset()))
        assert producer.flush(60) == 0
    assert outcomes[0] == 0
    assert outcomes[1].name() == "INVALID_RECORD"
    assert outcomes[2] == 1


# The registry fails ---------------------------------------------------------------------------------------------------


def test_producers_retry_while_the_registry_does_not_answer(
    raw: RawConnection, new_topic: NewTopic, shared_registry: Registry
) -> None:
    topic = new_topic()
    schema_id = shared_registry.register(f"{topic}-value", ORDER)
    shared_registry.fail_next(503)
    answer = wire.produce(raw, topic, wire.batch_of(with_id(schema_id)))
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "were not validated" in answer.error_message
    assert not answer.record_errors
    assert wire.produced(raw, topic, with_id(schema_id)) == 0
    # What is certainly wrong is refused nevertheless.
    other = shared_registry.register(
        f"{topic}-value", ORDER.replace("id", "number").replace('"int"', '"int","default":0')
    )
    shared_registry.fail_next(503)
    assert list(refused(raw, topic, wire.batch_of(with_id(other), b"x"))) == [1]


def test_a_producer_outlives_an_absence_of_the_registry(registry: Registry) -> None:
    schema_id = registry.register("t-value", ORDER)
    settings = {"confluent.schema.registry.url": registry.url, "confluent.max.retries": 0}
    with Broker(settings) as broker:
        broker.create_topic("t", 1, VALUES)
        registry.close()
        with Producer(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=50) as producer:
            sent = producer.send("t", with_id(schema_id))
            with RawConnection(broker.bootstrap_servers) as raw:
                answer = wire.produce(raw, "t", wire.batch_of(with_id(schema_id)))
                assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
                assert "cannot be reached" in answer.error_message
            registry.start()
            assert sent.result(60).offset >= 0


def test_a_registry_that_hangs_delays_only_those_who_need_it() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()  # connections wait in its backlog for ever
        settings = {
            "confluent.schema.registry.url": f"http://127.0.0.1:{deaf.getsockname()[1]}",
            "confluent.max.retries": 0,
            "moldau.schema.registry.timeout.ms": 1000,
        }
        with Broker(settings) as broker:
            broker.create_topic("t", 1, VALUES)
            broker.create_topic("free")
            version = wire.PRODUCE_VERSION
            request = wire.produce_request("t", [(0, wire.batch_of(with_id(1)))]).encode(version)
            with RawConnection(broker.bootstrap_servers) as waits, RawConnection(broker.bootstrap_servers) as free:
                with RawConnection(broker.bootstrap_servers) as leaves:
                    leaves.send(ApiKey.PRODUCE, version, request)
                number = waits.send(ApiKey.PRODUCE, version, request)
                assert wire.produced(free, "free", b"x") == 0
                answer = waits.receive(ApiKey.PRODUCE, version, ProduceResponse, number)
                (partition,) = answer.responses[0].partition_responses
                assert partition.error_code == ErrorCode.REQUEST_TIMED_OUT
                assert "did not answer" in partition.error_message


def test_a_missing_id_is_refused_for_a_while_without_asking_again(registry: Registry) -> None:
    with Broker({"confluent.schema.registry.url": registry.url, "confluent.missing.id.cache.ttl.sec": 3600}) as broker:
        broker.create_topic("t", 1, VALUES)
        with RawConnection(broker.bootstrap_servers) as raw:
            for _ in range(3):
                assert refused(raw, "t", wire.batch_of(with_id(1)))
            assert list(registry.requests) == [("GET", "/schemas/ids/1/subjects")]


def test_without_a_registry_such_topics_refuse_all_records() -> None:
    with Broker() as broker:
        broker.create_topic("t", 1, VALUES)
        broker.create_topic("free")
        with RawConnection(broker.bootstrap_servers) as raw:
            answer = wire.produce(raw, "t", wire.batch_of(with_id(1), None))
            assert answer.error_code == ErrorCode.INVALID_CONFIG
            assert answer.error_message == (
                "t-0 asks for schema validation, and this broker has no confluent.schema.registry.url"
            )
            assert wire.produced(raw, "free", b"x") == 0


# Settings and security ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "message"),
    [("http://user:secret@127.0.0.1:1", "confluent.basic.auth.user.info"), ("ftp://127.0.0.1", "registry")],
)
def test_a_wrong_address_is_refused_at_the_start_and_shows_no_password(url: str, message: str) -> None:
    broker = Broker({"confluent.schema.registry.url": url})
    with pytest.raises(SettingError, match=message) as refusal:
        broker.start()
    broker.close()
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "configs",
    [
        {"confluent.value.schema.validation": "maybe"},
        {"confluent.value.subject.name.strategy": "org.example.Mine"},
        {"moldau.key.schema.validation": "always"},
    ],
)
def test_a_wrong_topic_setting_is_refused(configs: dict[str, str], shared_broker: Broker) -> None:
    with pytest.raises(Exception, match=next(iter(configs))):
        shared_broker.create_topic(f"topic-{next(_numbers)}", 1, configs)


def test_the_registry_is_not_asked_for_a_client_that_may_not_write(registry: Registry) -> None:
    security = Security(users={"writer": "w", "reader": "r"}, rules=[allow("writer", "write", topic="t")])
    with Broker({"confluent.schema.registry.url": registry.url}, security=security) as broker:
        broker.create_topic("t", 1, VALUES)
        with RawConnection(broker.bootstrap_servers).log_in("reader", "r", "SCRAM-SHA-256") as raw:
            answer = wire.produce(raw, "t", wire.batch_of(with_id(1)))
            assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert not registry.requests
        with RawConnection(broker.bootstrap_servers).log_in("writer", "w", "SCRAM-SHA-256") as raw:
            assert wire.produce(raw, "t", wire.batch_of(with_id(1))).error_code == ErrorCode.INVALID_RECORD


def test_the_broker_logs_in_at_the_registry(tmp_path: Any) -> None:
    users = tmp_path / "users"
    users.write_text(f"broker:{hashed('secret')}\n")
    users.chmod(0o600)
    with Registry(password_file=str(users)) as registry:
        schema_id = registry.register("t-value", ORDER)
        base = {"confluent.schema.registry.url": registry.url, "confluent.max.retries": 0}
        with Broker({**base, "confluent.basic.auth.user.info": "broker:secret"}) as broker:
            broker.create_topic("t", 1, VALUES)
            with RawConnection(broker.bootstrap_servers) as raw:
                assert wire.produced(raw, "t", with_id(schema_id)) == 0
        with Broker(base) as broker:
            broker.create_topic("t", 1, VALUES)
            with RawConnection(broker.bootstrap_servers) as raw:
                answer = wire.produce(raw, "t", wire.batch_of(with_id(schema_id)))
                assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_broker_that_does_not_validate_has_no_code_of_it_in_the_way() -> None:
    with Broker({"confluent.schema.registry.url": "http://127.0.0.1:1"}) as broker:
        broker.create_topic("free")
        with RawConnection(broker.bootstrap_servers) as raw:
            assert wire.produced(raw, "free", b"x") == 0
        served = broker._running().broker
        assert served.schema_validation is None
        broker.create_topic("checked", 1, VALUES)
        wait_until(lambda: served.schema_validation is not None, "the validation of a topic")
