"""Produce in API v3: single records, streams and batches, and what a consumer reads then."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from moldau import Consumer
from moldau.client.consumer.decode import Record
from moldau.testing import Broker
from tests.rest.rest_proxy import ServedProxy

JSON = {"content-type": "application/json"}


def read(broker: Broker, topic: str, count: int) -> list[Record]:
    with Consumer(topic, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        found: list[Record] = []
        while len(found) < count:
            found += consumer.poll(10.0)
    return found


def produce(proxy: ServedProxy, topic: str, **record: Any) -> httpx.Response:
    return proxy.http.post(f"{proxy.cluster}/topics/{topic}/records", content=json.dumps(record), headers=JSON)


def value(data: Any) -> dict[str, Any]:
    return {"type": "JSON", "data": data}


def test_a_record_with_all_its_parts(proxy: ServedProxy, rest_broker: Broker, topic: str) -> None:
    answer = produce(
        proxy,
        topic,
        partition_id=1,
        key={"type": "STRING", "data": "k"},
        value=value({"a": [1, "ü"]}),
        headers=[{"name": "h", "value": base64.b64encode(b"\0v").decode()}, {"name": "n"}],
        timestamp="2026-01-31T12:00:00Z",
    )
    assert answer.status_code == 200
    told = answer.json()
    assert (told["error_code"], told["partition_id"], told["offset"]) == (200, 1, 0)
    assert told["timestamp"] == "2026-01-31T12:00:00.000Z"
    assert (told["key"], told["value"]) == ({"type": "STRING", "size": 1}, {"type": "JSON", "size": 14})
    (record,) = read(rest_broker, topic, 1)
    assert (record.key, json.loads(record.value)) == (b"k", {"a": [1, "ü"]})
    assert (record.headers, record.timestamp) == ([("h", b"\0v"), ("n", None)], 1769860800000)


def test_formats_and_tombstones(proxy: ServedProxy, rest_broker: Broker, topic: str) -> None:
    for part in (
        {"type": "BINARY", "data": "AAE="},
        {"type": "STRING", "data": "text"},
        value(None),
        {"type": "BINARY", "data": None},
        None,
    ):
        assert produce(proxy, topic, partition_id=0, value=part).status_code == 200
    assert [one.value for one in read(rest_broker, topic, 5)] == [b"\0\1", b"text", None, None, None]


@pytest.mark.parametrize(
    ("record", "status"),
    [
        ({"value": {"type": "BINARY", "data": "!"}}, 422),
        ({"value": {"type": "BINARY", "data": 1}}, 422),
        ({"value": {"type": "STRING", "data": 1}}, 422),
        ({"value": {"type": "XML", "data": 1}}, 400),
        ({"value": {"type": ["JSON"], "data": 1}}, 400),
        ({"value": {"data": 1}}, 400),
        ({"value": 1}, 400),
        ({"partition_id": "x", "value": None}, 400),
        ({"partition_id": -1, "value": None}, 400),
        ({"partition_id": 99, "value": None}, 404),
        ({"headers": {"a": "b"}}, 400),
        ({"headers": [{"name": "a", "value": "!"}]}, 400),
        ({"timestamp": "yesterday"}, 400),
        ({"value": {"type": "STRING", "data": "\ud800"}}, 422),
        ({"value": {"type": "STRING", "data": "x" * 1_100_000}}, 413),
    ],
)
def test_a_wrong_record_is_answered_with_its_own_status(
    proxy: ServedProxy, topic: str, record: dict[str, Any], status: int
) -> None:
    answer = produce(proxy, topic, **record)
    assert answer.status_code == status, answer.text
    assert str(answer.json()["error_code"]).startswith(str(status))


def test_an_unknown_topic_is_neither_waited_for_nor_created(proxy: ServedProxy) -> None:
    answer = produce(proxy, "not-there", value=value(1))
    assert (answer.status_code, answer.json()["error_code"]) == (404, 40403)
    assert proxy.http.get(f"{proxy.cluster}/topics/not-there").status_code == 404


def test_several_records_in_one_body(proxy: ServedProxy, rest_broker: Broker, topic: str) -> None:
    good = [json.dumps({"partition_id": 0, "value": value(number)}) for number in range(50)]
    body = "\n".join([*good[:20], '{"value": {"type": "BINARY", "data": "!"}}', *good[20:], "and then nonsense"])
    answer = proxy.http.post(f"{proxy.cluster}/topics/{topic}/records", content=body, headers=JSON)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["error_code"] for line in lines] == [200] * 20 + [42203] + [200] * 30 + [400]
    assert [json.loads(one.value) for one in read(rest_broker, topic, 50)] == list(range(50))


def test_a_stream_is_answered_while_it_is_sent(proxy: ServedProxy, topic: str) -> None:
    """The answer to a record arrives before the next one is sent: over a raw connection, since httpx cannot."""
    import socket

    port = int(proxy.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        head = f"POST {proxy.cluster}/topics/{topic}/records HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        connection.sendall((head + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n").encode())
        answers = connection.makefile("rb")

        def send(data: bytes) -> None:
            connection.sendall(b"%x\r\n%s\r\n" % (len(data), data))

        def lines() -> Iterator[dict[str, Any]]:
            for line in answers:
                if line.startswith(b"{"):
                    yield json.loads(line)

        received = lines()
        for number in range(3):
            record = json.dumps({"partition_id": 0, "value": value(number)}).encode()
            send(record[:10])
            send(record[10:])
            assert next(received)["offset"] == number
        connection.sendall(b"0\r\n\r\n")
        assert next(received, None) is None


def test_a_stream_that_falls_silent_is_ended(rest_broker: Broker, topic: str) -> None:
    from tests.rest.rest_proxy import served

    settings = {"bootstrap.servers": rest_broker.bootstrap_servers, "moldau.rest.stream.timeout.ms": 200}
    with served(settings) as proxy:
        import socket

        port = int(proxy.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            head = f"POST {proxy.cluster}/topics/{topic}/records HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            connection.sendall((head + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n").encode())
            assert b'"error_code": 408' in connection.makefile("rb").read()


def test_a_batch_tells_successes_from_failures(proxy: ServedProxy, topic: str) -> None:
    entries = [{"id": "a", "value": value(1)}, {"id": "b", "value": {"type": "BINARY", "data": "!"}}]
    place = f"{proxy.cluster}/topics/{topic}/records:batch"
    answer = proxy.http.post(place, json={"entries": entries})
    assert answer.status_code == 207
    assert [one["id"] for one in answer.json()["successes"]] == ["a"]
    assert [(one["id"], one["error_code"]) for one in answer.json()["failures"]] == [("b", 42203)]
    assert proxy.http.post(place, json={"entries": [entries[0], entries[0]]}).status_code == 400
