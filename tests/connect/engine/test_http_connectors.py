"""HTTP connectors in the engine: an API's records reach another API, each once, with exactly the bad ones set aside."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from moldau import Producer
from moldau.connect.engine import ConnectorState
from tests.connect.connectors.http_server import Answer, Got, web_server
from tests.connect.engine.conftest import Worker
from tests.support.waiting import wait_until

JSON = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
}
Read = Callable[..., list[Any]]


class Shop:
    """An API whose orders grow, and one that takes orders but not those whose number is a multiple of 7."""

    def __init__(self) -> None:
        self.orders: list[Any] = []
        self.taken: list[Any] = []
        self.busy = 0

    def __call__(self, got: Got) -> Answer:
        if got.method == "GET":
            after = [one for one in self.orders if one["id"] > int(got.query["since"])]
            following = f"/orders?since={after[9]['id']}" if len(after) > 10 else None
            return Answer(body={"orders": after[:10], "next": following})
        if self.busy:
            self.busy -= 1
            return Answer(503, headers={"Retry-After": "0"})
        if any(one["id"] % 7 == 0 for one in got.json()):
            return Answer(422)
        self.taken += got.json()
        return Answer()


def test_orders_of_one_server_reach_another_with_exactly_the_bad_ones_set_aside(
    worker: Worker, new_topic: Callable[..., str], unused_name: Callable[[], str], read: Read
) -> None:
    shop, topic, dead = Shop(), new_topic(1), new_topic(1)
    source, sink = unused_name(), unused_name()
    shop.orders = [{"id": n, "note": None, "tags": [n, "x"]} if n % 2 else {"id": n} for n in range(1, 36)]
    shop.busy = 2
    with web_server(shop) as server:
        polling = {
            **JSON,
            "connector.class": "HttpSource",
            "http.request.url": f"{server.url}/orders",
            "http.request.params": "since=${offset.id}",
            "http.offset.initial": "id=0",
            "http.response.list.pointer": "/orders",
            "http.response.record.offset.pointer": "id=/id",
            "http.response.record.key.pointer": "/id",
            "http.next.page": "/next",
            "http.timer.interval.millis": "100",
            "kafka.topic": topic,
        }
        worker.engine.start(source, polling)
        wait_until(lambda: len(read(topic)) >= 35)
        worker.stop(source)
        shop.orders += [{"id": n} for n in range(36, 41)]
        worker.engine.start(source, polling)
        wait_until(lambda: len(read(topic)) >= 40)
        worker.stop(source)
        assert [json.loads(record.value) for record in read(topic)] == shop.orders
        assert [record.key for record in read(topic)] == [str(one["id"]).encode() for one in shop.orders]

        taking = {
            **JSON,
            "connector.class": "HttpSink",
            "topics": topic,
            "http.api.url": f"{server.url}/${{topic}}",
            "batch.max.size": "8",
            "retry.backoff.ms": "1",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": dead,
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        worker.engine.start(sink, taking)
        wait_until(lambda: len(shop.taken) >= 35 and len(read(dead)) >= 5)
        worker.stop(sink)
    assert shop.taken == [one for one in shop.orders if one["id"] % 7]
    letters = read(dead)
    assert [json.loads(record.value)["id"] for record in letters] == [7, 14, 21, 28, 35]
    assert all(b"status 422" in dict(record.headers)["__connect.errors.exception.message"] for record in letters)


def test_a_server_that_refuses_the_login_fails_only_its_connector(
    worker: Worker, new_topic: Callable[..., str], unused_name: Callable[[], str], bootstrap: str
) -> None:
    topic, sink = new_topic(1), unused_name()
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        producer.send(topic, b'{"a":1}').result()
    with web_server(lambda _: Answer(401)) as server:
        config = {**JSON, "connector.class": "HttpSink", "topics": topic, "http.api.url": f"{server.url}/?key=hidden"}
        worker.engine.start(sink, {**config, "errors.tolerance": "all"})
        report = worker.wait_for(sink, ConnectorState.FAILED)
        worker.stop(sink)
    assert "status 401: check auth.type" in report.trace
    assert "hidden" not in report.trace
