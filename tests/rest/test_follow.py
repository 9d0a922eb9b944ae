"""Followers: server-sent events by httpx, WebSocket by the websockets client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from moldau import Producer
from moldau.rest.errors import ProxyError
from moldau.rest.follow.events import EventChunk, FollowEvent, parse_positions, position_text
from moldau.rest.follow.follower import EventFollower, FollowEnded
from moldau.testing import Broker
from tests.rest.rest_proxy import ServedProxy, served
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0


class Events:
    """The events of a stream that is open."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()

    def next(self) -> dict[str, str]:
        """The fields of the next event; comments are skipped."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if not line and "data" in fields:
                return fields
            name, _, value = line.partition(": ")
            if name:
                fields[name] = value
        raise EOFError

    def records(self, count: int) -> list[Any]:
        return [json.loads(self.next()["data"]) for _ in range(count)]


@contextmanager
def following(proxy: ServedProxy, topic: str, last_id: str | None = None, **query: Any) -> Iterator[Events]:
    headers = {} if last_id is None else {"last-event-id": last_id}
    url = f"{proxy.url}/topics/{topic}/events"
    with httpx.stream("GET", url, params=query, headers=headers, timeout=TIMEOUT_S) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Events(response)


def send(broker: Broker, topic: str, *values: Any, partition: int = 0) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value if isinstance(value, bytes) else json.dumps(value).encode(), partition=partition)


def socket(proxy: ServedProxy, topic: str, query: str = "", **options: Any) -> ClientConnection:
    return connect(f"{proxy.url.replace('http', 'ws')}/topics/{topic}/socket{query}", **options)


def test_newest_records_reach_all_followers(proxy: ServedProxy, rest_broker: Broker, topic: str) -> None:
    send(rest_broker, topic, "old")
    with following(proxy, topic) as one, following(proxy, topic) as other:
        send(rest_broker, topic, 1, 2)
        send(rest_broker, topic, b"\xff", partition=1)
        for events in (one, other):
            found = sorted(events.records(3), key=lambda record: (record["partition"], record["offset"]))
            assert [record["value"] for record in found] == [1, 2, "/w=="]
            assert [record["offset"] for record in found] == [1, 2, 0]


def test_a_follower_continues_at_the_id_of_its_last_event(proxy: ServedProxy, rest_broker: Broker, topic: str) -> None:
    send(rest_broker, topic, 0, 1)
    send(rest_broker, topic, 10, partition=1)
    with following(proxy, topic, **{"from": "earliest"}) as events:
        seen = [events.next(), events.next()]
    last = seen[-1]["id"]
    with following(proxy, topic, last) as events:
        send(rest_broker, topic, 2)
        rest = events.records(2)
    values = [json.loads(event["data"])["value"] for event in seen] + [record["value"] for record in rest]
    assert sorted(values) == [0, 1, 2, 10]


def test_a_follower_who_returns_needs_no_consumer_of_its_own(
    proxy: ServedProxy, rest_broker: Broker, topic: str
) -> None:
    with following(proxy, topic) as first:
        send(rest_broker, topic, 1, 2, 3)
        ids = [first.next()["id"] for _ in range(3)]
        before = proxy.proxy.followers.feeds
        with following(proxy, topic, ids[0]) as again:
            assert [record["value"] for record in again.records(2)] == [2, 3]
            assert proxy.proxy.followers.feeds == before
            send(rest_broker, topic, 4)
            assert [record["value"] for record in again.records(1)] == [4]


def test_one_partition_and_a_limit(proxy: ServedProxy, rest_broker: Broker, topic: str) -> None:
    send(rest_broker, topic, 1, 2, 3)
    send(rest_broker, topic, 10, 20, partition=1)
    with following(proxy, topic, partition=1, limit=2, **{"from": "earliest"}) as events:
        assert [record["value"] for record in events.records(2)] == [10, 20]
        with pytest.raises(EOFError):
            events.next()


def test_a_record_without_the_format_is_shown_with_an_error(
    proxy: ServedProxy, rest_broker: Broker, topic: str
) -> None:
    send(rest_broker, topic, b"{", 1)
    with following(proxy, topic, format="json", **{"from": "earliest"}) as events:
        wrong, right = events.records(2)
    assert (wrong["value"], "not JSON" in wrong["error"]) == (None, True)
    assert (right["value"], "error" in right) == (1, False)


@pytest.mark.parametrize(
    ("query", "status"),
    [({"from": "tomorrow"}, 400), ({"partition": 7}, 404), ({"partition": "x"}, 400), ({"format": "xml"}, 400)],
)
def test_wrong_requests(proxy: ServedProxy, topic: str, query: dict[str, Any], status: int) -> None:
    assert proxy.http.get(f"/topics/{topic}/events", params=query).status_code == status


def test_an_unknown_topic_is_not_followed(proxy: ServedProxy) -> None:
    assert proxy.http.get("/topics/none/events").json()["error_code"] == 40401
    with pytest.raises(InvalidStatus) as refused:
        socket(proxy, "none")
    assert refused.value.response.status_code == 404


def test_the_feed_ends_with_its_last_follower(proxy: ServedProxy, topic: str) -> None:
    with following(proxy, topic), following(proxy, topic):
        assert proxy.proxy.followers.feeds >= 1
    wait_until(lambda: proxy.proxy.followers.feeds == 0 and len(proxy.proxy.followers) == 0)


def test_too_many_followers_are_refused(rest_broker: Broker, topic: str) -> None:
    settings = {"bootstrap.servers": rest_broker.bootstrap_servers, "moldau.rest.max.followers": 1}
    with served(settings) as proxy:
        with following(proxy, topic):
            refused = proxy.http.get(f"/topics/{topic}/events")
            assert (refused.status_code, "moldau.rest.max.followers" in refused.json()["message"]) == (429, True)
        wait_until(lambda: len(proxy.proxy.followers) == 0)
        with following(proxy, topic):
            pass


def test_the_end_of_the_proxy_ends_streams(rest_broker: Broker, topic: str) -> None:
    with served({"bootstrap.servers": rest_broker.bootstrap_servers}) as proxy:
        opened = following(proxy, topic)
        events = opened.__enter__()
    with pytest.raises(EOFError):
        events.next()
    opened.__exit__(None, None, None)


def test_a_socket_follows_and_produces(proxy: ServedProxy, topic: str) -> None:
    with socket(proxy, topic) as one, socket(proxy, topic, "?from=none") as other:
        other.send(json.dumps({"key": {"type": "STRING", "data": "k"}, "value": {"type": "JSON", "data": [1]}}))
        answer = json.loads(other.recv(TIMEOUT_S))
        assert (answer["produced"], answer["error_code"], answer["offset"]) == (True, 200, 0)
        record = json.loads(one.recv(TIMEOUT_S))
        assert (record["key"], record["value"]) == ("k", [1])
        other.send("{")
        assert json.loads(other.recv(TIMEOUT_S))["error_code"] == 400
        other.send(json.dumps({"value": {"type": "BINARY", "data": "!"}}))
        assert json.loads(other.recv(TIMEOUT_S))["error_code"] == 42203
    with socket(proxy, topic, f"?from={record['id']}") as later, socket(proxy, topic, "?from=earliest") as earlier:
        assert json.loads(earlier.recv(TIMEOUT_S))["value"] == [1]
        with pytest.raises(TimeoutError):
            later.recv(0.2)


def test_a_page_of_another_origin_opens_no_socket(proxy: ServedProxy, topic: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        socket(proxy, topic, origin="http://evil.example")
    assert refused.value.response.status_code == 403
    with socket(proxy, topic, origin=proxy.url):
        pass


def test_positions_are_read_and_written() -> None:
    assert parse_positions("0:17,3:4") == {0: 17, 3: 4}
    assert position_text({3: 4, 0: 17}) == "0:17,3:4"
    for wrong in ("", "0", "0:", ":1", "a:1", "0:1,", "0:-1", "0:1:2"):
        with pytest.raises(ProxyError):
            parse_positions(wrong)


async def _ended(follower: EventFollower) -> ProxyError | None:
    try:
        await follower.next(0.0)
    except FollowEnded as ended:
        return ended.error
    return None


def test_a_follower_that_is_too_slow_is_ended() -> None:
    import asyncio

    async def scenario() -> None:
        follower = EventFollower(1000)
        chunk = EventChunk([FollowEvent(0, 0, "x" * 700, "0:1")])
        follower.push(chunk)
        assert not follower.ended
        follower.push(chunk)
        assert follower.ended
        error = await _ended(follower)
        assert error is not None
        assert "moldau.rest.follower.buffer.bytes" in error.message

    asyncio.run(scenario())
