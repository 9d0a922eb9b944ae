"""Real clients while they are throttled: they go on without an error, lose nothing, and end a little later."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from moldau import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.client.admin import QuotaEntity
from moldau.security.quota_entities import CONSUMER_BYTE_RATE, DEFAULT, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from tests.compat.drivers import DRIVERS, Driver, Message
from tests.system.quotas.worlds import World, world

RATE = 600_000
"""Bytes per second."""
MESSAGES = [Message(b"key %d" % number, (b"value %d " % number).ljust(1000, b"~")) for number in range(450)]
"""Three quarters of a second of that rate."""
LEAST_S = 0.4
"""No client may be faster: three quarters of a second, less what it may run ahead, less its last pause."""


@pytest.fixture(scope="module")
def here() -> Iterator[World]:
    with world() as one:
        yield one


def named(drivers: tuple[Driver, ...]) -> list[object]:
    marks = {"kcat": [pytest.mark.needs_kcat]}
    return [pytest.param(driver, id=driver.name, marks=marks.get(driver.name, ())) for driver in drivers]


@pytest.mark.parametrize("client", named(DRIVERS))
def test_a_throttled_client_writes_and_reads_everything(here: World, client: Driver) -> None:
    address, topic = here.broker.bootstrap_servers, here.topic(f"of-{client.name}")
    here.everyone(producer_byte_rate=RATE, consumer_byte_rate=RATE)
    before = here.throttled(PRODUCER_BYTE_RATE), here.throttled(CONSUMER_BYTE_RATE)
    client.produce(address, topic, MESSAGES)
    began = time.monotonic()
    found = client.consume(address, topic, count=len(MESSAGES))
    seconds = time.monotonic() - began
    assert [record.message for record in found] == MESSAGES
    assert here.throttled(PRODUCER_BYTE_RATE) > before[0]
    if here.throttled(CONSUMER_BYTE_RATE) > before[1] + 1:  # a client that wrote one batch reads it at once
        assert seconds >= LEAST_S


@pytest.mark.parametrize("client", named(DRIVERS))
def test_a_client_whose_requests_take_too_much_time_is_served_nevertheless(here: World, client: Driver) -> None:
    address, topic = here.broker.bootstrap_servers, here.topic(f"slow-{client.name}")
    here.everyone(request_percentage=0.1)
    before = here.throttled(REQUEST_PERCENTAGE)
    client.produce(address, topic, MESSAGES[:50])
    assert [record.message for record in client.consume(address, topic, count=50)] == MESSAGES[:50]
    assert here.throttled(REQUEST_PERCENTAGE) > before


def test_our_own_clients_obey_quotas_that_the_admin_client_sets(here: World) -> None:
    address, topic = here.broker.bootstrap_servers, here.topic("ours")
    everyone = QuotaEntity(user=DEFAULT)
    with Admin(bootstrap_servers=address) as admin:
        here.set({})
        admin.alter_client_quotas({everyone: {PRODUCER_BYTE_RATE: RATE, CONSUMER_BYTE_RATE: RATE}})
        try:
            began = time.monotonic()
            with Producer(bootstrap_servers=address, linger_ms=0, batch_size=16_384) as producer:
                sent = [producer.send(topic, one.value, key=one.key) for one in MESSAGES]
            assert [one.result().offset for one in sent] == list(range(len(MESSAGES)))
            assert time.monotonic() - began >= LEAST_S
            began = time.monotonic()
            with Consumer(bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
                consumer.assign([TopicPartition(topic, 0)])
                found: list[bytes | None] = []
                while len(found) < len(MESSAGES):
                    found += [record.value for record in consumer.poll(1.0)]
            assert found == [one.value for one in MESSAGES]
            assert time.monotonic() - began >= LEAST_S
        finally:
            admin.alter_client_quotas({everyone: {PRODUCER_BYTE_RATE: None, CONSUMER_BYTE_RATE: None}})


def test_our_admin_client_waits_until_its_quota_allows_more_topics(here: World) -> None:
    here.everyone(controller_mutation_rate=1)
    with Admin(bootstrap_servers=here.broker.bootstrap_servers) as admin:
        admin.create_topics(NewTopic("large", partitions=12))
        began = time.monotonic()
        admin.create_topics(NewTopic("small", partitions=1))
        assert time.monotonic() - began >= LEAST_S
    here.set({})
