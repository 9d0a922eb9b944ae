"""API v2: topics, produce, and consumer instances with their formats, limits and end."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from moldau import Admin
from moldau.testing import Broker
from tests.rest.rest_proxy import ServedProxy, served
from tests.support.waiting import wait_until

V2 = "application/vnd.kafka.v2+json"


def media(kind: str) -> str:
    return f"application/vnd.kafka.{kind}.v2+json"


def produce(http: httpx.Client, topic: str, records: list[Any], kind: str = "json", **more: Any) -> httpx.Response:
    return http.post(f"/topics/{topic}", json={"records": records, **more}, headers={"content-type": media(kind)})


def create(http: httpx.Client, group: str, **settings: Any) -> str:
    answer = http.post(f"/consumers/{group}", json=settings, headers={"content-type": V2})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["base_uri"])


def records(http: httpx.Client, instance: str, count: int) -> list[Any]:
    """Poll until so many records have come."""
    found: list[Any] = []

    def enough() -> bool:
        answer = http.get(f"{instance}/records", params={"timeout": 5000})
        assert answer.status_code == 200, answer.text
        found.extend(answer.json())
        return len(found) >= count

    wait_until(enough)
    return found


def test_topics_and_partitions(proxy: ServedProxy, topic: str) -> None:
    assert topic in proxy.http.get("/topics").json()
    found = proxy.http.get(f"/topics/{topic}").json()
    assert (found["name"], found["configs"]["cleanup.policy"]) == (topic, "delete")
    assert [one["partition"] for one in found["partitions"]] == [0, 1]
    produce(proxy.http, topic, [{"value": 1, "partition": 1}])
    offsets = proxy.http.get(f"/topics/{topic}/partitions/1/offsets")
    assert offsets.json() == {"beginning_offset": 0, "end_offset": 1}
    assert offsets.headers["content-type"] == V2
    assert proxy.http.get(f"/topics/{topic}/partitions/2").json()["error_code"] == 40402
    assert proxy.http.get("/topics/none").json()["error_code"] == 40401


def test_each_record_has_an_offset_or_an_error(proxy: ServedProxy, topic: str) -> None:
    answer = produce(proxy.http, topic, [{"value": 1, "partition": 0}, {"value": 2, "partition": 9}, {"value": 3}])
    offsets = answer.json()["offsets"]
    assert (offsets[0]["partition"], offsets[0]["offset"]) == (0, 0)
    assert (offsets[1]["offset"], offsets[1]["error_code"]) == (None, 40401)
    assert offsets[2]["error_code"] is None
    to_partition = proxy.http.post(
        f"/topics/{topic}/partitions/1",
        json={"records": [{"value": "aGk="}]},
        headers={"content-type": media("binary")},
    )
    assert to_partition.json()["offsets"][0]["partition"] == 1


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ({"records": []}, "json", 400),
        ({}, "json", 400),
        ({"records": [1]}, "json", 400),
        ({"records": [{"value": "!"}]}, "binary", 422),
        ({"records": [{"value": 1}]}, "avro", 422),
        ({"records": [{"value": 1}]}, "xml", 415),
    ],
)
def test_wrong_produce_requests(proxy: ServedProxy, topic: str, body: Any, kind: str, status: int) -> None:
    answer = proxy.http.post(f"/topics/{topic}", json=body, headers={"content-type": media(kind)})
    assert answer.status_code == status, answer.text


def test_a_consumer_from_its_creation_to_its_end(
    proxy: ServedProxy, rest_broker: Broker, topic: str, new_name: Callable[[str], str]
) -> None:
    group, http = new_name("group"), proxy.http
    produce(http, topic, [{"key": f"k{number}", "value": {"n": number}, "partition": 0} for number in range(10)])
    settings = {"name": "c", "format": "json", "auto.offset.reset": "earliest", "auto.commit.enable": "false"}
    instance = create(http, group, **settings)
    assert http.post(f"/consumers/{group}", json=settings, headers={"content-type": V2}).json()["error_code"] == 40902
    assert http.get(f"{instance}/records").json()["error_code"] == 40903
    assert http.post(f"{instance}/subscription", json={"topics": [topic]}).status_code == 204
    found = records(http, instance, 10)
    assert [(one["key"], one["value"]["n"], one["offset"]) for one in found] == [(f"k{n}", n, n) for n in range(10)]
    assert http.get(f"{instance}/subscription").json() == {"topics": [topic]}
    partitions = [{"topic": topic, "partition": 0}]
    assert http.get(f"{instance}/assignments").json()["partitions"][0] == partitions[0]
    offset = {**partitions[0], "offset": 4, "metadata": "m"}
    assert http.post(f"{instance}/offsets", json={"offsets": [offset]}).status_code == 204
    committed = http.request("GET", f"{instance}/offsets", json={"partitions": partitions})
    assert committed.json() == {"offsets": [offset]}
    assert http.post(f"{instance}/offsets").status_code == 204
    assert http.get(f"{instance}/offsets").json()["offsets"][0]["offset"] == 10
    assert http.post(f"{instance}/positions", json={"offsets": [{**partitions[0], "offset": 8}]}).status_code == 204
    assert [one["offset"] for one in records(http, instance, 2)] == [8, 9]
    assert http.post(f"{instance}/positions/beginning", json={"partitions": partitions}).status_code == 204
    assert len(records(http, instance, 10)) == 10
    assert http.delete(f"{instance}/subscription").status_code == 204
    assert http.post(f"{instance}/assignments", json={"partitions": partitions}).status_code == 204
    assert http.post(f"{instance}/positions/end", json={"partitions": partitions}).status_code == 204
    assert http.get(f"{instance}/records", params={"timeout": 0}).json() == []
    assert http.delete(instance).status_code == 204
    assert http.delete(instance).json()["error_code"] == 40403
    with Admin(bootstrap_servers=rest_broker.bootstrap_servers) as admin:
        wait_until(lambda: not admin.describe_groups(group)[group].members)


def test_records_beyond_max_bytes_come_with_the_next_request(
    proxy: ServedProxy, topic: str, new_name: Callable[[str], str]
) -> None:
    values = [base64.b64encode(bytes([number]) * 100).decode() for number in range(10)]
    produce(proxy.http, topic, [{"value": one, "partition": 0} for one in values], "binary")
    instance = create(proxy.http, new_name("group"), format="binary", **{"auto.offset.reset": "earliest"})
    proxy.http.post(f"{instance}/assignments", json={"partitions": [{"topic": topic, "partition": 0}]})
    found: list[str] = []

    def all_found() -> bool:
        answer = proxy.http.get(f"{instance}/records", params={"timeout": 5000, "max_bytes": 250}).json()
        assert len(answer) <= 2
        found.extend(one["value"] for one in answer)
        return len(found) >= 10

    wait_until(all_found)
    assert found == values
    proxy.http.delete(instance)


def test_a_record_that_does_not_have_the_format_stays_unread(
    proxy: ServedProxy, topic: str, new_name: Callable[[str], str]
) -> None:
    produce(proxy.http, topic, [{"value": 1, "partition": 0}])
    produce(proxy.http, topic, [{"value": "/w==", "partition": 0}], "binary")
    instance = create(proxy.http, new_name("group"), format="json", **{"auto.offset.reset": "earliest"})
    proxy.http.post(f"{instance}/assignments", json={"partitions": [{"topic": topic, "partition": 0}]})
    assert [one["value"] for one in records(proxy.http, instance, 1)] == [1]
    for _ in range(2):
        answer = proxy.http.get(f"{instance}/records", params={"timeout": 5000})
        assert (answer.status_code, answer.json()["error_code"]) == (422, 42203)
        assert f"{topic}-0 at offset 1" in answer.json()["message"]
    proxy.http.delete(instance)


def test_the_accepted_format_must_be_the_consumer_s(
    proxy: ServedProxy, topic: str, new_name: Callable[[str], str]
) -> None:
    instance = create(proxy.http, new_name("group"), format="json")
    answer = proxy.http.get(f"{instance}/records", headers={"accept": media("binary")})
    assert (answer.status_code, answer.json()["error_code"]) == (406, 40601)
    proxy.http.delete(instance)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"format": "xml"}, 400),
        ({"auto.offset.reset": "soon"}, 400),
        ({"fetch.min.bytes": -1}, 400),
        ({"name": ""}, 400),
    ],
)
def test_wrong_settings_of_a_consumer(proxy: ServedProxy, body: Any, status: int) -> None:
    answer = proxy.http.post("/consumers/group", json=body, headers={"content-type": V2})
    assert answer.status_code == status, answer.text


def test_idle_consumers_expire_and_leave_their_group(
    rest_broker: Broker, topic: str, new_name: Callable[[str], str]
) -> None:
    group = new_name("group")
    settings = {"bootstrap.servers": rest_broker.bootstrap_servers, "consumer.instance.timeout.ms": 700}
    with served(settings) as proxy, Admin(bootstrap_servers=rest_broker.bootstrap_servers) as admin:
        instance = create(proxy.http, group, name="c")
        proxy.http.post(f"{instance}/subscription", json={"topics": [topic]})
        proxy.http.get(f"{instance}/records", params={"timeout": 100})
        wait_until(lambda: not admin.describe_groups(group)[group].members)
        wait_until(lambda: len(proxy.proxy.consumers) == 0)
        assert proxy.http.get(f"{instance}/subscription").json()["error_code"] == 40403


def test_too_many_consumers_are_refused(rest_broker: Broker) -> None:
    settings = {"bootstrap.servers": rest_broker.bootstrap_servers, "moldau.rest.max.consumers": 2}
    with served(settings) as proxy:
        first = create(proxy.http, "limited")
        create(proxy.http, "limited")
        refused = proxy.http.post("/consumers/limited", json={}, headers={"content-type": V2})
        assert (refused.status_code, "moldau.rest.max.consumers" in refused.json()["message"]) == (429, True)
        assert refused.headers["retry-after"]
        proxy.http.delete(first)
        create(proxy.http, "limited")
