"""Rules are in force at once: on open connections, for waiting requests, for subscriptions, and on every broker."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence

import pytest

from moldau.host.event_log import event_of, facts_of
from moldau.security import ANONYMOUS, CLUSTER_NAME, Operation, ResourceType
from moldau.security.acls import AclEntry, AclRule, PatternType, Permission, ResourcePattern
from moldau.settings.authorization import KAFKA_AUTHORIZERS
from moldau.testing import Broker, Cluster
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from moldau.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestFilter
from moldau.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
)
from tests.authorization.matrix import CLUSTER, TOPIC
from tests.authorization.moldau_server import moldau_server
from tests.authorization.play import ADMIN, Server, find_group_coordinator, password_of
from tests.compat import wire
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

ALLOW, DENY = Permission.ALLOW, Permission.DENY
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with moldau_server({user: password_of(user) for user in (ADMIN, "alice")}) as found:
        yield found


@pytest.fixture
def admin(server: Server) -> Iterator[RawConnection]:
    with server.connect(ADMIN) as connection:
        yield connection


@pytest.fixture
def alice(server: Server) -> Iterator[RawConnection]:
    with server.connect("alice") as connection:
        yield connection


@pytest.fixture
def topic(admin: RawConnection) -> str:
    name = f"in-force-{next(NUMBERS)}"
    wire.create_topic(admin, name, 1, {})
    return name


def rule(
    name: str,
    operation: Operation = Operation.READ,
    permission: Permission = ALLOW,
    *,
    kind: ResourceType = TOPIC,
    host: str = "*",
    who: str = "User:alice",
    pattern: PatternType = PatternType.LITERAL,
) -> AclRule:
    return AclRule(ResourcePattern(kind, name, pattern), AclEntry(who, host, operation, permission))


def delete_rules(admin: RawConnection, name: str) -> None:
    one = DeleteAclsRequestFilter(
        resource_type_filter=TOPIC,
        resource_name_filter=name,
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    (answer,) = wire.ask(admin, DeleteAclsRequest(filters=[one])).filter_results
    assert answer.error_code == 0 and answer.matching_acls


def test_changed_rules_are_in_force_on_open_connections(
    server: Server, admin: RawConnection, alice: RawConnection, topic: str
) -> None:
    assert wire.fetch_one(alice, topic).error_code == DENIED
    server.add_rules([rule(topic)])
    assert wire.fetch_one(alice, topic).error_code == 0
    server.add_rules([rule(topic, permission=DENY)])
    assert wire.fetch_one(alice, topic).error_code == DENIED
    delete_rules(admin, topic)
    server.add_rules([rule(topic)])
    assert wire.fetch_one(alice, topic).error_code == 0


def test_a_waiting_fetch_gets_nothing_that_its_client_may_no_longer_read(
    server: Server, admin: RawConnection, alice: RawConnection, topic: str
) -> None:
    server.add_rules([rule(topic)])
    request = wire.fetch_request(topic, [wire.fetch_partition()], max_wait_ms=60_000)
    alice.send(wire.APIS[request.API_KEY].key, wire.FETCH_VERSION, request.encode(wire.FETCH_VERSION))
    delete_rules(admin, topic)
    wire.produced(admin, topic, b"secret")
    api = wire.APIS[request.API_KEY]
    answer = wire.only_partition(alice.receive(api.key, wire.FETCH_VERSION, api.response_type()))
    assert (answer.error_code, answer.records or b"") == (DENIED, b"")


@pytest.mark.parametrize(("network", "allowed"), [("127.0.0.0/8", True), ("10.0.0.0/8", False), ("127.0.0.1", True)])
def test_a_rule_may_name_a_network(
    server: Server, alice: RawConnection, topic: str, network: str, allowed: bool
) -> None:
    server.add_rules([rule(topic, host=network)])
    assert wire.fetch_one(alice, topic).error_code == (0 if allowed else DENIED)


def test_a_client_that_claims_to_be_a_replica_does_not_end_the_session_of_the_real_one(
    server: Server, admin: RawConnection, alice: RawConnection, topic: str
) -> None:
    def as_replica(connection: RawConnection, session_id: int, epoch: int) -> wire.FetchResponse:
        partitions = [wire.fetch_partition()] if epoch == 0 else []
        request = wire.fetch_request(topic if epoch == 0 else None, partitions, replica_id=7)
        request.session_id, request.session_epoch = session_id, epoch
        answer: wire.FetchResponse = wire.ask(connection, request, wire.FETCH_VERSION)
        return answer

    session_id = as_replica(admin, 0, 0).session_id
    assert session_id
    refused = as_replica(alice, 0, 0)
    assert refused.session_id == 0
    assert wire.only_partition(refused).error_code == DENIED
    assert as_replica(admin, session_id, 1).error_code == 0


def test_the_pages_of_a_description_do_not_name_hidden_topics(
    server: Server, admin: RawConnection, alice: RawConnection
) -> None:
    prefix = f"page-{next(NUMBERS)}"
    names = [f"{prefix}-{name}" for name in ("a", "b-hidden", "c")]
    for name in names:
        wire.create_topic(admin, name, 1, {})
    server.add_rules([rule(name, Operation.DESCRIBE) for name in names if "hidden" not in name])
    request = DescribeTopicPartitionsRequest(
        topics=[],
        response_partition_limit=1,
        cursor=DescribeTopicPartitionsRequestCursor(topic_name=prefix, partition_index=0),
    )
    answer = wire.ask(alice, request)
    assert [one.name for one in answer.topics] == [names[0]]
    assert answer.next_cursor.topic_name == names[2]


# Subscriptions --------------------------------------------------------------------------------------------------------


def heartbeat(
    alice: RawConnection, group: str, epoch: int, regex: str | None, owned: Sequence[bytes] = ()
) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="member-of-alice-000000",
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[] if epoch == 0 else None,
        subscribed_topic_regex=regex,
        topic_partitions=[ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=one, partitions=[0]) for one in owned],
    )
    answer: ConsumerGroupHeartbeatResponse = wire.ask(alice, request, 1)
    assert answer.error_code == 0, answer
    return answer


def assigned(answer: ConsumerGroupHeartbeatResponse) -> list[bytes]:
    return [] if answer.assignment is None else sorted(one.topic_id for one in answer.assignment.topic_partitions)


def test_a_pattern_matches_only_topics_that_the_member_may_describe(
    server: Server, admin: RawConnection, alice: RawConnection
) -> None:
    prefix = f"pattern-{next(NUMBERS)}"
    shown, hidden = f"{prefix}-shown", f"{prefix}-hidden"
    for name in (shown, hidden):
        wire.create_topic(admin, name, 1, {})
    ids = {name: wire.topic_id(admin, name) for name in (shown, hidden)}
    server.add_rules([rule(shown, Operation.DESCRIBE), rule(prefix, kind=ResourceType.GROUP)])
    find_group_coordinator(admin)
    joined = heartbeat(alice, prefix, 0, f"{prefix}-.*")
    assert assigned(joined) == [ids[shown]]
    server.add_rules([rule(hidden, Operation.DESCRIBE)])
    more = heartbeat(alice, prefix, joined.member_epoch, None, [ids[shown]])
    assert assigned(more) == sorted(ids.values())
    delete_rules(admin, shown)
    fewer = heartbeat(alice, prefix, more.member_epoch, None, sorted(ids.values()))
    assert assigned(fewer) == [ids[hidden]]


# Audit log ------------------------------------------------------------------------------------------------------------


def test_denials_are_audited_and_counted_but_not_what_a_list_leaves_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = {"authorizer.class.name": KAFKA_AUTHORIZERS[0], "super.users": "User:nobody"}
    with Broker(settings, log_level=logging.INFO) as broker, caplog.at_level(logging.INFO, "moldau.audit"):
        broker.create_topic("orders")
        with RawConnection(broker.bootstrap_servers) as raw:
            assert wire.metadata(raw, None).topics == []
            assert not [one for one in caplog.records if one.name == "moldau.audit"]
            for answer in wire.list_offsets_of(raw, "orders", [(0, wire.LATEST), (1, wire.LATEST)]):
                assert answer.error_code == DENIED
        (record,) = [one for one in caplog.records if one.name == "moldau.audit"]
        assert event_of(record) == "operation denied"
        assert facts_of(record) == {
            "who": "User:ANONYMOUS",
            "host": "127.0.0.1",
            "operation": "DESCRIBE",
            "resource": "TOPIC:orders",
            "api": "ListOffsets",
            "rule": "no rule",
        }
        life = broker._running()
        assert life.call(lambda: life.broker.metrics.authorization_denied) == 1


def test_without_rules_everyone_may_if_the_setting_says_so() -> None:
    settings = {"authorizer.class.name": KAFKA_AUTHORIZERS[1], "allow.everyone.if.no.acl.found": True}
    with Broker(settings) as broker, RawConnection(broker.bootstrap_servers) as raw:
        wire.create_topic(raw, "orders", 1, {})
        wire.produced(raw, "orders", b"v")


# Cluster --------------------------------------------------------------------------------------------------------------


def test_rules_are_in_force_on_every_broker_and_brokers_need_cluster_action() -> None:
    """All clients and brokers of this cluster are anonymous, and only rules tell what they may."""
    settings = {"authorizer.class.name": KAFKA_AUTHORIZERS[0], "super.users": "User:nobody"}
    with Cluster(2, settings=settings) as cluster:
        who = str(ANONYMOUS)
        add(cluster.brokers[0], rule(CLUSTER_NAME, Operation.CLUSTER_ACTION, kind=CLUSTER, who=who))
        cluster.create_topic("orders", partitions=2, replication_factor=2, configs={"min.insync.replicas": 2})
        for index in range(2):
            leader = cluster.brokers[cluster.leader_of("orders", index)]
            with RawConnection(leader.bootstrap_servers) as raw:
                assert wire.produce(raw, "orders", wire.batch_of(b"v"), partition=index).error_code == DENIED
        add(cluster.brokers[0], rule("orders", Operation.WRITE, who=who))
        for index in range(2):
            leader = cluster.brokers[cluster.leader_of("orders", index)]
            with RawConnection(leader.bootstrap_servers) as raw:
                wait_until(
                    lambda raw=raw, index=index: (
                        wire.produce(  # type: ignore[misc]
                            raw, "orders", wire.batch_of(b"v"), partition=index
                        ).error_code
                        == 0
                    )
                )


def add(broker: Broker, *rules: AclRule) -> None:
    life = broker._running()
    assert life.run(life.broker.metadata.security.create_acls(rules)) == [None] * len(rules)
