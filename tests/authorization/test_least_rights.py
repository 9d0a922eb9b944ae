"""Least rights: what clients need for their work, and that they work with exactly that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer

from moldau import Consumer, Producer
from moldau.security.acls import AclRule
from moldau.testing import Broker, Security, allow

USER = "worker"
PASSWORD = "worker-secret"

UNHEARD = logging.getLogger(f"{__name__}.librdkafka")
UNHEARD.propagate = False
UNHEARD.addHandler(logging.NullHandler())

WRITER = (allow(USER, "write", topic="out"),)
READER = (allow(USER, "read", topic="in"), allow(USER, "read", group="workers"))
TRANSACTION = (*WRITER, allow(USER, "write", transactional_id="copy"))
OTHER_READER = (allow(USER, "read", topic="in"), allow(USER, "read", group="others"))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(security=Security(users={USER: PASSWORD})) as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic)
        with Producer(broker.client_settings("admin")) as producer:
            for number in range(3):
                producer.send("in", b"%d" % number).result()
        yield broker


def write(broker: Broker) -> None:
    with Producer(broker.client_settings(USER), max_block_ms=5_000, enable_idempotence=True) as producer:
        producer.send("out", b"v").result()


def librdkafka_settings(broker: Broker) -> dict[str, str]:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD}
    return {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT", **login}


def write_with_librdkafka(broker: Broker) -> None:
    errors: list[object] = []
    settings = {"enable.idempotence": True, "message.timeout.ms": 5_000, "error_cb": errors.append, "logger": UNHEARD}
    producer = ConfluentProducer({**librdkafka_settings(broker), **settings})
    producer.produce("out", b"v", on_delivery=lambda error, _: errors.append(error))
    producer.flush(10)
    if not errors or any(error is not None for error in errors):
        raise PermissionError(", ".join(map(str, errors)))


def read(broker: Broker) -> None:
    settings = broker.client_settings(USER)
    with Consumer(settings, group_id="workers", auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.subscribe(["in"])
        found = []
        while len(found) < 3:
            found += consumer.poll(5.0)
        consumer.commit()


def read_with_librdkafka(broker: Broker) -> None:
    settings = {"logger": UNHEARD, "group.id": "others", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = ConfluentConsumer({**librdkafka_settings(broker), **settings})
    try:
        consumer.subscribe(["in"])
        message = consumer.poll(15)
        if message is None or message.error() is not None:
            raise PermissionError(None if message is None else message.error())
    finally:
        consumer.close()


def write_in_a_transaction(broker: Broker) -> None:
    settings = broker.client_settings(USER)
    with Producer(settings, max_block_ms=5_000, transactional_id="copy") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("out", b"v")


WORK = [
    (write, WRITER),
    (write_with_librdkafka, WRITER),
    (read, READER),
    (read_with_librdkafka, OTHER_READER),
    (write_in_a_transaction, TRANSACTION),
]


@pytest.mark.parametrize(("work", "rules"), WORK, ids=[work.__name__ for work, _ in WORK])
def test_the_rules_are_enough_and_none_can_be_spared(
    broker: Broker, work: Callable[[Broker], None], rules: tuple[AclRule, ...]
) -> None:
    broker.add_rules(*rules)
    try:
        work(broker)
        for rule in rules:
            broker.remove_rules(rule)
            with pytest.raises(Exception, match=r"(?i)authori[sz]ation"):
                work(broker)
            broker.add_rules(rule)
    finally:
        broker.remove_rules(*rules)
