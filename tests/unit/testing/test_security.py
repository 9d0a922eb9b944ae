"""Secured test brokers: users log in, rules allow and deny, and everyone else stays out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer as ConfluentProducer

from moldau import Admin, Consumer, Producer
from moldau.client.admin.users import UserScramUpsertion
from moldau.errors import AuthenticationError, BrokerError, MoldauError
from moldau.security.credentials import ScramMechanism
from moldau.testing import Broker, Cluster, Security, allow, deny

ALICE = Security(
    users={"alice": 'a "quoted" \\ secret', "bob": "other"},
    rules=[
        allow("alice", "all", topic="orders"),
        allow("alice", "read", group="readers"),
        allow("*", "describe", topic="public-", prefixed=True),
    ],
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(security=ALICE) as broker:
        broker.create_topic("orders")
        broker.create_topic("secrets")
        yield broker


def send(broker: Broker, user: str, topic: str, mechanism: str = "SCRAM-SHA-256") -> int:
    with Producer(broker.client_settings(user, mechanism), max_block_ms=5_000) as producer:
        return producer.send(topic, b"value").result().offset


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_with_a_rule_writes(broker: Broker, mechanism: str) -> None:
    assert send(broker, "alice", "orders", mechanism) >= 0


@pytest.mark.parametrize(("user", "topic"), [("bob", "orders"), ("alice", "secrets"), ("alice", "absent")])
def test_a_user_without_a_rule_does_not(broker: Broker, user: str, topic: str) -> None:
    with pytest.raises(BrokerError, match="AUTHORIZATION_FAILED"):
        send(broker, user, topic)


def test_the_admin_may_do_everything(broker: Broker) -> None:
    with Admin(broker.client_settings("admin")) as admin:
        assert {"orders", "secrets"} <= {topic.name for topic in admin.list_topics()}


def test_a_client_without_a_login_is_refused(broker: Broker) -> None:
    with (
        pytest.raises(MoldauError),
        Admin(bootstrap_servers=broker.bootstrap_servers, default_api_timeout_ms=2_000) as admin,
    ):
        admin.list_topics()


def test_a_rule_is_in_force_at_once_and_until_it_is_removed(broker: Broker) -> None:
    rule = allow("bob", "write", topic="orders")
    broker.add_rules(rule)
    assert send(broker, "bob", "orders") >= 0
    broker.add_rules(deny("bob", "write", topic="*"))
    with pytest.raises(BrokerError, match="AUTHORIZATION_FAILED"):
        send(broker, "bob", "orders")
    broker.remove_rules(rule, deny("bob", "write", topic="*"))
    with pytest.raises(BrokerError, match="AUTHORIZATION_FAILED"):
        send(broker, "bob", "orders")


def test_records_are_read_by_members_of_an_allowed_group(broker: Broker) -> None:
    send(broker, "alice", "orders")
    settings = {**broker.client_settings("alice"), "group.id": "readers", "auto.offset.reset": "earliest"}
    with Consumer("orders", settings) as consumer:
        assert next(iter(consumer)).value == b"value"
    settings["group.id"] = "others"
    with Consumer("orders", settings) as consumer, pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        next(iter(consumer))


def test_users_and_rules_are_kept_over_a_restart() -> None:
    with Broker(security=ALICE) as broker:
        broker.create_topic("orders")
        broker.restart()
        assert send(broker, "alice", "orders") == 0


def test_a_changed_password_stays_changed_over_a_restart() -> None:
    with Broker(security=ALICE) as broker:
        before = broker.client_settings("bob")
        with Admin(broker.client_settings("admin")) as admin:
            admin.alter_user_scram_credentials(UserScramUpsertion("bob", "changed", ScramMechanism.SCRAM_SHA_256))
        broker.restart()
        with pytest.raises(AuthenticationError), Admin(before) as admin:
            admin.list_topics()


def test_tls(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Broker(security=Security(users={"alice": "secret"}, rules=ALICE.rules, tls=True)) as broker:
        broker.create_topic("orders")
        assert send(broker, "alice", "orders") == 0
        settings = broker.client_settings("alice")
        producer = ConfluentProducer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "security.protocol": settings["security.protocol"],
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "alice",
                "sasl.password": "secret",
                "ssl.ca.location": settings["ssl.truststore.location"],
            }
        )
        offsets: list[int] = []
        producer.produce("orders", b"value", on_delivery=lambda error, message: offsets.append(message.offset()))
        assert producer.flush(30) == 0
        assert offsets == [1]


def test_a_cluster_with_logins_replicates() -> None:
    with Cluster(3, security=ALICE) as cluster:
        cluster.create_topic("orders")
        with Producer(cluster.client_settings("alice"), acks="all") as producer:
            assert producer.send("orders", b"value").result().offset == 0
            cluster.brokers[cluster.leader_of("orders")].crash()
            assert producer.send("orders", b"value").result().offset == 1
        cluster.start()
        cluster.wait_in_sync()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda: allow("alice", "peruse", topic="orders"), "operation 'peruse' is not one of"),
        (lambda: allow("alice", "read"), "one resource"),
        (lambda: deny("alice", "read", topic="a", group="b"), "one resource"),
        (lambda: Broker().client_settings("alice"), "no security"),
    ],
)
def test_mistakes_are_named(wrong: object, reason: str) -> None:
    assert callable(wrong)
    with pytest.raises(ValueError, match=reason):
        wrong()


def test_passwords_do_not_show() -> None:
    assert "quoted" not in repr(ALICE)
