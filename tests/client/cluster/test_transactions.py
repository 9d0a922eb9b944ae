"""Transactions across brokers: the coordinator and the partition leaders differ and move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.cluster.image import CONSUMER_OFFSETS
from moldau.cluster.topics import TopicRef
from moldau.testing import Cluster
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode as E
from moldau.wire.messages.produce import ProduceResponse
from tests.client.cluster.speaking import ADDS, VERIFIES, Speaker
from tests.compat import wire
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

TOPIC = "orders"
PARTITIONS = 3

MOVES = [pytest.param(Speaker.move_coordinator, id="moves"), pytest.param(Speaker.crash_coordinator, id="crashes")]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    settings = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
        "transaction.two.phase.commit.enable": True,
    }
    with Cluster(3, settings) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        yield cluster


@pytest.fixture
def speaker(cluster: Cluster) -> Iterator[Speaker]:
    with Speaker(cluster, "copier") as speaker:
        yield speaker


def leaders_elsewhere(speaker: Speaker) -> list[int]:
    """The partitions of the topic that the coordinator's broker does not lead."""
    return [index for index in range(PARTITIONS) if speaker.cluster.leader_of(TOPIC, index) != speaker.coordinator]


# -- no move -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_every_partition_gets_its_marker_wherever_it_is_led(speaker: Speaker, commit: bool) -> None:
    me = speaker.init()
    for partition in range(PARTITIONS):
        assert speaker.write(me, TOPIC, b"x", partition=partition) == E.NONE
        assert speaker.write(me, TOPIC, b"y", partition=partition, sequence=1) == E.NONE
    after = speaker.end(me, commit)
    speaker.await_state("CompleteCommit" if commit else "CompleteAbort")
    for partition in range(PARTITIONS):
        assert speaker.stored(TOPIC, partition) == ["data", "data", "marker"]
    assert speaker.committed(TOPIC) == ([b"x", b"y"] if commit else [])
    assert after.epoch == me.epoch + 1
    assert speaker.write(after, TOPIC, b"z") == E.NONE
    assert speaker.write(me, TOPIC, b"late") == E.INVALID_PRODUCER_EPOCH


def test_a_partition_that_was_not_added_is_refused_by_its_leader(speaker: Speaker) -> None:
    me = speaker.init()
    added, other = leaders_elsewhere(speaker)
    assert speaker.add(me, TOPIC, added) == [E.NONE]
    assert speaker.write(me, TOPIC, b"x", partition=added, version=VERIFIES) == E.NONE
    assert speaker.write(me, TOPIC, b"x", partition=other, version=VERIFIES) == E.TRANSACTION_ABORTABLE
    speaker.end(me, True, version=4)
    speaker.await_state("CompleteCommit")
    assert speaker.stored(TOPIC, added) == ["data", "marker"]
    assert speaker.stored(TOPIC, other) == []


def test_a_fenced_producer_is_refused_by_every_leader(speaker: Speaker) -> None:
    ghost = speaker.init()
    speaker.init()
    for partition in range(PARTITIONS):
        assert speaker.write(ghost, TOPIC, b"x", partition=partition) == E.INVALID_PRODUCER_EPOCH
        assert speaker.write(ghost, TOPIC, b"x", partition=partition, version=VERIFIES) == E.INVALID_PRODUCER_EPOCH


def test_a_batch_that_was_verified_for_a_transaction_that_ended_meanwhile_is_not_written(speaker: Speaker) -> None:
    """Its coordinator said yes, the marker came, and then the answer: written now, it would never be ended."""
    me = speaker.init()
    partition = leaders_elsewhere(speaker)[0]
    leader = speaker.cluster.leader_of(TOPIC, partition)
    assert speaker.add(me, TOPIC, partition) == [E.NONE]
    coordinator = speaker.cluster.brokers[speaker.coordinator]
    with coordinator.faults.delay("AddPartitionsToTxn", 1.0, client_id="broker-*") as slow:
        batch = wire.batch_of(
            b"x", producer_id=me.producer_id, producer_epoch=me.epoch, base_sequence=0, transactional=True
        )
        request = wire.produce_request(TOPIC, [(partition, batch)])
        request.transactional_id = speaker.name
        waiting = Speaker(speaker.cluster, speaker.name).to(leader)
        waiting.send(ApiKey.PRODUCE, VERIFIES, request.encode(VERIFIES))
        slow.wait(1)
        speaker.end(me, True, version=4)
        speaker.await_state("CompleteCommit")
        answer = waiting.receive(ApiKey.PRODUCE, VERIFIES, ProduceResponse)
        waiting.close()
    ((one,),) = [topic.partition_responses for topic in answer.responses]
    assert E(one.error_code) == E.NOT_ENOUGH_REPLICAS  # and asked again, the answer is no
    assert speaker.write(me, TOPIC, b"x", partition=partition, version=VERIFIES) == E.TRANSACTION_ABORTABLE
    assert speaker.stored(TOPIC, partition) == ["marker"]


def test_a_producer_that_loses_its_connection_does_not_block_later_requests(speaker: Speaker) -> None:
    """Its batch waits for replicas meanwhile. Whoever wrote behind it hears of its own batch all the same."""
    me = speaker.init()
    partition = leaders_elsewhere(speaker)[0]
    leader = speaker.cluster.brokers[speaker.cluster.leader_of(TOPIC, partition)]

    def write(connection: RawConnection, transactional_id: str | None, **options: Any) -> int:
        request = wire.produce_request(TOPIC, [(partition, wire.batch_of(b"x", **options))])
        request.transactional_id = transactional_id
        before = end_offset()
        sent = connection.send(ApiKey.PRODUCE, ADDS, request.encode(ADDS))
        wait_until(lambda: end_offset() > before)
        return sent

    def end_offset() -> int:
        return leader.look(lambda served: served.replicas.find(TOPIC, partition).log.end_offset)

    with RawConnection(leader.bootstrap_servers, "cut") as cut, RawConnection(leader.bootstrap_servers) as stays:
        with leader.faults.black_hole("Fetch", client_id="broker-*"):
            first = write(stays, None)  # taken along by fetches that wait already; the two behind it are safe together
            batch = {"producer_id": me.producer_id, "producer_epoch": me.epoch, "base_sequence": 0}
            write(cut, speaker.name, transactional=True, **batch)
            last = write(stays, None)
            assert leader.faults.drop_connections("cut") == 1
        for sent in (first, last):
            answer = stays.receive(ApiKey.PRODUCE, ADDS, ProduceResponse, sent)
            assert E(answer.responses[0].partition_responses[0].error_code) == E.NONE


@pytest.mark.parametrize("version", [ADDS, VERIFIES])
def test_a_broker_that_does_not_lead_says_so_for_every_coordinator(speaker: Speaker, version: int) -> None:
    me = speaker.init()
    for partition in range(PARTITIONS):
        leader = speaker.cluster.leader_of(TOPIC, partition)
        for broker in {0, 1, 2} - {leader}:
            answer = speaker.write_at(broker, me, TOPIC, b"x", partition=partition, version=version)
            assert answer == E.NOT_LEADER_OR_FOLLOWER
    assert speaker.state() == "Empty"


def test_a_coordinator_without_its_replicas_makes_the_writer_wait_and_not_abort(speaker: Speaker) -> None:
    me = speaker.init()
    coordinator = speaker.coordinator
    partition = next(one for one in range(PARTITIONS) if speaker.cluster.leader_of(TOPIC, one) == coordinator)
    others = [broker for broker in speaker.cluster.brokers if broker.node_id != coordinator]
    for broker in others:
        broker.crash()
    speaker.cluster.wait_until(lambda image: list(image.brokers) == [coordinator])
    assert speaker.try_to_write(me, TOPIC, b"x", partition=partition) == E.NOT_ENOUGH_REPLICAS
    for broker in others:
        speaker.gone(broker.node_id)
        broker.start()
    assert speaker.write(me, TOPIC, b"x", partition=partition) == E.NONE
    speaker.end(me, True)
    speaker.await_state("CompleteCommit")
    assert speaker.stored(TOPIC, partition) == ["data", "marker"]


# -- the coordinator moves ---------------------------------------------------------------------------------------------


def test_a_transaction_continues_at_the_next_coordinator(speaker: Speaker) -> None:
    me = speaker.init()
    for partition in range(PARTITIONS):
        before = speaker.coordinator
        assert speaker.write(me, TOPIC, b"x", partition=partition) == E.NONE
        assert speaker.move_coordinator() != before
    speaker.end(me, True)
    speaker.await_state("CompleteCommit")
    for partition in range(PARTITIONS):
        assert speaker.is_ended(TOPIC, partition)


def test_an_epoch_is_never_given_twice_however_the_coordinator_moves(speaker: Speaker) -> None:
    epochs = []
    for _ in range(4):
        epochs.append(speaker.init().epoch)
        speaker.move_coordinator()
    assert epochs == [0, 1, 2, 3]


@pytest.mark.parametrize("lose", MOVES)
def test_the_current_coordinator_aborts_the_transaction_of_a_lost_producer(
    speaker: Speaker, lose: Callable[[Speaker], int]
) -> None:
    me = speaker.init(timeout_ms=1_000)
    assert speaker.write(me, TOPIC, b"x") == E.NONE
    lose(speaker)
    speaker.await_state("CompleteAbort")
    assert speaker.is_ended(TOPIC)
    assert speaker.committed(TOPIC) == []


@pytest.mark.parametrize("lose", MOVES)
@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_without_markers_is_carried_out_by_the_next_coordinator(
    speaker: Speaker, commit: bool, lose: Callable[[Speaker], int]
) -> None:
    me = speaker.init()
    elsewhere = leaders_elsewhere(speaker)
    for partition in elsewhere:
        assert speaker.write(me, TOPIC, b"x", partition=partition) == E.NONE
    deaf = [
        broker.faults.fail_next("WriteTxnMarkers", "NOT_LEADER_OR_FOLLOWER", times=None)
        for broker in speaker.cluster.live
    ]
    speaker.end(me, commit)
    lose(speaker)
    for fault in deaf:
        fault.end()
    for partition in elsewhere:  # without anybody asking the coordinator for anything
        wait_until(lambda partition=partition: speaker.is_ended(TOPIC, partition))
    speaker.await_state("CompleteCommit" if commit else "CompleteAbort")


@pytest.mark.parametrize("lose", MOVES)
def test_a_transaction_with_some_of_its_markers_gets_the_others_from_the_next_coordinator(
    speaker: Speaker, lose: Callable[[Speaker], int]
) -> None:
    me = speaker.init()
    first, second = leaders_elsewhere(speaker)
    for partition in (first, second):
        assert speaker.write(me, TOPIC, b"x", partition=partition) == E.NONE
    slow = speaker.cluster.brokers[speaker.cluster.leader_of(TOPIC, second)]
    fault = slow.faults.fail_next("WriteTxnMarkers", "NOT_LEADER_OR_FOLLOWER", times=None)
    speaker.end(me, True)
    wait_until(lambda: speaker.is_ended(TOPIC, first))
    assert speaker.stored(TOPIC, second) == ["data"]
    lose(speaker)
    fault.end()
    speaker.await_state("CompleteCommit")
    assert speaker.is_ended(TOPIC, second)


def test_a_marker_finds_a_partition_that_has_moved(speaker: Speaker) -> None:
    me = speaker.init()
    partition = leaders_elsewhere(speaker)[0]
    assert speaker.write(me, TOPIC, b"x", partition=partition) == E.NONE
    leader = speaker.cluster.brokers[speaker.cluster.leader_of(TOPIC, partition)]
    with leader.faults.fail_next("WriteTxnMarkers", "NOT_LEADER_OR_FOLLOWER", times=None):
        speaker.end(me, True)
        assert speaker.state() == "PrepareCommit"
        speaker.cluster.move_leader(TOPIC, partition)
        speaker.await_state("CompleteCommit")
    assert speaker.is_ended(TOPIC, partition)


def test_a_topic_deleted_during_a_transaction_blocks_nothing(speaker: Speaker) -> None:
    me = speaker.init()
    for partition in range(PARTITIONS):
        assert speaker.write(me, TOPIC, b"x", partition=partition) == E.NONE
    deaf = [
        broker.faults.fail_next("WriteTxnMarkers", "NOT_LEADER_OR_FOLLOWER", times=None)
        for broker in speaker.cluster.live
    ]
    speaker.end(me, True)
    speaker.cluster.brokers[0].carry_out(lambda served: served.delete_topics([TopicRef(name=TOPIC)]))
    speaker.await_state("CompleteCommit")
    for fault in deaf:
        fault.end()


def test_offsets_of_a_transaction_come_into_force_at_the_group_coordinator(speaker: Speaker) -> None:
    me = speaker.init()
    group = next(f"g{n}" for n in range(100) if coordinated_elsewhere(speaker, f"g{n}"))
    speaker.commit_offset(me, group, TOPIC, 7)
    assert speaker.committed_offset(group, TOPIC) == -1
    speaker.cluster.move_leader(CONSUMER_OFFSETS, speaker.cluster.coordinator_partition(CONSUMER_OFFSETS, group))
    assert speaker.committed_offset(group, TOPIC) == -1
    speaker.end(me, True)
    wait_until(lambda: speaker.committed_offset(group, TOPIC) == 7)


# -- two-phase commit --------------------------------------------------------------------------------------------------


def test_a_prepared_transaction_takes_no_records_from_its_former_producer(speaker: Speaker) -> None:
    me = speaker.init(version=6, enable2_pc=True)
    partition = leaders_elsewhere(speaker)[0]
    assert speaker.write(me, TOPIC, b"x", partition=partition) == E.NONE
    assert speaker.write(me, TOPIC, b"y", partition=partition, sequence=1) == E.NONE
    while speaker.move_coordinator() == speaker.cluster.leader_of(TOPIC, partition):
        pass
    heir = speaker.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    assert speaker.write(me, TOPIC, b"late", partition=partition, sequence=2) == E.INVALID_PRODUCER_EPOCH
    speaker.end(heir, True)
    speaker.await_state("CompleteCommit")
    assert speaker.stored(TOPIC, partition) == ["data", "data", "marker"]


def coordinated_elsewhere(speaker: Speaker, group: str) -> bool:
    return speaker.group_coordinator(group) != speaker.coordinator
