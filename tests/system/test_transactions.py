"""Transactions in a broker that is killed, stopped between decision and marker, or cannot write a marker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.txn.txn_marker_sender import TxnMarkerSender
from moldau.broker.txn.txn_marker_writer import TxnMarker, TxnMarkerWriter
from moldau.host.fs import LocalFileSystem
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from moldau.wire.messages.describe_transactions import DescribeTransactionsRequest
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.init_producer_id import InitProducerIdRequest
from moldau.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from moldau.wire.messages.produce import ProduceResponse
from moldau.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.wire.producer_identity import ProducerIdentity
from tests.compat import wire
from tests.compat.transactions import requests
from tests.compat.transactions.requests import committed_values, init, producer, write
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until
from tests.system.in_process_broker import InProcessBroker

E = ErrorCode
SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "20",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "20",
}
NEW_EPOCHS = 5
TOPIC = "t"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {**SETTINGS, "transaction.two.phase.commit.enable": "true"}
    with BrokerProcess(tmp_path / "data", settings) as process, RawConnection(process.bootstrap) as raw:
        wire.create_topic(raw, TOPIC, 1, {})
        yield process


def state_of(raw: RawConnection, name: str = "x") -> str:
    (found,) = wire.ask(raw, DescribeTransactionsRequest(transactional_ids=[name])).transaction_states
    return str(found.transaction_state) if found.error_code == 0 else E(found.error_code).name


def test_a_transaction_that_takes_too_long_is_aborted(broker: BrokerProcess) -> None:
    with RawConnection(broker.bootstrap) as raw:
        me = producer(raw, "x", timeout_ms=100)
        write(raw, "x", me, TOPIC, b"late", version=12)
        wire.produced(raw, TOPIC, b"of others")
        wait_until(lambda: state_of(raw) == "CompleteAbort")
        assert committed_values(raw, TOPIC) == [b"of others"]
        assert requests.end(raw, "x", me, True, version=3).error == E.PRODUCER_FENCED
        assert write(raw, "x", me, TOPIC, b"more", sequence=1, version=10) == E.INVALID_PRODUCER_EPOCH


def test_a_transaction_that_was_open_when_the_broker_was_killed_continues(broker: BrokerProcess) -> None:
    with RawConnection(broker.bootstrap) as raw:
        me = producer(raw, "x")
        write(raw, "x", me, TOPIC, b"before", version=12)
    broker.kill()
    broker.start()
    with RawConnection(broker.bootstrap) as raw:
        requests.find_coordinator(raw, "x")
        # sent again, as a producer does that got no answer
        assert write(raw, "x", me, TOPIC, b"before", version=12) == E.NONE
        assert write(raw, "x", me, TOPIC, b"after", sequence=1, version=12) == E.NONE
        assert committed_values(raw, TOPIC) == []
        assert requests.end(raw, "x", me, True, version=NEW_EPOCHS).error == E.NONE
        wait_until(lambda: committed_values(raw, TOPIC) == [b"before", b"after"])


def test_producer_ids_are_never_given_twice(broker: BrokerProcess) -> None:
    given: list[int] = []
    for _ in range(3):
        with RawConnection(broker.bootstrap) as raw:
            given += [init(raw, None).identity.producer_id for _ in range(400)]
            given.append(producer(raw, f"x-{len(given)}").producer_id)
        broker.kill()
        broker.start()
    assert len(set(given)) == len(given)
    assert min(given) >= 0


def test_an_unused_transactional_id_expires(tmp_path: Path) -> None:
    settings = {**SETTINGS, "transactional.id.expiration.ms": "50"}
    with BrokerProcess(tmp_path / "data", settings) as broker, RawConnection(broker.bootstrap) as raw:
        me = producer(raw, "x")
        wait_until(lambda: state_of(raw) == "TRANSACTIONAL_ID_NOT_FOUND")
        assert requests.end(raw, "x", me, False, version=NEW_EPOCHS).error == E.INVALID_PRODUCER_ID_MAPPING
        assert producer(raw, "x").producer_id != me.producer_id


# -- two-phase commit --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_waits_until_it_is_ended(broker: BrokerProcess, commit: bool) -> None:
    with RawConnection(broker.bootstrap) as raw:
        me = producer(raw, "x", version=6, enable2_pc=True, timeout_ms=1)
        write(raw, "x", me, TOPIC, b"prepared", version=12)
    broker.kill()
    broker.start()
    with RawConnection(broker.bootstrap) as raw:
        requests.find_coordinator(raw, "x")
        request = InitProducerIdRequest(
            transactional_id="x", transaction_timeout_ms=1, enable2_pc=True, keep_prepared_txn=True
        )
        answer = wait_until(
            lambda: None if (found := wire.ask(raw, request, 6)).error_code in requests.RETRIABLE else found
        )
        assert answer.error_code == 0
        assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == me
        assert requests.end(raw, "x", me, commit, version=NEW_EPOCHS).error == E.PRODUCER_FENCED
        assert write(raw, "x", me, TOPIC, b"too late", sequence=1, version=12) == E.INVALID_PRODUCER_EPOCH
        successor = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        after = requests.end(raw, "x", successor, commit, version=NEW_EPOCHS)
        assert after == (E.NONE, ProducerIdentity(successor.producer_id, successor.epoch + 1))
        wait_until(lambda: state_of(raw) == ("CompleteCommit" if commit else "CompleteAbort"))
        assert committed_values(raw, TOPIC) == ([b"prepared"] if commit else [])


def test_an_abandoned_two_phase_transaction_is_found_and_aborted(broker: BrokerProcess) -> None:
    with RawConnection(broker.bootstrap) as raw:
        me = producer(raw, "x", version=6, enable2_pc=True)
        write(raw, "x", me, TOPIC, b"abandoned", version=12)
        assert state_of(raw) == "Ongoing"
        producer(raw, "x")
        assert committed_values(raw, TOPIC) == []
        assert wire.list_offset(raw, TOPIC, wire.LATEST, isolation_level=1).offset == 2


# -- offsets within a transaction --------------------------------------------------------------------------------------


def commit_offset(raw: RawConnection, identity: ProducerIdentity, offset: int, version: int = 5) -> ErrorCode:
    topic = TxnOffsetCommitRequestTopic(
        name=TOPIC,
        partitions=[
            TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
        ],
    )
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        topics=[topic],
    )
    ((answer,),) = [one.partitions for one in wire.ask(raw, request, version).topics]
    return E(answer.error_code)


def fetch_offset(raw: RawConnection, *, stable: bool = False) -> tuple[ErrorCode, int]:
    group = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestGroupTopic(name=TOPIC, partition_indexes=[0])]
    )
    (answer,) = wire.ask(raw, OffsetFetchRequest(groups=[group], require_stable=stable), 8).groups
    if answer.error_code:
        return E(answer.error_code), -1
    ((found,),) = [one.partitions for one in answer.topics]
    return E(found.error_code), found.committed_offset


def find_group(raw: RawConnection) -> None:
    wait_until(lambda: wire.ask(raw, FindCoordinatorRequest(key="g", key_type=0), 3).error_code == 0)


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_that_were_pending_when_the_broker_was_killed_follow_their_transaction(
    broker: BrokerProcess, commit: bool
) -> None:
    with RawConnection(broker.bootstrap) as raw:
        find_group(raw)
        me = producer(raw, "x")
        assert commit_offset(raw, me, 17) == E.NONE
    broker.kill()
    broker.start()
    with RawConnection(broker.bootstrap) as raw:
        requests.find_coordinator(raw, "x")
        pending = (E.UNSTABLE_OFFSET_COMMIT, -1)
        wait_until(lambda: fetch_offset(raw, stable=True) == pending)
        assert fetch_offset(raw) == (E.NONE, -1)
        answer = wait_until(
            lambda: (
                None
                if (found := requests.end(raw, "x", me, commit, version=NEW_EPOCHS)).error in requests.RETRIABLE
                else found
            )
        )
        assert answer.error == E.NONE
        expected = (E.NONE, 17 if commit else -1)
        wait_until(lambda: fetch_offset(raw, stable=True) == expected)


@pytest.mark.parametrize(("version", "error"), [(3, E.INVALID_TXN_STATE), (4, E.TRANSACTION_ABORTABLE)])
def test_offsets_that_are_not_part_of_the_transaction_are_refused(
    broker: BrokerProcess, version: int, error: E
) -> None:
    with RawConnection(broker.bootstrap) as raw:
        find_group(raw)
        me = producer(raw, "x")
        assert commit_offset(raw, me, 17, version) == error
        old, me = me, producer(raw, "x")
        assert commit_offset(raw, old, 17, version) == E.INVALID_PRODUCER_EPOCH
        assert fetch_offset(raw, stable=True) == (E.NONE, -1)


# -- between decision and marker ---------------------------------------------------------------------------------------


def in_process(path: Path) -> InProcessBroker:
    return InProcessBroker(LocalFileSystem(), path, settings=SETTINGS)


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_without_its_markers_is_carried_out_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(TxnMarkerSender, "_write", lambda *_: None)
        with in_process(tmp_path) as broker, RawConnection(broker.bootstrap) as raw:
            wire.create_topic(raw, TOPIC, 1, {})
            me = producer(raw, "x")
            write(raw, "x", me, TOPIC, b"decided", version=12)
            assert requests.end(raw, "x", me, commit, version=NEW_EPOCHS).error == E.NONE
            assert state_of(raw) == ("PrepareCommit" if commit else "PrepareAbort")
            assert committed_values(raw, TOPIC) == []
            assert init(raw, "x").error == E.CONCURRENT_TRANSACTIONS
    with in_process(tmp_path) as broker, RawConnection(broker.bootstrap) as raw:
        wait_until(lambda: state_of(raw) == ("CompleteCommit" if commit else "CompleteAbort"))
        assert committed_values(raw, TOPIC) == ([b"decided"] if commit else [])


def test_markers_that_cannot_be_written_are_tried_until_all_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[int] = []
    real: Callable[..., None] = TxnMarkerWriter.write

    def faulty(writer: TxnMarkerWriter, marker: TxnMarker, topic: str, index: int, settled: Any) -> None:
        if index == 1 and len(refused) < 3:
            refused.append(index)
            settled(E.KAFKA_STORAGE_ERROR)
        else:
            real(writer, marker, topic, index, settled)

    monkeypatch.setattr(TxnMarkerWriter, "write", faulty)
    monkeypatch.setattr("moldau.broker.txn.txn_marker_sender.FIRST_PAUSE_S", 0.01)
    with in_process(tmp_path) as broker, RawConnection(broker.bootstrap) as raw:
        wire.create_topic(raw, TOPIC, 2, {})
        me = producer(raw, "x")
        for partition in (0, 1):
            write(raw, "x", me, TOPIC, b"x", partition=partition, version=12)
        after = requests.end(raw, "x", me, True, version=NEW_EPOCHS)
        assert after.error == E.NONE
        wait_until(lambda: state_of(raw) == "CompleteCommit")
        assert len(refused) == 3
        for partition in (0, 1):
            assert [header.is_control for header, _ in wire.stored_batches(raw, TOPIC, partition)] == [False, True]


def test_a_topic_that_is_deleted_does_not_hold_up_its_transactions(tmp_path: Path) -> None:
    with in_process(tmp_path) as broker, RawConnection(broker.bootstrap) as raw:
        for topic in (TOPIC, "gone"):
            wire.create_topic(raw, topic, 1, {})
        me = producer(raw, "x")
        write(raw, "x", me, TOPIC, b"stays", version=12)
        write(raw, "x", me, "gone", b"goes", version=12)
        wire.ask(raw, DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="gone")], timeout_ms=10_000))
        assert requests.end(raw, "x", me, True, version=NEW_EPOCHS).error == E.NONE
        wait_until(lambda: state_of(raw) == "CompleteCommit")
        assert committed_values(raw, TOPIC) == [b"stays"]


# -- with a sync of every record ---------------------------------------------------------------------------------------


def test_pipelined_batches_stay_in_order_while_their_partition_is_added_to_the_transaction(
    tmp_path: Path,
) -> None:
    settings = {**SETTINGS, "log.flush.interval.messages": "1"}
    with BrokerProcess(tmp_path / "data", settings) as broker, RawConnection(broker.bootstrap) as raw:
        wire.create_topic(raw, TOPIC, 1, {})
        me = producer(raw, "x")
        sent = []
        for number in range(5):
            fields = {"producer_id": me.producer_id, "producer_epoch": me.epoch, "base_sequence": number}
            request = wire.produce_request(TOPIC, [(0, wire.batch_of(b"%d" % number, transactional=True, **fields))])
            request.transactional_id = "x"
            sent.append(raw.send(ApiKey.PRODUCE, 12, request.encode(12)))
        for correlation_id in sent:
            response = raw.receive(ApiKey.PRODUCE, 12, ProduceResponse, correlation_id)
            ((answer,),) = [one.partition_responses for one in response.responses]
            assert answer.error_code == 0
        assert requests.end(raw, "x", me, True, version=NEW_EPOCHS).error == E.NONE
        wait_until(lambda: committed_values(raw, TOPIC) == [b"%d" % number for number in range(5)])
