"""Resources of API v3 over a real broker: what the admin client says, in Confluent's JSON."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau import Admin, Consumer, Producer
from moldau.client.data_types import TopicPartition
from moldau.testing import Broker
from tests.rest.rest_proxy import ServedProxy


def test_the_cluster_and_its_brokers(proxy: ServedProxy, rest_broker: Broker) -> None:
    cluster = proxy.http.get(proxy.cluster).json()
    assert cluster["kind"] == "KafkaCluster"
    controller = proxy.http.get(cluster["controller"]["related"]).json()
    host, _, port = rest_broker.bootstrap_servers.rpartition(":")
    assert (controller["host"], controller["port"]) == (host, int(port))
    listed = proxy.http.get(f"{proxy.cluster}/brokers").json()
    assert [one["broker_id"] for one in listed["data"]] == [controller["broker_id"]]


def test_a_topic_from_its_creation_to_its_end(
    proxy: ServedProxy, rest_broker: Broker, new_name: Callable[[str], str]
) -> None:
    name = new_name("made")
    body = {"topic_name": name, "partitions_count": 2, "configs": [{"name": "retention.ms", "value": "1000"}]}
    created = proxy.http.post(f"{proxy.cluster}/topics", json=body)
    assert (created.status_code, created.json()["partitions_count"]) == (201, 2)
    place = created.json()["metadata"]["self"]
    again = proxy.http.post(f"{proxy.cluster}/topics", json=body)
    assert (again.status_code, again.json()["error_code"]) == (400, 40002)
    grown = proxy.http.patch(place, json={"partitions_count": 3})
    assert grown.json()["partitions_count"] == 3
    partitions = proxy.http.get(f"{place}/partitions").json()["data"]
    assert [one["partition_id"] for one in partitions] == [0, 1, 2]
    leader = proxy.http.get(partitions[2]["leader"]["related"]).json()
    assert (leader["is_leader"], leader["is_in_sync"]) == (True, True)
    assert proxy.http.delete(place).status_code == 204
    with Admin(bootstrap_servers=rest_broker.bootstrap_servers) as admin:
        assert name not in [one.name for one in admin.list_topics()]
    assert proxy.http.get(place).json()["error_code"] == 40403


def test_only_validated_topics_are_not_created(proxy: ServedProxy, new_name: Callable[[str], str]) -> None:
    name = new_name("validated")
    answer = proxy.http.post(f"{proxy.cluster}/topics", json={"topic_name": name, "validate_only": True})
    assert answer.status_code == 201
    assert proxy.http.get(f"{proxy.cluster}/topics/{name}").status_code == 404


def test_settings_of_a_topic(proxy: ServedProxy, topic: str) -> None:
    place = f"{proxy.cluster}/topics/{topic}/configs"
    assert proxy.http.put(f"{place}/retention.ms", json={"value": "5000"}).status_code == 204
    found = proxy.http.get(f"{place}/retention.ms").json()
    assert (found["value"], found["is_default"], found["source"]) == ("5000", False, "DYNAMIC_TOPIC_CONFIG")
    changes = {
        "data": [{"name": "retention.ms", "operation": "DELETE"}, {"name": "cleanup.policy", "value": "compact"}]
    }
    assert proxy.http.post(f"{place}:alter", json={**changes, "validate_only": True}).status_code == 204
    assert proxy.http.get(f"{place}/retention.ms").json()["value"] == "5000"
    assert proxy.http.post(f"{place}:alter", json=changes).status_code == 204
    every = {one["name"]: one["value"] for one in proxy.http.get(place).json()["data"]}
    assert (every["retention.ms"], every["cleanup.policy"]) == ("604800000", "compact")
    default = proxy.http.get(f"{proxy.cluster}/topics/{topic}/default-configs").json()["data"]
    assert next(one["value"] for one in default if one["name"] == "cleanup.policy") == "delete"
    wrong = proxy.http.put(f"{place}/retention.ms", json={"value": "soon"})
    assert (wrong.status_code, wrong.json()["error_code"]) == (400, 40002)
    assert proxy.http.get(f"{place}/no.such.setting").status_code == 404


def test_groups_members_and_lags(
    proxy: ServedProxy, rest_broker: Broker, topic: str, new_name: Callable[[str], str]
) -> None:
    group = new_name("group")
    servers = rest_broker.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer:
        for _ in range(5):
            producer.send(topic, b"x", partition=0)
    with Consumer(topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest") as consumer:
        while not consumer.poll(1.0):
            pass
        consumer.commit({TopicPartition(topic, 0): 2})
        place = f"{proxy.cluster}/consumer-groups/{group}"
        assert proxy.http.get(place).json()["state"] == "STABLE"
        (member,) = proxy.http.get(f"{place}/consumers").json()["data"]
        assignments = proxy.http.get(member["assignments"]["related"]).json()["data"]
        assert [(one["topic_name"], one["partition_id"]) for one in assignments] == [(topic, 0), (topic, 1)]
        summary = proxy.http.get(f"{place}/lag-summary").json()
        assert (summary["max_lag"], summary["total_lag"], summary["max_lag_topic_name"]) == (3, 3, topic)
        assert summary["max_lag_consumer_id"] == member["consumer_id"]
        lag = proxy.http.get(f"{place}/lags/{topic}/partitions/0").json()
        assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (2, 5, 3)
        assert proxy.http.delete(place).status_code == 400
    listed = proxy.http.get(f"{proxy.cluster}/consumer-groups").json()["data"]
    assert group in [one["consumer_group_id"] for one in listed]


@pytest.mark.parametrize(
    "path",
    [
        "/topics/none",
        "/topics/none/partitions",
        "/brokers/77",
        "/brokers/77/configs",
        "/brokers/x",
        "/consumer-groups/none",
        "/consumer-groups/none/lags",
        "/nothing",
    ],
)
def test_what_does_not_exist_is_404(proxy: ServedProxy, path: str) -> None:
    answer = proxy.http.get(proxy.cluster + path)
    assert answer.status_code == 404
    assert answer.json()["message"]
    assert proxy.http.get(f"/v3/clusters/other{path}").status_code == 404


def test_bodies_are_checked(proxy: ServedProxy) -> None:
    place = f"{proxy.cluster}/topics"
    assert proxy.http.post(place, json={}).status_code == 400
    assert proxy.http.post(place, json={"topic_name": 1}).json()["message"].startswith("topic_name: ")
    assert proxy.http.post(place, content=b"{", headers={"content-type": "application/json"}).status_code == 400
    assert proxy.http.post(place, content=b"{}", headers={"content-type": "text/xml"}).status_code == 415
    assert proxy.http.put(place, json={}).status_code == 405


def test_rules_are_not_deleted_without_a_filter(proxy: ServedProxy) -> None:
    answer = proxy.http.delete(f"{proxy.cluster}/acls")
    assert (answer.status_code, answer.json()["message"]) == (400, "resource_type: missing")
