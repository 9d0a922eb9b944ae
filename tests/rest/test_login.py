"""HTTP users log in at the broker: a request may do what its user may do, and no more."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from moldau.settings.setting import SettingError
from moldau.testing import Broker, allow
from tests.rest.conftest import ALICE, BOB, login_settings
from tests.rest.rest_proxy import ServedProxy, proxy_settings, served

RECORD = {"value": {"type": "JSON", "data": 1}}
V2_JSON = {"content-type": "application/vnd.kafka.json.v2+json"}


@pytest.fixture
def alice_s_topic(secured_broker: Broker, new_name: Callable[[str], str]) -> str:
    """A topic that Alice may read and write, and Bob may not."""
    name = new_name("alices")
    secured_broker.create_topic(name)
    secured_broker.add_rules(allow("alice", "read", topic=name), allow("alice", "write", topic=name))
    return name


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Basic"},
        {"authorization": "Basic !!"},
        {"authorization": "Bearer x"},
        {"authorization": "Basic " + base64.b64encode(b"alice:wrong").decode()},
        {"authorization": "Basic " + base64.b64encode(b"nobody:x").decode()},
        {"authorization": "Basic " + base64.b64encode(b":").decode()},
        {"authorization": "Basic " + base64.b64encode(b"alice:" + b"x" * 2000).decode()},
    ],
)
@pytest.mark.parametrize("path", ["/v3/clusters", "/topics", "/topics/x/events"])
def test_without_a_login_nothing_is_answered(secured_proxy: ServedProxy, headers: dict[str, str], path: str) -> None:
    answer = secured_proxy.http.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic")
    assert "wrong" not in answer.text


def test_health_and_description_need_no_login(secured_proxy: ServedProxy) -> None:
    assert secured_proxy.http.get("/health").status_code == 200
    assert secured_proxy.http.get("/openapi.json").status_code == 200


def test_a_user_may_what_the_rules_allow(secured_proxy: ServedProxy, alice_s_topic: str) -> None:
    http = secured_proxy.client(*ALICE)
    place = f"{secured_proxy.cluster}/topics/{alice_s_topic}"
    assert http.get(place).status_code == 200
    assert http.post(f"{place}/records", json=RECORD).status_code == 200
    events = http.get(f"/topics/{alice_s_topic}/events", params={"from": "earliest", "limit": 1})
    assert '"value":1' in events.text


def denied(answer: httpx.Response) -> bool:
    """Whether the answer refuses: 403, or 404 where the broker does not even tell that it exists."""
    return answer.status_code in (403, 404) and answer.json()["error_code"] in (40301, 40401, 40403)


def test_another_user_may_not(secured_proxy: ServedProxy, alice_s_topic: str) -> None:
    http = secured_proxy.client(*BOB)
    place = f"{secured_proxy.cluster}/topics/{alice_s_topic}"
    assert denied(http.get(place))
    assert denied(http.post(f"{place}/records", json=RECORD))
    assert denied(http.post(f"{place}/records:batch", json={"entries": [{"id": "1", **RECORD}]}))
    assert denied(http.post(f"/topics/{alice_s_topic}", json={"records": [{"value": 1}]}, headers=V2_JSON))
    assert denied(http.get(f"/topics/{alice_s_topic}"))
    assert denied(http.get(f"/topics/{alice_s_topic}/events"))
    assert denied(http.delete(place))
    assert denied(http.put(f"{place}/configs/retention.ms", json={"value": "1"}))
    assert alice_s_topic not in http.get("/topics").json()
    assert alice_s_topic not in http.get(f"{secured_proxy.cluster}/topics").text


def test_a_reader_may_not_write_and_a_writer_may_not_read(
    secured_proxy: ServedProxy, secured_broker: Broker, new_name: Callable[[str], str]
) -> None:
    name = new_name("halves")
    secured_broker.create_topic(name)
    secured_broker.add_rules(allow("alice", "read", topic=name), allow("bob", "write", topic=name))
    reader, writer = secured_proxy.client(*ALICE), secured_proxy.client(*BOB)
    place = f"{secured_proxy.cluster}/topics/{name}/records"
    assert reader.post(place, json=RECORD).json()["error_code"] == 40301
    refused = reader.post(f"/topics/{name}", json={"records": [{"value": 1}]}, headers=V2_JSON).json()
    assert refused["offsets"][0]["error_code"] == 40301
    assert writer.post(place, json=RECORD).status_code == 200
    assert writer.get(f"/topics/{name}/events", params={"from": "earliest", "limit": 1}).json()["error_code"] == 40301
    assert '"value":1' in reader.get(f"/topics/{name}/events", params={"from": "earliest", "limit": 1}).text


def test_only_administrators_change_the_cluster(secured_proxy: ServedProxy, new_name: Callable[[str], str]) -> None:
    http = secured_proxy.client(*ALICE)
    name = new_name("refused")
    assert denied(http.post(f"{secured_proxy.cluster}/topics", json={"topic_name": name}))
    assert denied(http.get(f"{secured_proxy.cluster}/acls"))
    rule = {
        "resource_type": "TOPIC",
        "resource_name": "*",
        "pattern_type": "LITERAL",
        "principal": "User:alice",
        "host": "*",
        "operation": "ALL",
        "permission": "ALLOW",
    }
    assert denied(http.post(f"{secured_proxy.cluster}/acls", json=rule))
    every = {"resource_type": "ANY", "pattern_type": "ANY", "operation": "ANY"}
    assert denied(http.delete(f"{secured_proxy.cluster}/acls", params=every))
    assert denied(http.get(f"{secured_proxy.cluster}/consumer-groups/somebodys"))


def test_consumers_of_others_do_not_exist(
    secured_proxy: ServedProxy, secured_broker: Broker, alice_s_topic: str, new_name: Callable[[str], str]
) -> None:
    group = new_name("group")
    secured_broker.add_rules(allow("alice", "read", group=group))
    alice, bob = secured_proxy.client(*ALICE), secured_proxy.client(*BOB)
    settings = {"name": "c", "format": "json", "auto.offset.reset": "earliest"}
    instance = alice.post(f"/consumers/{group}", json=settings).json()["base_uri"]
    assert alice.post(f"{instance}/subscription", json={"topics": [alice_s_topic]}).status_code == 204
    for method, place in (("GET", "records"), ("GET", "subscription"), ("DELETE", ""), ("POST", "offsets")):
        assert bob.request(method, f"{instance}/{place}".rstrip("/")).json()["error_code"] == 40403
    alice.post(f"{secured_proxy.cluster}/topics/{alice_s_topic}/records", json=RECORD)
    found: list[Any] = []
    while not found:
        found = alice.get(f"{instance}/records", params={"timeout": 5000}).json()
    assert found[0]["value"] == 1
    bobs = bob.post(f"/consumers/{group}", json=settings).json()["base_uri"]
    bob.post(f"{bobs}/subscription", json={"topics": [alice_s_topic]})
    refused = bob.get(f"{bobs}/records", params={"timeout": 5000})
    assert denied(refused)
    assert alice.delete(instance).status_code == 204


def test_a_socket_needs_a_login_too(secured_proxy: ServedProxy, alice_s_topic: str) -> None:
    url = f"{secured_proxy.url.replace('http', 'ws')}/topics/{alice_s_topic}/socket?from=earliest"
    for user, status in ((None, 401), (("alice", "wrong"), 401), (BOB, 403)):
        headers = {} if user is None else {"Authorization": basic(*user)}
        with pytest.raises(InvalidStatus) as refused:
            connect(url, additional_headers=headers)
        assert refused.value.response.status_code == status
    with connect(url, additional_headers={"Authorization": basic(*ALICE)}) as socket:
        socket.send(json.dumps(RECORD))
        assert {json.loads(socket.recv(60)).get("value") is not None for _ in range(2)} == {True}


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_a_login_ends_at_its_age(secured_broker: Broker, alice_s_topic: str) -> None:
    settings = {**login_settings(secured_broker), "moldau.rest.login.max.age.ms": 500}
    with served(settings) as proxy:
        http = proxy.client(*ALICE)
        events = http.get(f"/topics/{alice_s_topic}/events")  # ends by itself, so that the user logs in again
        assert events.status_code == 200
        assert http.get("/topics").status_code == 200


def test_settings_that_would_let_everybody_in_are_refused(secured_broker: Broker) -> None:
    address = {"listeners": "http://0.0.0.0:0"}
    with pytest.raises(SettingError):
        proxy_settings({"bootstrap.servers": "127.0.0.1:1", **address})
    with pytest.raises(SettingError):
        proxy_settings({"bootstrap.servers": "127.0.0.1:1", "authentication.method": "BASIC"})
    proxy_settings({**login_settings(secured_broker), **address})


def test_passwords_are_not_shown(secured_proxy: ServedProxy, caplog: pytest.LogCaptureFixture) -> None:
    secured_proxy.client("alice", "hunter2-secret").get("/topics")
    assert "hunter2-secret" not in caplog.text
    assert "hunter2-secret" not in secured_proxy.http.get("/metrics", auth=ALICE).text
