"""Transforms and the Kafka sink in the engine: from one cluster to another, with stops, errors and dead letters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau import Producer
from moldau.testing import Broker
from tests.connect.engine.conftest import Worker, all_records
from tests.support.waiting import wait_until

KAFKA = "org.apache.kafka.connect."
BYTES = KAFKA + "converters.ByteArrayConverter"


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


def produce(bootstrap: str, topic: str, values: list[bytes | None]) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, str(number).encode(), headers=[("n", str(number).encode())])
        producer.flush()


def texts(bootstrap: str, topic: str) -> list[bytes | None]:
    return [one.value for one in all_records(bootstrap, topic)]


def test_records_arrive_once_and_in_order_over_stops(
    worker: Worker, bootstrap: str, target: str, new_topic: Callable[..., str], unused_name: Callable[[], str]
) -> None:
    name, topic = unused_name(), new_topic(3)
    config = {
        "connector.class": "KafkaSink",
        "topics": topic,
        "tasks.max": "2",
        "target.bootstrap.servers": target,
        "target.topic.partitions": "3",
        "partition.mode": "keep",
        "key.converter": BYTES,
        "value.converter": BYTES,
        "header.converter": BYTES,
        "transforms": "gone,eu",
        "transforms.gone.type": KAFKA + "transforms.Filter",
        "transforms.gone.predicate": "tombstone",
        "transforms.eu.type": KAFKA + "transforms.RegexRouter",
        "transforms.eu.regex": "(.*)",
        "transforms.eu.replacement": "eu.$1",
        "predicates": "tombstone",
        "predicates.tombstone.type": KAFKA + "transforms.predicates.RecordIsTombstone",
    }
    sent: list[bytes | None] = []
    for step in range(3):
        values: list[bytes | None] = [None if n % 10 == 0 else b"%d:%d" % (step, n) for n in range(100)]
        sent += [one for one in values if one is not None]
        produce(bootstrap, topic, values)
        worker.engine.start(name, config)
        wait_until(lambda: worker.records(name) == 100, f"{worker.engine.state(name)}")
        worker.stop(name)
    found = all_records(target, f"eu.{topic}")
    given = [one for one in all_records(bootstrap, topic) if one.value is not None]

    def shown(one: Any) -> tuple[Any, ...]:
        return one.partition, one.key, one.value, one.timestamp, list(one.headers or ())

    by_partition = [
        [shown(one) for one in records if one.partition == index] for records in (found, given) for index in range(3)
    ]
    assert by_partition[:3] == by_partition[3:]
    assert sorted(one.value for one in found) == sorted(one for one in sent if one is not None)


def test_bad_records_of_a_transform_are_dead_letters_and_the_others_arrive(
    worker: Worker, bootstrap: str, target: str, new_topic: Callable[..., str], unused_name: Callable[[], str]
) -> None:
    name, topic, dead = unused_name(), new_topic(), new_topic()
    rows: list[dict[str, Any]] = [{"id": str(n), "secret": "x", "more": None} for n in range(50)]
    rows[7]["id"], rows[33]["id"] = "seven", "1e5"
    del rows[9]["secret"]
    produce(bootstrap, topic, [json.dumps(row).encode() for row in rows])
    config = {
        "connector.class": "KafkaSink",
        "topics": topic,
        "target.bootstrap.servers": target,
        "value.converter": KAFKA + "json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "key.converter": BYTES,
        "header.converter": BYTES,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        "transforms": "number,source,rename",
        "transforms.number.type": KAFKA + "transforms.Cast$Value",
        "transforms.number.spec": "id:int32",
        "transforms.source.type": KAFKA + "transforms.InsertField$Value",
        "transforms.source.offset.field": "at",
        "transforms.rename.type": KAFKA + "transforms.ReplaceField$Value",
        "transforms.rename.renames": "secret:hidden",
    }
    worker.engine.start(name, config)
    wait_until(lambda: worker.records(name) == 50, f"{worker.engine.state(name)}")
    worker.stop(name)
    expected = []
    for n, row in enumerate(rows):
        if n not in (7, 33):
            changed = {"id": n, "more": None, "at": n}
            expected.append(changed | ({"hidden": "x"} if "secret" in row else {}))
    assert [json.loads(value or b"") for value in texts(target, topic)] == expected
    letters = all_records(bootstrap, dead)
    assert [json.loads(one.value)["id"] for one in letters] == ["seven", "1e5"]
    headers = dict(letters[0].headers)
    assert headers["__connect.errors.stage"] == b"TRANSFORMATION"
    assert headers["__connect.errors.offset"] == b"7"
