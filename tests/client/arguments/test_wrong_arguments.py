"""Arguments of the wrong type or value: every call refuses them with a MoldauError, or accepts them.

No call may fail with an internal AttributeError or TypeError, and none may make the client unusable.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import moldau
from moldau import ConfigResource, NewTopic, OffsetAndMetadata, PreparedTransaction, aio
from moldau.client.admin import AbortSpec, Append, NewPartitions, ShiftBy, ToOffset, ToOffsets
from moldau.errors import ArgumentError, ConfigurationError, MoldauError
from tests.client.arguments.calls import (
    Call,
    Odd,
    admin_calls,
    consumer_calls,
    producer_calls,
    public_methods,
    with_wrong,
)

PRODUCER = {"max_block_ms": 200, "delivery_timeout_ms": 1_000, "linger_ms": 0, "request_timeout_ms": 1_000}
TABLES = {"Producer": producer_calls, "Consumer": consumer_calls, "Admin": admin_calls}
NAMES = [(kind, name) for kind, table in TABLES.items() for name in table("t")]


def settings(kind: str, topic: str) -> dict[str, Any]:
    if kind == "Producer":
        return PRODUCER
    if kind == "Consumer":
        return {"group_id": f"{topic}.group", "default_api_timeout_ms": 200, "enable_auto_commit": False}
    return {"default_api_timeout_ms": 200}


def error_fault(problem: BaseException) -> str | None:
    """What is wrong with an error that a call raised, or None."""
    return None if isinstance(problem, MoldauError) else f"{type(problem).__name__}: {problem}"


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("module", [moldau, aio])
def test_every_public_call_is_tried(module: Any, kind: str) -> None:
    assert public_methods(getattr(module, kind)) - {"start"} == set(TABLES[kind]("t"))


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_no_wrong_argument_ends_in_a_raw_error(bootstrap: str, topic: str, kind: str, name: str) -> None:
    found = []
    call = TABLES[kind](topic)[name]
    with open_client(kind, bootstrap, topic) as client:
        for what, wrong in with_wrong(call):
            try:
                getattr(client, name)(*wrong.many, **wrong.arguments)
            except Exception as error:  # noqa: BLE001 - all of them are judged
                if problem := error_fault(error):
                    found.append(f"{name}: {what}: {problem}")
        if name != "close":
            is_usable(kind, client, topic)
    assert not found, "\n" + "\n".join(found)


def open_client(kind: str, bootstrap: str, topic: str) -> Any:
    client = getattr(moldau, kind)(bootstrap_servers=bootstrap, **settings(kind, topic))
    if kind == "Consumer":
        client.assign([(topic, 0)])
    return client


def is_usable(kind: str, client: Any, topic: str) -> None:
    """Whether the client still works: a wrong call must not end one of its tasks."""
    if kind == "Admin":
        assert topic in client.describe_topics(topic, timeout=10)
    elif kind == "Producer":
        assert client.send(topic, b"still here").result(10).topic == topic
    else:
        assert len(client.partitions_for(topic, timeout=10)) == 1


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_no_wrong_argument_ends_in_a_raw_error_in_asyncio(bootstrap: str, topic: str, kind: str, name: str) -> None:
    async def scenario() -> list[str]:
        found = []
        call = TABLES[kind](topic)[name]
        client = getattr(aio, kind)(bootstrap_servers=bootstrap, **settings(kind, topic))
        async with client:
            if kind == "Consumer":
                await client.assign([(topic, 0)])
            for what, wrong in with_wrong(call):
                try:
                    outcome = getattr(client, name)(*wrong.many, **wrong.arguments)
                    if inspect.isawaitable(outcome):
                        await outcome
                except Exception as error:  # noqa: BLE001 - all of them are judged
                    if problem := error_fault(error):
                        found.append(f"{name}: {what}: {problem}")
        return found

    found = asyncio.run(scenario())
    assert not found, "\n" + "\n".join(found)


def test_no_wrong_argument_of_send_offsets_ends_in_a_raw_error(
    bootstrap: str, topic: str, unused_name: Callable[[], str]
) -> None:
    """The calls are made in a transaction, in which the offsets would be sent."""
    found = []
    call = producer_calls(topic)["send_offsets"]
    with moldau.Producer(bootstrap_servers=bootstrap, transactional_id=unused_name(), max_block_ms=10_000) as producer:
        producer.init_transactions()
        for what, wrong in with_wrong(call):
            producer.begin_transaction()
            if what.startswith("group is a text"):
                wrong = Call({**wrong.arguments, "group": unused_name()})
            try:
                if not what.startswith("offsets is a negative"):
                    producer.send_offsets(**wrong.arguments)
            except Exception as error:  # noqa: BLE001 - all of them are judged
                if problem := error_fault(error):
                    found.append(f"{what}: {problem}")
            producer.abort_transaction()
    assert not found, "\n" + "\n".join(found)


# Error messages -------------------------------------------------------------------------------------------------------


def test_names_of_topics_instead_of_partitions(bootstrap: str) -> None:
    with moldau.Consumer(bootstrap_servers=bootstrap) as consumer, pytest.raises(ArgumentError) as caught:
        consumer.assign(["orders"])
    assert str(caught.value) == (
        'partitions: expected TopicPartition objects, or pairs such as ("orders", 0) '
        "(for whole topics use `subscribe`), got ['orders'] (list)"
    )


def test_an_argument_error_is_pythons_type_error_and_value_error(bootstrap: str) -> None:
    with moldau.Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(TypeError, match=r"topic: expected a str, got 7 \(int\)"):
            producer.send(7, b"value")
        with pytest.raises(ValueError, match=r"partition: expected an int, got 'x' \(str\)"):
            producer.send("t", b"value", partition="x")
        with pytest.raises(ArgumentError, match="on_delivery: expected a function, or None"):
            producer.send("t", b"value", on_delivery="x")


# Constructors, arguments and results ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Producer", "Admin"])
@pytest.mark.parametrize("given", ["localhost:9092", ["localhost:9092"], 5, b"localhost:9092"])
@pytest.mark.parametrize("module", [moldau, aio])
def test_an_address_instead_of_settings(module: Any, kind: str, given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"such as bootstrap_servers='localhost:9092'; got"):
        getattr(module, kind)(given)


def test_a_consumer_takes_a_list_of_topics(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topics = [new_topic(), new_topic()]
    with moldau.Consumer(topics, bootstrap_servers=bootstrap, group_id=topics[0]) as consumer:
        assert consumer.subscription() == set(topics)
    with pytest.raises(ArgumentError, match="topics: expected a str, got 5"):
        moldau.Consumer([5], bootstrap_servers=bootstrap)


def test_a_listener_that_would_hear_nothing_is_refused(bootstrap: str) -> None:
    with pytest.raises(ArgumentError, match="listener: expected an object with on_partitions_assigned"):
        moldau.Consumer("t", bootstrap_servers=bootstrap, listener=print)
    with moldau.Consumer(bootstrap_servers=bootstrap) as consumer, pytest.raises(ArgumentError):
        consumer.subscribe("t", listener=Odd())


def nested(topic: str) -> dict[str, Callable[[Any], object]]:
    """Calls of an admin client with a wrong value inside an object of the public API."""
    partition, odd = (topic, 0), Odd()
    return {
        "NewTopic.name": lambda admin: admin.create_topics(NewTopic(odd)),
        "NewTopic.partitions": lambda admin: admin.create_topics(NewTopic("t", partitions="3")),
        "NewTopic.configs": lambda admin: admin.create_topics(NewTopic("t", configs=odd)),
        "NewTopic.assignments": lambda admin: admin.create_topics(NewTopic("t", assignments=[1])),
        "NewPartitions.total": lambda admin: admin.create_partitions({topic: NewPartitions(odd)}),
        "ConfigResource.name": lambda admin: admin.describe_configs(ConfigResource.topic(odd)),
        "ConfigResource.kind": lambda admin: admin.describe_configs(ConfigResource("topic", topic)),
        "Append.values": lambda admin: admin.alter_configs({ConfigResource.topic(topic): {"a": Append(odd)}}),
        "OffsetAndMetadata": lambda admin: admin.alter_group_offsets("g", {partition: OffsetAndMetadata(0, odd)}),
        "ToOffset": lambda admin: admin.reset_group_offsets("g", ToOffset("0"), topic),
        "ToOffsets": lambda admin: admin.reset_group_offsets("g", ToOffsets({topic: 0}), topic),
        "ShiftBy": lambda admin: admin.reset_group_offsets("g", ShiftBy(None), topic),
        "a rule's class": lambda admin: admin.reset_group_offsets("g", ToOffset, topic),
        "AbortSpec.partition": lambda admin: admin.abort_transaction(AbortSpec(topic, 1, 1, 1)),
        "AbortSpec.producer_epoch": lambda admin: admin.abort_transaction(AbortSpec(partition, 1, 1 << 40, 1)),
    }


@pytest.mark.parametrize("what", nested("t"))
def test_a_wrong_field_inside_an_argument_is_named(bootstrap: str, topic: str, what: str) -> None:
    with moldau.Admin(bootstrap_servers=bootstrap) as admin, pytest.raises(ArgumentError):
        nested(topic)[what](admin)


def test_wrong_arguments_of_futures(bootstrap: str, topic: str) -> None:
    with moldau.Producer(bootstrap_servers=bootstrap) as producer:
        for future in (producer.send(topic, b"v"), producer.send_batch(topic, pa.table({"value": ["v"]}))):
            for wrong in (
                lambda future=future: future.result("5"),
                lambda future=future: future.exception([]),
                lambda future=future: future.add_done_callback(5),
            ):
                with pytest.raises(ArgumentError):
                    wrong()
            future.result(10)


def test_wrong_prepared_transactions(bootstrap: str) -> None:
    for text in (5, None, "abc", "1:2"):
        with pytest.raises(ArgumentError):
            PreparedTransaction.parse(text)
    with moldau.Producer(bootstrap_servers=bootstrap) as producer, pytest.raises(ArgumentError, match="producer_id"):
        producer.complete_transaction(PreparedTransaction("id", "17", 0))
