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
from tests.client.cluster.transaction_requests import ADDS, VERIFIES, TransactionRequests
from tests.compat import wire
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

TOPIC = "orders"
PARTITIONS = 3

MOVES = [
    pytest.param(TransactionRequests.move_coordinator, id="moves"),
    pytest.param(TransactionRequests.crash_coordinator, id="crashes"),
]


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
def requests(cluster: Cluster) -> Iterator[TransactionRequests]:
    with TransactionRequests(cluster, "copier") as requests:
        yield requests


def leaders_elsewhere(requests: TransactionRequests) -> list[int]:
    """The partitions of the topic that the coordinator's broker does not lead."""
    return [index for index in range(PARTITIONS) if requests.cluster.leader_of(TOPIC, index) != requests.coordinator]


# -- no move -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_every_partition_gets_its_marker_wherever_it_is_led(requests: TransactionRequests, commit: bool) -> None:
    me = requests.init()
    for partition in range(PARTITIONS):
        assert requests.write(me, TOPIC, b"x", partition=partition) == E.NONE
        assert requests.write(me, TOPIC, b"y", partition=partition, sequence=1) == E.NONE
    after = requests.end(me, commit)
    requests.await_state("CompleteCommit" if commit else "CompleteAbort")
    for partition in range(PARTITIONS):
        assert requests.stored(TOPIC, partition) == ["data", "data", "marker"]
    assert requests.committed(TOPIC) == ([b"x", b"y"] if commit else [])
    assert after.epoch == me.epoch + 1
    assert requests.write(after, TOPIC, b"z") == E.NONE
    assert requests.write(me, TOPIC, b"late") == E.INVALID_PRODUCER_EPOCH


def test_a_partition_that_was_not_added_is_refused_by_its_leader(requests: TransactionRequests) -> None:
    me = requests.init()
    added, other = leaders_elsewhere(requests)
    assert requests.add(me, TOPIC, added) == [E.NONE]
    assert requests.write(me, TOPIC, b"x", partition=added, version=VERIFIES) == E.NONE
    assert requests.write(me, TOPIC, b"x", partition=other, version=VERIFIES) == E.TRANSACTION_ABORTABLE
    requests.end(me, True, version=4)
    requests.await_state("CompleteCommit")
    assert requests.stored(TOPIC, added) == ["data", "marker"]
    assert requests.stored(TOPIC, other) == []


def test_a_fenced_producer_is_refused_by_every_leader(requests: TransactionRequests) -> None:
    ghost = requests.init()
    requests.init()
    for partition in range(PARTITIONS):
        assert requests.write(ghost, TOPIC, b"x", partition=partition) == E.INVALID_PRODUCER_EPOCH
        assert requests.write(ghost, TOPIC, b"x", partition=partition, version=VERIFIES) == E.INVALID_PRODUCER_EPOCH


def test_a_batch_that_was_verified_for_a_transaction_that_ended_meanwhile_is_not_written(
    requests: TransactionRequests,
) -> None:
    """The coordinator confirms the partition, the marker is written, and then the confirmation arrives. A batch
    written now would belong to no transaction and block readers forever."""
    me = requests.init()
    partition = leaders_elsewhere(requests)[0]
    leader = requests.cluster.leader_of(TOPIC, partition)
    assert requests.add(me, TOPIC, partition) == [E.NONE]
    coordinator = requests.cluster.brokers[requests.coordinator]
    with coordinator.faults.delay("AddPartitionsToTxn", 1.0, client_id="broker-*") as slow:
        batch = wire.batch_of(
            b"x", producer_id=me.producer_id, producer_epoch=me.epoch, base_sequence=0, transactional=True
        )
        request = wire.produce_request(TOPIC, [(partition, batch)])
        request.transactional_id = requests.name
        waiting = TransactionRequests(requests.cluster, requests.name).to(leader)
        waiting.send(ApiKey.PRODUCE, VERIFIES, request.encode(VERIFIES))
        slow.wait(1)
        requests.end(me, True, version=4)
        requests.await_state("CompleteCommit")
        answer = waiting.receive(ApiKey.PRODUCE, VERIFIES, ProduceResponse)
        waiting.close()
    ((one,),) = [topic.partition_responses for topic in answer.responses]
    assert E(one.error_code) == E.NOT_ENOUGH_REPLICAS  # the coordinator, asked again, refuses
    assert requests.write(me, TOPIC, b"x", partition=partition, version=VERIFIES) == E.TRANSACTION_ABORTABLE
    assert requests.stored(TOPIC, partition) == ["marker"]


def test_a_producer_that_loses_its_connection_does_not_block_later_requests(requests: TransactionRequests) -> None:
    """The first producer's batch waits for replicas when its connection is lost. Later producers still get their
    answers."""
    me = requests.init()
    partition = leaders_elsewhere(requests)[0]
    leader = requests.cluster.brokers[requests.cluster.leader_of(TOPIC, partition)]

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
            # Fetches that already wait return the first batch. The two later batches are then replicated together.
            first = write(stays, None)
            batch = {"producer_id": me.producer_id, "producer_epoch": me.epoch, "base_sequence": 0}
            write(cut, requests.name, transactional=True, **batch)
            last = write(stays, None)
            assert leader.faults.drop_connections("cut") == 1
        for sent in (first, last):
            answer = stays.receive(ApiKey.PRODUCE, ADDS, ProduceResponse, sent)
            assert E(answer.responses[0].partition_responses[0].error_code) == E.NONE


@pytest.mark.parametrize("version", [ADDS, VERIFIES])
def test_a_broker_that_does_not_lead_the_partition_refuses_and_adds_nothing(
    requests: TransactionRequests, version: int
) -> None:
    me = requests.init()
    for partition in range(PARTITIONS):
        leader = requests.cluster.leader_of(TOPIC, partition)
        for broker in {0, 1, 2} - {leader}:
            answer = requests.write_at(broker, me, TOPIC, b"x", partition=partition, version=version)
            assert answer == E.NOT_LEADER_OR_FOLLOWER
    assert requests.state() == "Empty"


def test_a_coordinator_without_enough_replicas_delays_the_writer_and_does_not_abort(
    requests: TransactionRequests,
) -> None:
    me = requests.init()
    coordinator = requests.coordinator
    partition = next(one for one in range(PARTITIONS) if requests.cluster.leader_of(TOPIC, one) == coordinator)
    others = [broker for broker in requests.cluster.brokers if broker.node_id != coordinator]
    for broker in others:
        broker.crash()
    requests.cluster.wait_until(lambda image: list(image.brokers) == [coordinator])
    assert requests.try_to_write(me, TOPIC, b"x", partition=partition) == E.NOT_ENOUGH_REPLICAS
    for broker in others:
        requests.gone(broker.node_id)
        broker.start()
    assert requests.write(me, TOPIC, b"x", partition=partition) == E.NONE
    requests.end(me, True)
    requests.await_state("CompleteCommit")
    assert requests.stored(TOPIC, partition) == ["data", "marker"]


# -- the coordinator moves ---------------------------------------------------------------------------------------------


def test_a_transaction_continues_at_the_next_coordinator(requests: TransactionRequests) -> None:
    me = requests.init()
    for partition in range(PARTITIONS):
        before = requests.coordinator
        assert requests.write(me, TOPIC, b"x", partition=partition) == E.NONE
        assert requests.move_coordinator() != before
    requests.end(me, True)
    requests.await_state("CompleteCommit")
    for partition in range(PARTITIONS):
        assert requests.is_ended(TOPIC, partition)


def test_an_epoch_is_never_given_twice_however_the_coordinator_moves(requests: TransactionRequests) -> None:
    epochs = []
    for _ in range(4):
        epochs.append(requests.init().epoch)
        requests.move_coordinator()
    assert epochs == [0, 1, 2, 3]


@pytest.mark.parametrize("lose", MOVES)
def test_the_current_coordinator_aborts_the_transaction_of_a_lost_producer(
    requests: TransactionRequests, lose: Callable[[TransactionRequests], int]
) -> None:
    me = requests.init(timeout_ms=1_000)
    assert requests.write(me, TOPIC, b"x") == E.NONE
    lose(requests)
    requests.await_state("CompleteAbort")
    assert requests.is_ended(TOPIC)
    assert requests.committed(TOPIC) == []


@pytest.mark.parametrize("lose", MOVES)
@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_without_markers_is_carried_out_by_the_next_coordinator(
    requests: TransactionRequests, commit: bool, lose: Callable[[TransactionRequests], int]
) -> None:
    me = requests.init()
    elsewhere = leaders_elsewhere(requests)
    for partition in elsewhere:
        assert requests.write(me, TOPIC, b"x", partition=partition) == E.NONE
    deaf = [
        broker.faults.fail_next("WriteTxnMarkers", "NOT_LEADER_OR_FOLLOWER", times=None)
        for broker in requests.cluster.live
    ]
    requests.end(me, commit)
    lose(requests)
    for fault in deaf:
        fault.end()
    for partition in elsewhere:  # no client sends a request to the coordinator
        wait_until(lambda partition=partition: requests.is_ended(TOPIC, partition))
    requests.await_state("CompleteCommit" if commit else "CompleteAbort")


@pytest.mark.parametrize("lose", MOVES)
def test_a_transaction_with_some_of_its_markers_gets_the_others_from_the_next_coordinator(
    requests: TransactionRequests, lose: Callable[[TransactionRequests], int]
) -> None:
    me = requests.init()
    first, second = leaders_elsewhere(requests)
    for partition in (first, second):
        assert requests.write(me, TOPIC, b"x", partition=partition) == E.NONE
    slow = requests.cluster.brokers[requests.cluster.leader_of(TOPIC, second)]
    fault = slow.faults.fail_next("WriteTxnMarkers", "NOT_LEADER_OR_FOLLOWER", times=None)
    requests.end(me, True)
    wait_until(lambda: requests.is_ended(TOPIC, first))
    assert requests.stored(TOPIC, second) == ["data"]
    lose(requests)
    fault.end()
    requests.await_state("CompleteCommit")
    assert requests.is_ended(TOPIC, second)


def test_a_marker_finds_a_partition_that_has_moved(requests: TransactionRequests) -> None:
    me = requests.init()
    partition = leaders_elsewhere(requests)[0]
    assert requests.write(me, TOPIC, b"x", partition=partition) == E.NONE
    leader = requests.cluster.brokers[requests.cluster.leader_of(TOPIC, partition)]
    with leader.faults.fail_next("WriteTxnMarkers", "NOT_LEADER_OR_FOLLOWER", times=None):
        requests.end(me, True)
        assert requests.state() == "PrepareCommit"
        requests.cluster.move_leader(TOPIC, partition)
        requests.await_state("CompleteCommit")
    assert requests.is_ended(TOPIC, partition)


def test_a_topic_deleted_during_a_transaction_blocks_nothing(requests: TransactionRequests) -> None:
    me = requests.init()
    for partition in range(PARTITIONS):
        assert requests.write(me, TOPIC, b"x", partition=partition) == E.NONE
    deaf = [
        broker.faults.fail_next("WriteTxnMarkers", "NOT_LEADER_OR_FOLLOWER", times=None)
        for broker in requests.cluster.live
    ]
    requests.end(me, True)
    requests.cluster.brokers[0].carry_out(lambda served: served.delete_topics([TopicRef(name=TOPIC)]))
    requests.await_state("CompleteCommit")
    for fault in deaf:
        fault.end()


def test_offsets_of_a_transaction_come_into_force_at_the_group_coordinator(requests: TransactionRequests) -> None:
    me = requests.init()
    group = next(f"g{n}" for n in range(100) if coordinated_elsewhere(requests, f"g{n}"))
    requests.commit_offset(me, group, TOPIC, 7)
    assert requests.committed_offset(group, TOPIC) == -1
    requests.cluster.move_leader(CONSUMER_OFFSETS, requests.cluster.coordinator_partition(CONSUMER_OFFSETS, group))
    assert requests.committed_offset(group, TOPIC) == -1
    requests.end(me, True)
    wait_until(lambda: requests.committed_offset(group, TOPIC) == 7)


# -- two-phase commit --------------------------------------------------------------------------------------------------


def test_a_prepared_transaction_takes_no_records_from_its_former_producer(requests: TransactionRequests) -> None:
    me = requests.init(version=6, enable2_pc=True)
    partition = leaders_elsewhere(requests)[0]
    assert requests.write(me, TOPIC, b"x", partition=partition) == E.NONE
    assert requests.write(me, TOPIC, b"y", partition=partition, sequence=1) == E.NONE
    while requests.move_coordinator() == requests.cluster.leader_of(TOPIC, partition):
        pass
    heir = requests.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    assert requests.write(me, TOPIC, b"late", partition=partition, sequence=2) == E.INVALID_PRODUCER_EPOCH
    requests.end(heir, True)
    requests.await_state("CompleteCommit")
    assert requests.stored(TOPIC, partition) == ["data", "data", "marker"]


def coordinated_elsewhere(requests: TransactionRequests, group: str) -> bool:
    return requests.group_coordinator(group) != requests.coordinator
