"""Losses with settings weaker than acks=all, min.insync.replicas=2 and no unclean elections.

Each test compares a loss with the stronger setting, which loses nothing or acknowledges nothing in the same case. The
records are few and the test waits for every step, so that the same records are lost each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from moldau import Admin, NewTopic, TopicPartition
from moldau.client.admin.replicas import ElectionType
from moldau.records import peek_header
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from tests.support.raw import RawConnection
from tests.support.waiting import NETWORK_ERRORS, NotYet, wait_until
from tests.system import calls
from tests.system.cluster import rebooted_broker
from tests.system.cluster.checks import batches
from tests.system.cluster.harness import PATIENCE_S, ClusterBroker, ProcessCluster

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(120)]

EVERYTHING_BEFORE = [b"before-0", b"before-1"]
LEADER_ONLY, ALL = 1, -1


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path_factory.mktemp("weak")) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: ProcessCluster) -> Iterator[ProcessCluster]:
    """Three brokers, with only the topics of this test: a fault in this test may lose records of other topics."""
    shared.wait_whole()
    yield shared
    shared.start()
    with Admin(bootstrap_servers=shared.bootstrap) as admin:
        admin.delete_topics(list(shared.known()))


def test_acks_1_loses_records_acknowledged_before_they_were_replicated(cluster: ProcessCluster) -> None:
    create(cluster, "hasty", (1, 2, 3), "2")
    leader, *followers = cluster.brokers.values()
    with RawConnection(leader.bootstrap) as connection:
        calls.produce(connection, "hasty", 0, EVERYTHING_BEFORE)
        for follower in followers:
            follower.pause()
        # Each follower has one fetch in flight, and the first of these records answers it. Nobody fetches the others.
        offsets = [calls.produce(connection, "hasty", 0, [b"after-%d" % number], LEADER_ONLY) for number in range(5)]
        assert offsets == [2, 3, 4, 5, 6], "the records were not acknowledged"
    leader.kill()
    for follower in followers:
        follower.resume()
    assert values(cluster, "hasty", without=leader)[:2] == EVERYTHING_BEFORE
    leader.start()
    cluster.wait_whole(["hasty"])
    found = values(cluster, "hasty")
    assert found[:2] == EVERYTHING_BEFORE
    assert b"after-4" not in found, (
        "records acknowledged with acks=1 must be gone: the old leader truncates what no follower has"
    )


def test_acks_all_acknowledges_nothing_that_was_not_copied(cluster: ProcessCluster) -> None:
    create(cluster, "careful", (1, 2, 3), "2")
    leader, *followers = cluster.brokers.values()
    with RawConnection(leader.bootstrap) as connection:
        calls.produce(connection, "careful", 0, EVERYTHING_BEFORE)
        for follower in followers:
            follower.pause()
        body = calls.produce_body("careful", 0, calls.batch_of([b"after"]), ALL)
        connection.send(ApiKey.PRODUCE, calls.PRODUCE_VERSION, body)
        wait_written(leader, "careful", 3)
        with RawConnection(leader.bootstrap) as another:
            assert calls.offset_of(another, "careful", 0) == 2, (
                "the leader has the record, but it is above the high watermark"
            )
        connection.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.socket.recv(1)  # and the producer got no acknowledgement
    leader.kill()
    for follower in followers:
        follower.resume()
    assert values(cluster, "careful", without=leader)[:2] == EVERYTHING_BEFORE


def test_an_unclean_election_loses_records_of_the_dead_leader(cluster: ProcessCluster) -> None:
    for topic in ("patient", "impatient"):
        create(cluster, topic, (1, 2), "1")
    alone, stale, _ = cluster.brokers.values()
    write(alone, ["patient", "impatient"], EVERYTHING_BEFORE)
    assert stale.stop() == 0, stale.log
    wait_isr(cluster, ["patient", "impatient"], {1})
    write(alone, ["patient", "impatient"], [b"after"])
    alone.kill()
    stale.start()
    for topic in ("patient", "impatient"):
        wait_until(partial(without_leader, cluster, topic), "no leader", PATIENCE_S, retry_on=NETWORK_ERRORS)
    with Admin(bootstrap_servers=stale.bootstrap) as admin:
        admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition("impatient", 0)])
    assert values(cluster, "impatient", without=alone) == EVERYTHING_BEFORE, (
        "the partition must be available again, without the last record"
    )
    assert cluster.describe("patient")[0].leader == -1, "the other topic must have no leader"
    alone.start()
    cluster.wait_whole(["patient", "impatient"])
    assert values(cluster, "patient") == [*EVERYTHING_BEFORE, b"after"]
    assert values(cluster, "impatient") == EVERYTHING_BEFORE


def test_min_insync_replicas_1_loses_records_of_a_single_disk_when_its_machine_loses_power(
    cluster: ProcessCluster,
) -> None:
    create(cluster, "one-disk", (1, 2), "1")
    create(cluster, "two-disks", (1, 2), "2")
    alone, other, _ = cluster.brokers.values()
    write(alone, ["one-disk", "two-disks"], EVERYTHING_BEFORE)
    assert other.stop() == 0, other.log
    wait_isr(cluster, ["one-disk", "two-disks"], {1})
    with RawConnection(alone.bootstrap) as connection:
        size = segment(alone, "one-disk").stat().st_size
        assert calls.produce(connection, "one-disk", 0, [b"after"]) == 2
        refused = calls.try_produce(connection, "two-disks", 0, [b"after"])
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS, (
            "with min.insync.replicas=2, one replica must not acknowledge"
        )
    lose_power(alone, {"one-disk": size})
    alone.start()
    other.start()
    cluster.wait_whole(["two-disks"])
    assert values(cluster, "two-disks") == EVERYTHING_BEFORE
    wait_until(partial(without_leader, cluster, "one-disk"), "no leader", PATIENCE_S, retry_on=NETWORK_ERRORS)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition("one-disk", 0)])
    assert values(cluster, "one-disk") == EVERYTHING_BEFORE, "the record that only one in-sync replica had must be gone"
    back_to_normal(alone)


# -- helpers -----------------------------------------------------------------------------------------------------------


def create(cluster: ProcessCluster, topic: str, replicas: tuple[int, ...], min_insync: str) -> None:
    configs = {"min.insync.replicas": min_insync, "unclean.leader.election.enable": "false"}
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, assignments=[replicas], configs=configs)])
    assert cluster.wait_whole([topic])[topic][0].leader == replicas[0]


def write(leader: ClusterBroker, topics: list[str], what: list[bytes]) -> None:
    with RawConnection(leader.bootstrap) as connection:
        for topic in topics:
            calls.produce(connection, topic, 0, what)


def values(cluster: ProcessCluster, topic: str, without: ClusterBroker | None = None) -> list[bytes | None]:
    """All values that can be read from a leader other than this broker."""

    def look() -> list[bytes | None]:
        state = cluster.describe(topic).get(0)
        if state is None or state.leader < 0 or cluster.brokers[state.leader] is without:
            raise NotYet(f"{topic} has no leader: {state}")
        with RawConnection(cluster.brokers[state.leader].bootstrap) as connection:
            answer = calls.fetch(connection, topic, 0, 0)
            if answer.error_code != ErrorCode.NONE:
                raise NotYet(ErrorCode(answer.error_code).name)
            return [record.value for record in calls.read_all(connection, topic, 0)]

    found: list[bytes | None] = wait_until(look, f"records of {topic}", PATIENCE_S, retry_on=NETWORK_ERRORS)
    return found


def wait_isr(cluster: ProcessCluster, topics: list[str], wanted: set[int]) -> None:
    def look() -> bool:
        for topic in topics:
            for broker in cluster.living:
                state = broker.ask_metadata(topic).topics[0].partitions[0]
                if set(state.isr_nodes) != wanted:
                    raise NotYet(f"{broker.name} says that {state.isr_nodes} are in sync in {topic}")
        return True

    wait_until(look, f"the ISR is {wanted}", PATIENCE_S, retry_on=NETWORK_ERRORS)


def without_leader(cluster: ProcessCluster, topic: str) -> bool:
    for broker in cluster.living:
        state = broker.ask_metadata(topic).topics[0].partitions[0]
        if state.leader_id != -1:
            raise NotYet(f"{broker.name} says that {state.leader_id} leads {topic}")
    return True


def wait_written(leader: ClusterBroker, topic: str, end: int) -> None:
    """Return when the leader's own log file ends at this offset, regardless of replication."""

    def look() -> bool:
        last = peek_header(list(batches(leader.data / f"{topic}-0", end))[-1])
        if last.last_offset + 1 != end:
            raise NotYet(f"{topic} ends after {last.last_offset}")
        return True

    wait_until(look, f"the log end offset {end}", PATIENCE_S, retry_on=NETWORK_ERRORS)


def segment(broker: ClusterBroker, topic: str) -> Path:
    (found,) = (broker.data / f"{topic}-0").glob("*.log")
    return found


def lose_power(broker: ClusterBroker, sizes: dict[str, int]) -> None:
    """SIGKILL, loss of the unsynced end of some logs, and a next start on a machine that has booted since."""
    broker.kill()
    for topic, size in sizes.items():
        with segment(broker, topic).open("r+b") as file:
            file.truncate(size)
    broker.module = rebooted_broker.__name__


def back_to_normal(broker: ClusterBroker) -> None:
    """Let the next start run with this machine's real boot id, which the broker takes for another boot."""
    assert broker.stop() == 0, broker.log
    broker.module = "moldau"
