"""Transactions when brokers, connections and coordinators fail.

Each request of both versions of the protocol is repeated until it is answered. No record is lost or duplicated, and no
uncommitted record is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau import Admin, Producer, TopicPartition
from moldau.broker.handlers import api_versions
from moldau.client.errors import (
    CommitFailed,
    GroupAuthorizationFailed,
    IllegalStateError,
    InvalidTxnState,
    MoldauError,
    ProducerFenced,
    TimedOut,
    TopicAuthorizationFailed,
    TransactionAbortable,
    UnsupportedByBroker,
)
from moldau.client.producer.txn.prepared import PreparedTransaction
from moldau.testing import Broker, Fault, Faults
from tests.client.transactions.reading import committed

TOPIC = "orders"

# The requests of each version in a transaction with records and offsets, in this order.
REQUESTS = {
    1: ["InitProducerId", "AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"],
    2: ["InitProducerId", "Produce", "TxnOffsetCommit", "EndTxn"],
}
EACH_REQUEST = [(version, api) for version, apis in REQUESTS.items() for api in apis]


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[Broker]:
    with Broker({"transaction.two.phase.commit.enable": True}) as broker:
        yield broker


@pytest.fixture
def broker(shared_broker: Broker) -> Iterator[Broker]:
    yield shared_broker
    shared_broker.faults.clear()


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    speak(monkeypatch, request.param)
    return int(request.param)


def speak(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """Make brokers of this process report this finalized transaction version."""
    monkeypatch.setitem(api_versions.FEATURES, "transaction.version", version)


@pytest.fixture
def topic(broker: Broker, unused_name: Callable[[], str]) -> str:
    name = unused_name()
    broker.create_topic(name)
    return name


@pytest.fixture
def group(unused_name: Callable[[], str]) -> str:
    return unused_name()


@pytest.fixture
def new_producer(broker: Broker, unused_name: Callable[[], str]) -> Iterator[Callable[..., Producer]]:
    made: list[Producer] = []
    name = unused_name()

    def create(**settings: Any) -> Producer:
        known = {"transactional_id": name, "retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "reconnect_backoff_ms": 5}
        made.append(Producer(bootstrap_servers=broker.bootstrap_servers, **(known | settings)))
        return made[-1]

    yield create
    broker.faults.clear()
    for producer in made:
        producer.close(10)


def offset_of(broker: Broker, group: str, topic: str) -> int | None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        found = admin.list_group_offsets(group).get(TopicPartition(topic, 0))
        return None if found is None else found.offset


# Answers that are lost, and passing errors ----------------------------------------------------------------------------


def lose_request(faults: Faults, api: str) -> Fault:
    return faults.drop_next(api)


def lose_answer(faults: Faults, api: str) -> Fault:
    return faults.drop_next(api, applied=True)


def say_elsewhere(faults: Faults, api: str) -> Fault:
    return faults.fail_next(api, "NOT_LEADER_OR_FOLLOWER" if api == "Produce" else "NOT_COORDINATOR", times=2)


def say_not_yet(faults: Faults, api: str) -> Fault:
    code = "COORDINATOR_LOAD_IN_PROGRESS" if api == "TxnOffsetCommit" else "CONCURRENT_TRANSACTIONS"
    return faults.fail_next(api, code, times=2)


FAULTS = [lose_request, lose_answer, say_elsewhere, say_not_yet]


@pytest.mark.parametrize(("speaks", "api"), EACH_REQUEST)
def test_every_request_is_repeated_until_it_is_answered(
    broker: Broker,
    topic: str,
    group: str,
    new_producer: Callable[..., Producer],
    monkeypatch: pytest.MonkeyPatch,
    speaks: int,
    api: str,
) -> None:
    speak(monkeypatch, speaks)
    producer = new_producer()
    for number, inject in enumerate(FAULTS):
        fault = inject(broker.faults, api)
        if api == "InitProducerId":  # each producer sends it only once
            producer = new_producer()
        with producer.transaction():
            producer.send(topic, b"%d" % number)
            producer.send_offsets({TopicPartition(topic, 0): number}, group)
        assert fault.struck, inject.__name__
    expected = [b"%d" % number for number in range(len(FAULTS))]
    assert committed(broker.bootstrap_servers, topic) == expected
    assert committed(broker.bootstrap_servers, topic, level="read_uncommitted") == expected
    assert offset_of(broker, group, topic) == len(FAULTS) - 1


def test_aborts_are_repeated_too(
    broker: Broker, topic: str, new_producer: Callable[..., Producer], version: int
) -> None:
    producer = new_producer()
    producer.init_transactions()
    broker.faults.drop_next("EndTxn", applied=True)
    producer.begin_transaction()
    producer.send(topic, b"aborted").result(30)
    producer.abort_transaction()
    with producer.transaction():
        producer.send(topic, b"committed")
    assert committed(broker.bootstrap_servers, topic) == [b"committed"]


def test_a_call_that_timed_out_can_be_repeated(
    broker: Broker, topic: str, new_producer: Callable[..., Producer], version: int
) -> None:
    producer = new_producer(max_block_ms=300)
    with broker.faults.fail_next("InitProducerId", "CONCURRENT_TRANSACTIONS", times=None):
        with pytest.raises(TimedOut):
            producer.init_transactions()
        with pytest.raises(IllegalStateError, match="again until it succeeds"):
            producer.begin_transaction()
    again(producer.init_transactions)
    producer.begin_transaction()
    again(lambda: producer.send(topic, b"value").result(30))
    with broker.faults.fail_next("EndTxn", "COORDINATOR_NOT_AVAILABLE", times=None):
        with pytest.raises(TimedOut):
            producer.commit_transaction()
        with pytest.raises(IllegalStateError, match="it may have happened already"):
            producer.abort_transaction()
    again(producer.commit_transaction)
    assert committed(broker.bootstrap_servers, topic) == [b"value"]


def again(call: Callable[[], object], times: int = 100) -> None:
    """Repeat a call with a short time-out, since the machine may be busy."""
    for _ in range(times):
        try:
            call()
            return
        except TimedOut:
            pass
    raise AssertionError(f"not done after {times} attempts")


# Errors that end a transaction ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speaks", "api", "code", "expected"),
    [
        (1, "AddPartitionsToTxn", "TOPIC_AUTHORIZATION_FAILED", TopicAuthorizationFailed),
        (1, "AddOffsetsToTxn", "GROUP_AUTHORIZATION_FAILED", GroupAuthorizationFailed),
        (1, "TxnOffsetCommit", "ILLEGAL_GENERATION", CommitFailed),
        (1, "EndTxn", "TRANSACTION_ABORTABLE", TransactionAbortable),
        (1, "Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER", MoldauError),
        (2, "Produce", "TRANSACTION_ABORTABLE", TransactionAbortable),
        (2, "Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER", MoldauError),
        (2, "TxnOffsetCommit", "UNKNOWN_MEMBER_ID", CommitFailed),
        (2, "TxnOffsetCommit", "TRANSACTION_ABORTABLE", TransactionAbortable),
        (2, "EndTxn", "TRANSACTION_ABORTABLE", TransactionAbortable),
    ],
)
def test_a_transaction_that_fails_is_aborted_and_the_next_one_is_whole(
    broker: Broker,
    topic: str,
    group: str,
    new_producer: Callable[..., Producer],
    monkeypatch: pytest.MonkeyPatch,
    speaks: int,
    api: str,
    code: str,
    expected: type[MoldauError],
) -> None:
    speak(monkeypatch, speaks)
    producer = new_producer()
    producer.init_transactions()
    broker.faults.fail_next(api, code)
    producer.begin_transaction()
    producer.send(topic, b"failed")
    with pytest.raises(expected):
        send_offsets_and_commit(producer, group, topic)
    producer.abort_transaction()
    with producer.transaction():
        producer.send(topic, b"next")
        producer.send_offsets({TopicPartition(topic, 0): 7}, group)
    assert committed(broker.bootstrap_servers, topic) == [b"next"]
    assert offset_of(broker, group, topic) == 7


def send_offsets_and_commit(producer: Producer, group: str, topic: str) -> None:
    producer.send_offsets({TopicPartition(topic, 0): 5}, group)
    producer.commit_transaction()


@pytest.mark.parametrize(("speaks", "api"), [(1, "AddPartitionsToTxn"), (1, "EndTxn"), (2, "Produce"), (2, "EndTxn")])
def test_every_call_of_a_fenced_producer_fails(
    broker: Broker,
    topic: str,
    new_producer: Callable[..., Producer],
    monkeypatch: pytest.MonkeyPatch,
    speaks: int,
    api: str,
) -> None:
    speak(monkeypatch, speaks)
    producer = new_producer()
    producer.init_transactions()
    broker.faults.fail_next(api, "PRODUCER_FENCED")
    producer.begin_transaction()
    future = producer.send(topic, b"value")
    with pytest.raises(ProducerFenced):
        producer.commit_transaction()
    assert future.done()
    for call in (producer.abort_transaction, producer.begin_transaction, lambda: producer.send(topic, b"more")):
        with pytest.raises(ProducerFenced):
            call()


# Time -----------------------------------------------------------------------------------------------------------------


def test_a_transaction_that_takes_too_long_is_aborted_by_its_coordinator(
    broker: Broker, topic: str, new_producer: Callable[..., Producer], version: int
) -> None:
    slow = new_producer(transaction_timeout_ms=10_000)
    slow.init_transactions()
    slow.begin_transaction()
    slow.send(topic, b"too slow").result(30)
    broker.advance(minutes=2)
    with pytest.raises((ProducerFenced, InvalidTxnState)):  # refused by its epoch, or by the state of the transaction
        slow.commit_transaction()
    heir = new_producer()
    with heir.transaction():
        heir.send(topic, b"in time")
    assert committed(broker.bootstrap_servers, topic) == [b"in time"]


# Two phases -----------------------------------------------------------------------------------------------------------


def prepared_by(producer: Producer, topic: str, value: bytes) -> PreparedTransaction:
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, value)
    return PreparedTransaction.parse(str(producer.prepare_transaction()))


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_can_be_ended_by_its_transactional_id(
    broker: Broker, topic: str, new_producer: Callable[..., Producer], commit: bool
) -> None:
    producer = new_producer(transaction_two_phase_commit_enable=True)
    prepared = prepared_by(producer, topic, b"prepared")
    with pytest.raises(IllegalStateError, match="the transaction is prepared"):
        producer.send(topic, b"more")
    producer.close()
    broker.advance(days=2)
    assert committed(broker.bootstrap_servers, topic) == []
    other = new_producer(transactional_id=None)
    for _ in range(2):  # the second call changes nothing
        other.complete_transaction(prepared, commit=commit)
    with pytest.raises(InvalidTxnState):
        other.complete_transaction(prepared, commit=not commit)
    assert committed(broker.bootstrap_servers, topic) == ([b"prepared"] if commit else [])


@pytest.mark.parametrize("commit", [True, False])
def test_a_restarted_producer_finds_its_prepared_transaction(
    broker: Broker, topic: str, new_producer: Callable[..., Producer], commit: bool
) -> None:
    first = new_producer(transaction_two_phase_commit_enable=True)
    prepared = prepared_by(first, topic, b"prepared")
    heir = new_producer(transaction_two_phase_commit_enable=True)
    assert heir.init_transactions(keep_prepared=True) == prepared
    with pytest.raises(IllegalStateError, match="commit or abort it"):
        heir.begin_transaction()
    heir.complete_transaction(prepared, commit=commit)
    with heir.transaction():
        heir.send(topic, b"next")
    assert committed(broker.bootstrap_servers, topic) == ([b"prepared", b"next"] if commit else [b"next"])


def test_a_restarted_producer_without_keep_prepared_aborts_its_transaction(
    broker: Broker, topic: str, new_producer: Callable[..., Producer]
) -> None:
    prepared = prepared_by(new_producer(transaction_two_phase_commit_enable=True), topic, b"prepared")
    heir = new_producer(transaction_two_phase_commit_enable=True)
    with heir.transaction():
        heir.send(topic, b"next")
    with pytest.raises(MoldauError, match=r"PRODUCER_FENCED|INVALID_PRODUCER_ID_MAPPING"):
        heir.complete_transaction(prepared)
    assert committed(broker.bootstrap_servers, topic) == [b"next"]


def test_a_producer_may_end_the_transaction_that_it_prepared(
    broker: Broker, topic: str, new_producer: Callable[..., Producer], version: int
) -> None:
    producer = new_producer()
    prepared_by(producer, topic, b"one")
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send(topic, b"two")
    producer.complete_transaction(producer.prepare_transaction(), commit=False)
    with producer.transaction():
        empty = producer.prepare_transaction()
    assert empty.empty
    producer.complete_transaction(empty)
    with producer.transaction():
        producer.send(topic, b"three")
    assert committed(broker.bootstrap_servers, topic) == [b"one", b"three"]


def test_a_prepared_transaction_survives_a_crash_of_its_broker(unused_name: Callable[[], str]) -> None:
    with Broker({"transaction.two.phase.commit.enable": True}) as broker:
        broker.create_topic(TOPIC)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": unused_name()}
        with Producer(settings | {"transaction.two.phase.commit.enable": True}) as producer:
            prepared = prepared_by(producer, TOPIC, b"prepared")
        broker.crash()
        broker.start()
        with Producer(bootstrap_servers=broker.bootstrap_servers) as other:
            other.complete_transaction(prepared)
        assert committed(broker.bootstrap_servers, TOPIC) == [b"prepared"]


def test_a_broker_without_two_phase_commit_gives_an_error(topic: str, unused_name: Callable[[], str]) -> None:
    with (
        Broker() as plain,
        Producer(
            bootstrap_servers=plain.bootstrap_servers,
            transactional_id=unused_name(),
            transaction_two_phase_commit_enable=True,
        ) as producer,
        pytest.raises((UnsupportedByBroker, MoldauError), match=r"InitProducerId|two"),
    ):
        producer.init_transactions()
