"""Commands of operators on a cluster of four brokers: describe it, move partitions, drain brokers, elect leaders."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau import Admin, NewTopic, Producer, TopicPartition
from moldau.cli.broker_drain import Drain, DrainProgress, waiting_for
from moldau.client.admin import ElectionType, OngoingReassignment
from moldau.testing.cluster import Cluster
from tests.cli.conftest import Command, command_for

SETTINGS = {"auto.leader.rebalance.enable": "false", "offsets.topic.num.partitions": 1}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Four brokers in two racks. Every test leaves all of them running and in sync."""
    with Cluster(4, SETTINGS, racks=["north", "south", "north", "south"]) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
def moldau(cluster: Cluster) -> Command:
    """`moldau("cluster", "describe")`: run a command in this process, against the cluster."""
    return command_for(cluster.bootstrap_servers)


def fill(cluster: Cluster, topic: str, records: int = 200) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        for number in range(records):
            producer.send(topic, b"%d" % number)


def replicas(admin: Admin, topic: str) -> list[tuple[int, ...]]:
    return [one.replicas for one in admin.describe_topics(topic)[topic].partitions]


def throttles(moldau: Command, topic: str) -> list[str]:
    """The throttles that are set: for the topic, for brokers."""
    asked = [("--topic", topic), *(("--broker", str(node)) for node in range(4))]
    return [" ".join(one) for one in asked if "throttled" in moldau("configs", "describe", *one).stdout]


def make(admin: Admin, name: str, *assignments: list[int]) -> str:
    admin.create_topics(NewTopic(name, assignments=assignments))
    return name


def test_the_cluster_is_described_with_replicas_per_broker(cluster: Cluster, admin: Admin, moldau: Command) -> None:
    make(admin, "described", [0, 1], [1, 2], [0, 3])
    cluster.wait_in_sync()
    shown = json.loads(moldau("cluster", "describe", "--output", "json").stdout)
    assert [one["rack"] for one in shown["brokers"]] == ["north", "south", "north", "south"]
    assert [one["controller"] for one in shown["brokers"]].count(True) == 1
    assert shown["brokers"][0]["leaders"] >= 2
    assert shown["offline"] == shown["under_replicated"] == 0
    text = moldau("cluster", "describe").stdout
    assert "RACK" in text
    assert f"{shown['partitions']} partitions: " in text


def test_a_stopped_broker_is_shown_with_its_replicas(cluster: Cluster, admin: Admin, moldau: Command) -> None:
    topic = make(admin, "left-behind", [3, 1], [1, 2])
    cluster.wait_in_sync()
    cluster.brokers[3].stop()
    try:
        cluster.wait_until(lambda image: 3 not in image.brokers, "broker 3 is gone")
        shown = json.loads(moldau("cluster", "describe", "--output", "json").stdout)
        gone = shown["brokers"][3]
        assert (gone["id"], gone["alive"], gone["host"], gone["leaders"]) == (3, False, None, 0)
        assert gone["behind"] >= 1
        assert shown["under_replicated"] >= 1
        (found,) = json.loads(moldau("topics", "describe", topic, "--under-replicated-partitions", "-o", "json").stdout)
        assert [one["partition"] for one in found["partitions"]] == [0]
        assert found["partitions"][0]["offline"] == [3]
        assert moldau("topics", "describe", topic, "--unavailable-partitions").stdout == ""
        assert "OFFLINE" in moldau("topics", "describe", topic).stdout
    finally:
        cluster.brokers[3].start()
        cluster.wait_in_sync()


def test_leaders_return_to_their_preferred_brokers(cluster: Cluster, admin: Admin, moldau: Command) -> None:
    topic = make(admin, "elected", [2, 1], [1, 2])
    cluster.wait_in_sync()
    cluster.brokers[2].restart()
    cluster.wait_in_sync()
    assert cluster.leader_of(topic, 0) == 1
    shown = moldau("cluster", "elect", "--topic", topic, "-o", "json")
    assert shown.exit_code == 0, shown.output
    assert [(one["partition"], one["elected"]) for one in json.loads(shown.stdout)] == [(0, True), (1, False)]
    cluster.wait_until(lambda image: image.topics[topic].partitions[0].leader == 2, "broker 2 leads again")
    again = moldau("cluster", "elect", "--topic", topic)
    assert "no election needed: 2 partitions led by their preferred replica" in again.stdout
    again = moldau("cluster", "elect", "--topic", topic, "--unclean")
    assert "no election needed: 2 partitions with a leader" in again.stdout
    assert moldau("cluster", "elect").exit_code == 2
    failed = moldau("cluster", "elect", "--topic", topic, "--partition", "7")
    assert failed.exit_code == 1
    assert "elected-7" in failed.stdout


def test_a_partition_without_a_leader_gets_one_by_an_unclean_election(
    cluster: Cluster, admin: Admin, moldau: Command
) -> None:
    topic = make(admin, "unclean", [3, 2])
    partition = TopicPartition(topic, 0)
    cluster.wait_in_sync()
    cluster.brokers[2].stop()
    cluster.wait_until(lambda image: image.topics[topic].partitions[0].isr == (3,), "only 3 is in sync")
    fill(cluster, topic, 10)
    cluster.brokers[3].crash()
    cluster.brokers[2].start()
    try:
        cluster.wait_until(lambda image: 2 in image.brokers and 3 not in image.brokers)
        (one,) = admin.describe_topics(topic)[topic].partitions
        assert one.leader is None
        assert moldau("topics", "describe", topic, "--unavailable-partitions").exit_code == 0
        assert moldau("cluster", "elect", "--topic", topic).exit_code == 1, "the preferred leader is not running"
        assert admin.elect_leaders(ElectionType.UNCLEAN, partition) == {partition: True}
        cluster.wait_until(lambda image: image.topics[topic].partitions[0].leader == 2)
    finally:
        cluster.brokers[3].start()
        cluster.wait_in_sync()


def test_a_plan_is_made_shown_carried_out_and_verified(
    cluster: Cluster, admin: Admin, moldau: Command, tmp_path: Path
) -> None:
    topic = make(admin, "planned", [0, 1], [0, 1], [0, 1])
    fill(cluster, topic)
    plan, back = tmp_path / "plan.json", tmp_path / "back.json"
    made = moldau("cluster", "reassign", "--generate", "--topic", topic, "--brokers", "2,3")
    assert made.exit_code == 0, made.output
    plan.write_text(made.stdout)
    shown = moldau("cluster", "reassign", "--file", str(plan), "-o", "json")
    assert {one["state"] for one in json.loads(shown.stdout)} == {"elsewhere"}
    assert moldau("cluster", "reassign", "--file", str(plan), "--verify").exit_code == 1
    begun = moldau(
        "cluster", "reassign", "--file", str(plan), "--execute", "--throttle", "10000000", "--save-current", str(back)
    )
    assert begun.exit_code == 0, begun.output
    assert begun.stdout.startswith("3 started, 0 already in place; ")
    cluster.wait_until(
        lambda image: all(set(one.replicas) == {2, 3} for one in image.topics[topic].partitions), "the plan is done"
    )
    assert moldau("cluster", "reassign", "--file", str(plan), "--verify").exit_code == 0
    assert "throttled" not in moldau("topics", "describe", topic).stdout
    again = moldau("cluster", "reassign", "--file", str(plan), "--execute")
    assert (again.exit_code, again.stdout) == (0, "0 started, 3 already in place\n")
    mixed = json.loads(back.read_text())
    mixed["partitions"][1]["replicas"] = json.loads(plan.read_text())["partitions"][1]["replicas"]
    (tmp_path / "mixed.json").write_text(json.dumps(mixed))
    some = moldau("cluster", "reassign", "--file", str(tmp_path / "mixed.json"), "--execute")
    assert some.stdout.startswith("2 started, 1 already in place; ")
    assert moldau("cluster", "reassign", "--file", str(back), "--execute").exit_code == 0
    cluster.wait_until(lambda image: all(one.replicas == (0, 1) for one in image.topics[topic].partitions))
    assert moldau("cluster", "reassign", "--file", str(plan), "--cancel").stdout == "cancelled: 0 partitions\n"


def test_a_topic_gets_more_replicas(cluster: Cluster, admin: Admin, moldau: Command, tmp_path: Path) -> None:
    topic = make(admin, "widened", [0], [1])
    fill(cluster, topic)
    plan = tmp_path / "plan.json"
    plan.write_text(moldau("cluster", "reassign", "--generate", "--topic", topic, "--replication-factor", "3").stdout)
    assert moldau("cluster", "reassign", "--file", str(plan), "--execute").exit_code == 0
    cluster.wait_until(
        lambda image: all(len(one.isr) == 3 for one in image.topics[topic].partitions),
        "each partition has three replicas",
    )
    assert [one[0] for one in replicas(admin, topic)] == [0, 1]
    # With three replicas it could not leave a broker while another one is down, which a later test has.
    admin.delete_topics(topic)
    cluster.wait_until(lambda image: topic not in image.topics, "the topic is deleted")


def test_a_reassignment_can_be_cancelled(cluster: Cluster, admin: Admin, moldau: Command, tmp_path: Path) -> None:
    topic = make(admin, "taken-back", [0, 1])
    fill(cluster, topic)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "replicas": [0, 3]}]}))
    slow = moldau("cluster", "reassign", "--file", str(plan), "--execute", "--throttle", "1")
    assert slow.exit_code == 0, slow.output
    assert len(throttles(moldau, topic)) == 5, "throttles are set for the topic and for four brokers"
    assert moldau("topics", "describe", topic, "--under-replicated-partitions").stdout == "", (
        "added replicas do not count as missing"
    )
    assert json.loads(moldau("cluster", "describe", "-o", "json").stdout)["under_replicated"] == 0
    assert moldau("cluster", "reassign", "--file", str(plan), "--verify").exit_code in (0, 3)
    assert moldau("cluster", "reassign", "--file", str(plan), "--cancel").exit_code == 0
    cluster.wait_until(lambda image: not image.topics[topic].partitions[0].adding)
    assert not throttles(moldau, topic)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not a valid JSON"),
        ("[]", "the JSON must be"),
        ('{"partitions": [{"topic": "a", "partition": 0}]}', "needs topic, partition and replicas"),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1, 1]}]}',
            "duplicate entries: a-0 contains multiple entries for 1",
        ),
        ('{"partitions": [], "version": 1}', "list cannot be empty"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": []}]}', "list cannot be empty: a-0"),
        ('{"version": 2, "partitions": []}', "version 2"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(moldau: Command, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    result = moldau("cluster", "reassign", "--file", str(tmp_path / "plan.json"), "--execute")
    assert result.exit_code == 1
    assert says in result.stderr


def test_a_plan_for_a_broker_that_is_not_there_is_refused_and_leaves_no_throttle(
    admin: Admin, moldau: Command, tmp_path: Path
) -> None:
    topic = make(admin, "nowhere", [0, 1])
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "replicas": [0, 77]}]}))
    shown = moldau("cluster", "reassign", "--file", str(plan))
    assert shown.exit_code == 1
    assert "there is no broker 77 in the cluster, only 0, 1, 2, 3" in shown.stderr
    refused = moldau("cluster", "reassign", "--file", str(plan), "--execute", "--throttle", "1000")
    assert refused.exit_code == 1
    assert "Broker 77 is not registered" in refused.stderr
    assert not throttles(moldau, topic)


@pytest.mark.parametrize(
    "option", [("--throttle", "5"), ("--save-current", "back"), ("--topic", "t"), ("--brokers", "1"), ("--verify",)]
)
def test_an_option_that_would_have_no_effect_is_refused(moldau: Command, option: tuple[str, ...]) -> None:
    other = ("--execute",) if option[0] not in ("--throttle", "--save-current") else ()
    assert moldau("cluster", "reassign", "--file", "plan.json", *other, *option).exit_code == 2


def test_draining_a_broker_moves_its_replicas_to_others(cluster: Cluster, admin: Admin, moldau: Command) -> None:
    topic = make(admin, "drained", *([[3, 0], [0, 3], [3, 1], [1, 2]] * 2))
    fill(cluster, topic)
    result = moldau("cluster", "drain", "3", "--batch", "2", "--throttle", "50000000", "--timeout", "30")
    assert result.exit_code == 0, result.output
    assert "broker 3 has no replicas any more" in result.stdout
    held = replicas(admin, topic)
    assert all(3 not in one for one in held)
    assert all(len({node % 2 for node in one}) == 2 for one in held if one != (1, 2)), (
        "replicas must stay in both racks"
    )
    shown = json.loads(moldau("cluster", "describe", "-o", "json").stdout)
    assert shown["brokers"][3]["replicas"] == 0
    assert result.stdout.endswith("New topics may still be placed on it until it is stopped.\n")
    again = moldau("cluster", "drain", "3")
    assert (again.exit_code, again.stdout.splitlines()[0]) == (0, "broker 3 has no replicas")
    assert "throttled" not in moldau("topics", "describe", topic).stdout


def test_a_dead_broker_is_drained_by_the_live_ones(cluster: Cluster, admin: Admin, moldau: Command) -> None:
    topic = make(admin, "bereaved", [3, 0], [1, 3])
    fill(cluster, topic)
    cluster.brokers[3].crash()
    try:
        result = moldau("cluster", "drain", "3", "--timeout", "30")
        assert result.exit_code == 0, result.output
        held = replicas(admin, topic)
        assert all(3 not in one and len(one) == 2 for one in held)
        cluster.wait_until(lambda image: all(len(one.isr) == 2 for one in image.topics[topic].partitions))
    finally:
        cluster.brokers[3].start()
        cluster.wait_in_sync()


def test_an_interrupted_drain_is_resumed(cluster: Cluster, admin: Admin) -> None:
    topic = make(admin, "broken-off", *([[3, 0]] * 6))
    fill(cluster, topic)
    looks: list[DrainProgress] = []

    def drain(stop: bool) -> Drain:
        def wait(_seconds: float) -> bool:
            time.sleep(0.01)  # the pause of the command between two looks, made shorter
            return stop

        return Drain(admin, 3, at_once=2, throttle=None, timeout_s=30, wait=wait, tell=looks.append)

    assert not drain(stop=True).run(), "two at a time: the drain cannot be complete after the first look"
    again = drain(stop=False)
    assert again.run()
    assert again.tally.partitions_done == again.tally.partitions
    assert max(len(look.moving) for look in looks) <= 2
    assert all(3 not in one for one in replicas(admin, topic))


def test_an_impossible_drain_is_refused_with_its_reason(admin: Admin, moldau: Command) -> None:
    make(admin, "everywhere", [0, 1, 2, 3])
    try:
        result = moldau("cluster", "drain", "2")
        assert result.exit_code == 1
        assert "everywhere-0 has 4 replicas, but without broker 2 there are 3 brokers" in result.stderr
        assert "add a broker, or reduce the number of replicas" in result.stderr
    finally:
        admin.delete_topics("everywhere")
    result = moldau("cluster", "drain", "77")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no broker 77 in the cluster, only 0, 1, 2, 3" in result.stderr


def test_a_drain_continues_with_living_brokers_when_a_target_broker_dies(cluster: Cluster, admin: Admin) -> None:
    topic = make(admin, "widowed", *([[3, 0]] * 6))
    fill(cluster, topic)
    crashed = cluster.brokers[1]

    def wait(_seconds: float) -> bool:
        if crashed.runs and not run.tally.moving:
            crashed.crash()
            cluster.wait_until(lambda image: 1 not in image.brokers, "broker 1 is gone")
        time.sleep(0.01)  # the pause of the command between two looks, made shorter
        return False

    run = Drain(admin, 3, at_once=1, throttle=None, timeout_s=30, wait=wait, tell=lambda _: None)
    try:
        assert run.run()
    finally:
        crashed.start()
        cluster.wait_in_sync()
    assert all(3 not in one for one in replicas(admin, topic))


def test_a_drain_that_waits_for_a_stopped_broker_reports_it() -> None:
    moving = {TopicPartition("orders", 0): OngoingReassignment((3, 0, 2), adding=(2,), removing=(3,))}
    assert waiting_for(DrainProgress(moving=moving)) == "orders-0 on 2"
    told = waiting_for(DrainProgress(moving=moving, away=frozenset([2])))
    assert told == "orders-0 on 2. Broker 2 is not running: start it, or drain it as well"


def test_partitions_under_and_at_min_isr_are_judged_by_their_replica_count(
    cluster: Cluster, admin: Admin, moldau: Command
) -> None:
    admin.create_topics(
        [
            NewTopic("one-of-two", assignments=[[0]], configs={"min.insync.replicas": "2"}),
            NewTopic("two-of-two", assignments=[[1, 2]], configs={"min.insync.replicas": "2"}),
            NewTopic("two-of-one", assignments=[[1, 2]], configs={"min.insync.replicas": "1"}),
        ]
    )
    cluster.wait_in_sync()

    def described(flag: str) -> set[str]:
        shown = moldau("topics", "describe", flag, "--output", "json")
        assert shown.exit_code == 0, shown.output
        return {one["topic"] for one in json.loads(shown.stdout)} & {"one-of-two", "two-of-two", "two-of-one"}

    assert described("--under-min-isr-partitions") == set()
    assert described("--at-min-isr-partitions") == {"one-of-two", "two-of-two"}
