"""Operations on a cluster during writes: restarts, moves, growth and replacement, unnoticed by producers.

All tests share one cluster. Each leaves it whole, with brokers 1, 2 and 3.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from moldau import Admin, TopicPartition
from tests.support.raw import RawConnection
from tests.support.waiting import NETWORK_ERRORS, NotYet, wait_until
from tests.system import calls
from tests.system.chaos.group_members import GroupMembers, Processed
from tests.system.chaos.member import Options
from tests.system.cluster.checks import check_numbers
from tests.system.cluster.harness import PATIENCE_S, SESSION_TIMEOUT_S, PartitionSeen, ProcessCluster, accidents
from tests.system.cluster.writers import ConfluentWriter, MoldauWriter, Writer
from tests.system.cluster.zookeeper import pause, resume

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(120)]

PARTITIONS = 3
RECORDS_A_TICK = 6
RECORDS_BETWEEN = 100
IDS = {1, 2, 3}

LONGEST_SILENCE_S = 2.0
"""The longest wait between two acknowledgements during a rolling restart. It is shorter than any client's time-out."""

NOTICE_S = 4.0
"""The time for a new controller to be elected and known everywhere, after the session of the old one has ended."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path_factory.mktemp("operations")) as cluster:
        yield cluster
    assert not "\n".join(accidents(cluster.brokers.values()))


@pytest.fixture
def cluster(shared: ProcessCluster) -> Iterator[ProcessCluster]:
    yield shared
    assert {broker.id for broker in shared.living} == IDS, "the test has not restored the cluster"
    shared.wait_whole()


@contextmanager
def load(cluster: ProcessCluster, name: str) -> Iterator[list[Writer]]:
    """Two writers, each on its own topic. At the end, all their records are there, once and in order."""
    topics = [f"{name}-confluent", f"{name}-moldau"]
    for topic in topics:
        cluster.create_topic(topic, PARTITIONS)
    with (
        ConfluentWriter(cluster.client_settings, topics[0], PARTITIONS, RECORDS_A_TICK) as one,
        MoldauWriter(cluster.client_settings, topics[1], PARTITIONS, RECORDS_A_TICK) as other,
    ):
        writers = [one, other]
        wait_for_progress(writers)
        yield writers
        wait_for_progress(writers)
        for writer in writers:
            writer.end(PATIENCE_S)
    for reader, writer in zip(("moldau", "confluent-kafka"), writers, strict=True):
        check_numbers(reader, cluster.client_settings, writer.topic, writer.written)


def wait_for_progress(writers: list[Writer]) -> None:
    for writer in writers:
        writer.wait_for_progress(RECORDS_BETWEEN, PATIENCE_S)


def test_all_brokers_are_restarted_in_turn_and_no_client_sees_an_error(cluster: ProcessCluster) -> None:
    with load(cluster, "rolling") as writers:
        processed = Processed(PARTITIONS)
        with GroupMembers(processed) as members:
            for client in ("confluent-kafka", "moldau"):
                members.start(member(cluster, client, writers[0].topic)).wait_ready()
            read = processed.total
            assert processed.wait_for(lambda: read() > RECORDS_BETWEEN, PATIENCE_S)
            for writer in writers:
                writer.longest_silence_s = 0.0
            for number in sorted(IDS):
                broker = cluster.brokers[number]
                assert broker.stop() == 0, broker.log
                wait_for_progress(writers)
                broker.start()
                cluster.wait_whole()
            target = sum(writers[0].written)
            assert processed.wait_for(lambda: read() >= target, PATIENCE_S), processed.missing(writers[0].written)
            members.check()
            refusals = [line for one in members.running.values() for line in one.story if line.startswith("refused")]
        assert not refusals
        for writer in writers:
            assert writer.longest_silence_s < LONGEST_SILENCE_S, f"{writer} waited {writer.longest_silence_s:.1f} s"


def test_another_controller_takes_over_when_the_first_is_killed(cluster: ProcessCluster) -> None:
    with load(cluster, "controller") as writers:
        old = cluster.brokers[cluster.controller_id]
        old.kill()

        def successor() -> int:
            found = {broker.ask_metadata("").controller_id for broker in cluster.living}
            if len(found) != 1 or found <= {old.id, -1}:
                raise NotYet(f"the controllers are {found}")
            return found.pop()

        limit_s = SESSION_TIMEOUT_S + NOTICE_S
        assert wait_until(successor, "another controller", limit_s, retry_on=NETWORK_ERRORS) in IDS - {old.id}
        wait_for_progress(writers)
        with RawConnection(cluster.living[0].bootstrap) as connection:
            calls.create_topic(connection, "of-the-successor", PARTITIONS, replication_factor=2)
        old.start()
        cluster.wait_whole()


def test_producers_continue_after_zookeeper_was_away_and_all_sessions_were_lost(
    cluster: ProcessCluster,
) -> None:
    with load(cluster, "sessions") as writers:
        (server,) = cluster.zookeeper.servers
        lost, returned = told_by_all(cluster, "session with the metadata store is lost", "registered again")
        pause(server)
        try:
            wait_until(lost, "all sessions are lost", PATIENCE_S, retry_on=NETWORK_ERRORS)
        finally:
            resume(server)
        wait_until(returned, "all brokers are registered again", PATIENCE_S, retry_on=NETWORK_ERRORS)
        cluster.wait_whole()
        wait_for_progress(writers)


def told_by_all(cluster: ProcessCluster, *texts: str) -> list[Callable[[], bool]]:
    """For each text: a function that returns whether all brokers have logged it once more than now."""
    before = {(broker.id, text): broker.log.count(text) for broker in cluster.living for text in texts}

    def look(text: str) -> bool:
        silent = [one.name for one in cluster.living if one.log.count(text) <= before[one.id, text]]
        if silent:
            raise NotYet(f"not in the logs of {silent}: {text}")
        return True

    return [partial(look, text) for text in texts]


def test_partitions_move_to_other_brokers_while_they_are_written(cluster: ProcessCluster) -> None:
    with load(cluster, "moving") as writers, newcomer(cluster, 4) as data:
        for writer in writers:
            reassign(cluster, writer.topic, lambda state: (4, *state.replicas[:2]))
            wait_for_progress(writers)
        for writer in writers:
            seen = cluster.describe(writer.topic)
            assert all(4 in state.replicas for state in seen.values()), seen
            assert (data / f"{writer.topic}-0").is_dir()
            wait_until(partial(gone, cluster, writer.topic), "files are deleted", PATIENCE_S, retry_on=NETWORK_ERRORS)
            reassign(cluster, writer.topic, lambda state: tuple(sorted(IDS)))
            wait_for_progress(writers)


def test_a_topic_grows_while_it_is_written(cluster: ProcessCluster) -> None:
    with load(cluster, "growing") as writers:
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_partitions({writer.topic: PARTITIONS * 2 for writer in writers})
        for writer in writers:
            cluster.wait_whole([writer.topic])
            writer.add_partitions(PARTITIONS * 2)
        wait_for_progress(writers)
        for writer in writers:
            writer.reach_everywhere(PATIENCE_S)


def test_a_broker_that_is_gone_for_good_is_replaced_by_one_with_another_id(cluster: ProcessCluster) -> None:
    with load(cluster, "replacing") as writers:
        lost = cluster.brokers.pop(3)
        lost.kill()
        with newcomer(cluster, 4):
            reassign(cluster, None, lambda state: swapped(state.replicas, 3, 4))
            assert all(3 not in state.replicas for topic in cluster.wait_whole().values() for state in topic.values())
            wait_for_progress(writers)
            # The old broker returns with all its data. Its replicas are stale and must be deleted.
            cluster.brokers[3] = lost
            lost.start()
            reassign(cluster, None, lambda state: swapped(state.replicas, 4, 3))
            wait_for_progress(writers)


def test_a_broker_with_an_empty_disk_returns_with_the_same_id_and_copies_everything(
    cluster: ProcessCluster,
) -> None:
    with load(cluster, "erasing") as writers:
        victim = cluster.leader_of(writers[0].topic, 0)
        victim.kill()
        shutil.rmtree(victim.data)
        victim.start()
        cluster.wait_whole()
        wait_for_progress(writers)
        other = cluster.brokers[min(IDS - {victim.id})]
        other.kill()  # the other broker of these replicas is dead, so the erased one must have copied them
        wait_for_progress(writers)
        other.start()
        cluster.wait_whole()


# -- helpers -----------------------------------------------------------------------------------------------------------


@contextmanager
def newcomer(cluster: ProcessCluster, number: int) -> Iterator[Path]:
    """A new broker on an empty directory until the end of the block. It must lead and hold nothing by then."""
    broker = cluster.add(number, cluster.directory / f"newcomer-{number}")
    broker.start()
    try:
        known = partial(known_everywhere, cluster, number)
        wait_until(known, f"all brokers know {number}", PATIENCE_S, retry_on=NETWORK_ERRORS)
        yield broker.data
        assert broker.stop() == 0, broker.log
    finally:
        broker.end()
        del cluster.brokers[number]
        shutil.rmtree(broker.data)


def known_everywhere(cluster: ProcessCluster, number: int) -> bool:
    """Whether all brokers know the new one. It serves as soon as it is registered; the others hear of it later."""
    for broker in cluster.living:
        if number not in {one.node_id for one in broker.ask_metadata("").brokers}:
            raise NotYet(f"{broker.name} does not know broker {number}")
    return True


def reassign(cluster: ProcessCluster, topic: str | None, target: Callable[[PartitionSeen], tuple[int, ...]]) -> None:
    """Move the partitions of one topic, or of all, and return when the new replicas are in sync."""
    seen = cluster.known()
    wanted = {
        TopicPartition(name, index): target(state)
        for name, partitions in seen.items()
        if topic in (None, name)
        for index, state in partitions.items()
        if target(state) != state.replicas
    }
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.alter_partition_reassignments(wanted)

        def done() -> bool:
            if ongoing := admin.list_partition_reassignments():
                raise NotYet(f"still moving: {ongoing}")
            return True

        wait_until(done, "the reassignments are complete", PATIENCE_S, retry_on=NETWORK_ERRORS)
    after = cluster.wait_whole({one.topic for one in wanted})
    for one, replicas in wanted.items():
        assert after[one.topic][one.partition].replicas == replicas


def swapped(replicas: tuple[int, ...], old: int, new: int) -> tuple[int, ...]:
    return tuple(new if one == old else one for one in replicas)


def gone(cluster: ProcessCluster, topic: str) -> bool:
    """Check that brokers which no longer hold a partition have deleted its files or marked them for deletion."""
    for index, state in cluster.describe(topic).items():
        for number in IDS - set(state.replicas):
            if (cluster.brokers[number].data / f"{topic}-{index}").exists():
                raise NotYet(f"broker {number} still has files of {topic}-{index}")
    return True


def member(cluster: ProcessCluster, client: str, topic: str) -> Options:
    return Options(
        client=client,
        bootstrap=cluster.bootstrap,
        topic=topic,
        group=f"readers-of-{topic}",
        name=client,
        assignors=("range",),
        session_ms=6_000,
        rebalance_ms=10_000,
        heartbeat_ms=500,
    )
