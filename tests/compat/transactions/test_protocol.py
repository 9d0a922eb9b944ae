"""Transaction APIs: the answer of each version, and the stored log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.records import ControlType, parse_marker
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersRequestTopic
from moldau.wire.messages.describe_transactions import DescribeTransactionsRequest
from moldau.wire.messages.list_transactions import ListTransactionsRequest
from moldau.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
)
from moldau.wire.producer_identity import NO_IDENTITY, ProducerIdentity
from tests.compat import wire
from tests.compat.transactions import requests
from tests.compat.transactions.requests import init, producer, write
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

E = ErrorCode
NEW_EPOCHS = 5  # version of EndTxn
KEEPS_EPOCH = 3


@pytest.fixture
def name(unused_name: Callable[[], str]) -> str:
    """A transactional id that no other test uses."""
    return unused_name()


def markers_in(raw: RawConnection, topic: str, partition: int = 0) -> list[tuple[ControlType, int]]:
    """(type, epoch) of every marker in a partition."""
    batches = wire.stored_batches(raw, topic, partition)
    return [(parse_marker(batch).type, header.producer_epoch) for header, batch in batches if header.is_control]


# -- InitProducerId ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_every_idempotent_producer_gets_its_own_id(raw: RawConnection, version: int) -> None:
    answers = [init(raw, None, version=version, timeout_ms=2**31 - 1) for _ in range(3)]
    assert {answer.error for answer in answers} == {E.NONE}
    assert {answer.identity.epoch for answer in answers} == {0}
    assert len({answer.identity.producer_id for answer in answers}) == 3


@pytest.mark.parametrize("version", range(6))
def test_a_new_transactional_producer_has_the_next_epoch(raw: RawConnection, name: str, version: int) -> None:
    first = producer(raw, name, version=version)
    assert producer(raw, name, version=version) == ProducerIdentity(first.producer_id, first.epoch + 1)


@pytest.mark.parametrize(("version", "error"), [(3, E.INVALID_PRODUCER_EPOCH), (4, E.PRODUCER_FENCED)])
def test_a_replaced_producer_is_fenced(raw: RawConnection, name: str, version: int, error: E) -> None:
    old = producer(raw, name)
    assert init(raw, name, expected=old).identity.epoch == old.epoch + 1
    producer(raw, name)
    assert init(raw, name, expected=old, version=version).error == error


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_time_out_out_of_bounds_is_refused(raw: RawConnection, name: str, timeout_ms: int) -> None:
    requests.find_coordinator(raw, name)
    assert init(raw, name, timeout_ms=timeout_ms).error == E.INVALID_TRANSACTION_TIMEOUT


def test_an_empty_transactional_id_is_refused(raw: RawConnection) -> None:
    assert init(raw, "").error == E.INVALID_REQUEST


def test_two_phase_commit_is_refused_where_it_is_not_enabled(raw: RawConnection, name: str, moldau_only: None) -> None:
    requests.find_coordinator(raw, name)
    error = E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert init(raw, name, version=6, enable2_pc=True).error == error
    assert init(raw, name, version=6, keep_prepared_txn=True).error == error
    assert init(raw, name, version=6).error == E.NONE


# -- writing within a transaction --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "error"), [(8, E.INVALID_TXN_STATE), (10, E.INVALID_TXN_STATE), (11, E.TRANSACTION_ABORTABLE)]
)
def test_a_partition_that_is_not_part_of_the_transaction_is_not_written_to(
    raw: RawConnection, topic: str, name: str, version: int, error: E
) -> None:
    me = producer(raw, name)
    assert write(raw, name, me, topic, b"lost", version=version) == error
    assert wire.list_offset(raw, topic, wire.LATEST).offset == 0


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_by_the_client(raw: RawConnection, topic: str, name: str, version: int) -> None:
    me = producer(raw, name)
    assert requests.add(raw, name, me, topic, version=version) == E.NONE
    assert write(raw, name, me, topic, b"a") == E.NONE
    assert requests.end(raw, name, me, True, version=KEEPS_EPOCH).error == E.NONE
    wait_until(lambda: requests.committed_values(raw, topic) == [b"a"])
    assert markers_in(raw, topic) == [(ControlType.COMMIT, me.epoch)]


def test_partitions_are_added_by_the_broker(raw: RawConnection, topic: str, name: str) -> None:
    me = producer(raw, name)
    assert write(raw, name, me, topic, b"a", version=12) == E.NONE
    assert write(raw, name, me, topic, b"b", sequence=1, version=12) == E.NONE
    after = requests.end(raw, name, me, True, version=NEW_EPOCHS)
    assert after == (E.NONE, ProducerIdentity(me.producer_id, me.epoch + 1))
    assert write(raw, name, after.identity, topic, b"c", version=12) == E.NONE
    assert requests.committed_values(raw, topic) == [b"a", b"b"]
    assert requests.end(raw, name, after.identity, False, version=NEW_EPOCHS).identity.epoch == me.epoch + 2
    wait_until(lambda: len(markers_in(raw, topic)) == 2)
    assert markers_in(raw, topic) == [(ControlType.COMMIT, me.epoch + 1), (ControlType.ABORT, me.epoch + 2)]
    assert requests.committed_values(raw, topic) == [b"a", b"b"]


def test_a_topic_by_id_can_be_part_of_a_transaction(raw: RawConnection, topic: str, name: str) -> None:
    me = producer(raw, name)
    assert write(raw, name, me, wire.topic_id(raw, topic), b"a", version=13) == E.NONE  # type: ignore[arg-type]
    assert requests.verify(raw, name, me, topic, 0) == E.NONE


@pytest.mark.parametrize(("version", "error"), [(1, E.INVALID_PRODUCER_EPOCH), (2, E.PRODUCER_FENCED)])
def test_a_zombie_can_neither_add_nor_end(raw: RawConnection, topic: str, name: str, version: int, error: E) -> None:
    zombie = producer(raw, name)
    assert write(raw, name, zombie, topic, b"of the zombie", version=12) == E.NONE
    me = producer(raw, name)
    assert requests.add(raw, name, zombie, topic, version=version) == error
    assert requests.end(raw, name, zombie, True, version=version).error == error
    assert requests.end(raw, name, zombie, False, version=version).error == error
    assert write(raw, name, zombie, topic, b"more", sequence=1, version=12) == E.INVALID_PRODUCER_EPOCH
    assert write(raw, name, zombie, topic, b"more", sequence=1, version=10) == E.INVALID_PRODUCER_EPOCH
    assert write(raw, name, me, topic, b"mine", version=12) == E.NONE
    assert requests.end(raw, name, me, True, version=NEW_EPOCHS).error == E.NONE
    wait_until(lambda: requests.committed_values(raw, topic) == [b"mine"])


def test_an_unknown_producer_has_no_transaction(raw: RawConnection, topic: str, name: str) -> None:
    me = producer(raw, name)
    stranger = ProducerIdentity(me.producer_id + 1_000_000, 0)
    error = E.INVALID_PRODUCER_ID_MAPPING
    assert requests.add(raw, name, stranger, topic) == error
    assert requests.end(raw, name, stranger, True, version=KEEPS_EPOCH).error == error
    assert requests.verify(raw, name, stranger, topic, 0) == error
    assert write(raw, name, stranger, topic, b"x", version=12) == error


def test_a_transactional_batch_needs_a_transactional_id(raw: RawConnection, topic: str, name: str) -> None:
    me = producer(raw, name)
    assert write(raw, None, me, topic, b"x") == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_if_one_partition_is_unknown_none_is_added(raw: RawConnection, topic: str, name: str) -> None:
    me = producer(raw, name)
    errors = requests.add_each(raw, name, me, topic, [0, 99])
    assert errors == [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert requests.verify(raw, name, me, topic, 0) == E.TRANSACTION_ABORTABLE


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_verify_partitions(raw: RawConnection, topic: str, name: str, version: int) -> None:
    me = producer(raw, name)
    assert requests.verify(raw, name, me, topic, 0, version=version) == E.TRANSACTION_ABORTABLE
    requests.add(raw, name, me, topic)
    assert requests.verify(raw, name, me, topic, 0, version=version) == E.NONE


@pytest.mark.parametrize("what", [("", 0), ("..", 0), ("no/topic", 0), ("x" * 300, 0), (None, -1)])
def test_a_transaction_with_an_invalid_topic_or_partition_can_be_ended(
    raw: RawConnection, topic: str, name: str, what: tuple[str | None, int], moldau_only: None
) -> None:
    me = producer(raw, name)
    added = requests.verify(raw, name, me, topic if what[0] is None else what[0], what[1], verify_only=False)
    assert added == E.NONE
    assert requests.end(raw, name, me, False, version=KEEPS_EPOCH).error == E.NONE
    wait_until(lambda: requests.add(raw, name, me, topic) == E.NONE)  # the earlier transaction is ended


# -- ending ------------------------------------------------------------------------------------------------------------


def test_an_end_that_is_repeated_has_the_same_answer(raw: RawConnection, topic: str, name: str) -> None:
    me = producer(raw, name)
    write(raw, name, me, topic, b"a", version=12)
    first = requests.end(raw, name, me, True, version=NEW_EPOCHS)
    again = wait_until(
        lambda: (
            None
            if (found := requests.end(raw, name, me, True, version=NEW_EPOCHS)).error == E.CONCURRENT_TRANSACTIONS
            else found
        )
    )
    assert again == first
    assert requests.end(raw, name, me, False, version=NEW_EPOCHS).error == E.INVALID_TXN_STATE
    assert requests.committed_values(raw, topic) == [b"a"]


def test_an_empty_transaction_can_be_aborted_but_not_committed(raw: RawConnection, name: str) -> None:
    me = producer(raw, name)
    assert requests.end(raw, name, me, True, version=NEW_EPOCHS).error == E.INVALID_TXN_STATE
    assert requests.end(raw, name, me, False, version=KEEPS_EPOCH).error == E.INVALID_TXN_STATE
    assert requests.end(raw, name, me, False, version=NEW_EPOCHS).identity.epoch == me.epoch + 1


def test_an_open_transaction_holds_back_readers_of_committed_records(raw: RawConnection, topic: str, name: str) -> None:
    wire.produced(raw, topic, b"before")
    me = producer(raw, name)
    write(raw, name, me, topic, b"open", version=12)
    wire.produced(raw, topic, b"after")
    assert requests.committed_values(raw, topic) == [b"before"]
    assert wire.list_offset(raw, topic, wire.LATEST, isolation_level=1).offset == 1
    assert wire.list_offset(raw, topic, wire.LATEST, isolation_level=0).offset == 3
    requests.end(raw, name, me, False, version=NEW_EPOCHS)
    wait_until(lambda: requests.committed_values(raw, topic) == [b"before", b"after"])


def test_every_partition_gets_the_same_marker(raw: RawConnection, new_topic: Callable[..., str], name: str) -> None:
    topic = new_topic(partitions=4)
    me = producer(raw, name)
    for partition in range(4):
        write(raw, name, me, topic, b"x", partition=partition, version=12)
    requests.end(raw, name, me, True, version=NEW_EPOCHS)
    for partition in range(4):
        expected = [(ControlType.COMMIT, me.epoch + 1)]
        wait_until(lambda at=partition, want=expected: markers_in(raw, topic, at) == want)


# -- describing --------------------------------------------------------------------------------------------------------


def test_transactions_are_described(raw: RawConnection, topic: str, name: str) -> None:
    me = producer(raw, name, timeout_ms=12_345)
    requests.add(raw, name, me, topic)
    found, unknown = wire.ask(
        raw, DescribeTransactionsRequest(transactional_ids=[name, f"no {name}"])
    ).transaction_states
    assert (found.error_code, found.transaction_state, found.transaction_timeout_ms) == (0, "Ongoing", 12_345)
    assert (found.producer_id, found.producer_epoch) == me
    assert [(one.topic, one.partitions) for one in found.topics] == [(topic, [0])]
    assert abs(found.transaction_start_time_ms - wire.now_ms()) < 60_000
    assert unknown.error_code == E.TRANSACTIONAL_ID_NOT_FOUND


def listed(raw: RawConnection, name: str, version: int = 2, **filters: Any) -> list[str]:
    answer = wire.ask(raw, ListTransactionsRequest(**filters), version)
    assert answer.error_code == 0
    return [one.transaction_state for one in answer.transaction_states if one.transactional_id == name]


def test_transactions_are_listed(raw: RawConnection, topic: str, name: str) -> None:
    me = producer(raw, name)
    assert listed(raw, name, version=0) == ["Empty"]
    requests.add(raw, name, me, topic)
    assert listed(raw, name, version=1) == ["Ongoing"]
    assert listed(raw, name, state_filters=["Ongoing", "Empty"]) == ["Ongoing"]
    assert listed(raw, name, state_filters=["Empty"]) == []
    assert listed(raw, name, producer_id_filters=[me.producer_id]) == ["Ongoing"]
    assert listed(raw, name, producer_id_filters=[me.producer_id + 1_000_000]) == []
    assert listed(raw, name, duration_filter=3_600_000) == []
    assert listed(raw, name, transactional_id_pattern=name[:10].replace(".", "[.]") + ".*") == ["Ongoing"]
    assert listed(raw, name, transactional_id_pattern="nobody.*") == []


def test_unknown_states_and_invalid_patterns_are_reported(raw: RawConnection, name: str) -> None:
    producer(raw, name)
    answer = wire.ask(raw, ListTransactionsRequest(state_filters=["Confused"]))
    assert (answer.error_code, answer.unknown_state_filters, answer.transaction_states) == (0, ["Confused"], [])
    answer = wire.ask(raw, ListTransactionsRequest(transactional_id_pattern="(unclosed"))
    assert answer.error_code == E.INVALID_REGULAR_EXPRESSION


def describe_producers(raw: RawConnection, topic: str) -> list[Any]:
    wanted = DescribeProducersRequestTopic(name=topic, partition_indexes=[0])
    ((answer,),) = [one.partitions for one in wire.ask(raw, DescribeProducersRequest(topics=[wanted])).topics]
    assert answer.error_code == 0
    return list(answer.active_producers)


def test_producers_of_a_partition_are_described(raw: RawConnection, topic: str, name: str) -> None:
    assert describe_producers(raw, topic) == []
    me = producer(raw, name)
    wire.produced(raw, topic, b"of nobody")
    write(raw, name, me, topic, b"a", b"b", version=12)
    (found,) = describe_producers(raw, topic)
    assert (found.producer_id, found.producer_epoch, found.last_sequence) == (*me, 1)
    assert found.current_txn_start_offset == 1
    requests.end(raw, name, me, True, version=NEW_EPOCHS)
    wait_until(lambda: describe_producers(raw, topic)[0].current_txn_start_offset == -1)


# -- WriteTxnMarkers ---------------------------------------------------------------------------------------------------


def write_marker(raw: RawConnection, topic: str, identity: ProducerIdentity, commit: bool, **options: Any) -> ErrorCode:
    marker = WriteTxnMarkersRequestMarker(
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        transaction_result=commit,
        coordinator_epoch=0,
        topics=[WriteTxnMarkersRequestTopic(name=topic, partition_indexes=[0])],
        transaction_version=options.pop("transaction_version", 0),
    )
    (answer,) = wire.ask(raw, WriteTxnMarkersRequest(markers=[marker]), **options).markers
    ((partition,),) = [one.partitions for one in answer.topics]
    return ErrorCode(partition.error_code)


def test_a_hanging_transaction_can_be_aborted_by_hand(raw: RawConnection, topic: str, name: str) -> None:
    me = producer(raw, name)
    write(raw, name, me, topic, b"hangs", version=12)
    wire.produced(raw, topic, b"waits")
    assert write_marker(raw, topic, me, False) == E.NONE
    assert requests.committed_values(raw, topic) == [b"waits"]


def test_a_marker_with_an_old_epoch_is_refused(raw: RawConnection, topic: str, name: str) -> None:
    producer(raw, name)
    me = producer(raw, name)
    write(raw, name, me, topic, b"mine", version=12)
    assert write_marker(raw, topic, ProducerIdentity(me.producer_id, me.epoch - 1), False) == E.INVALID_PRODUCER_EPOCH
    assert write_marker(raw, topic, me, False, version=2, transaction_version=2) == E.INVALID_PRODUCER_EPOCH
    assert describe_producers(raw, topic)[0].current_txn_start_offset == 0


def test_a_marker_for_an_unknown_partition_is_answered(raw: RawConnection, name: str) -> None:
    assert write_marker(raw, f"no-{name}"[:200], ProducerIdentity(7, 0), True) == E.UNKNOWN_TOPIC_OR_PARTITION


# -- the feature -------------------------------------------------------------------------------------------------------


def test_transaction_version_2_is_a_finalized_feature(raw: RawConnection) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    response = raw.call(ApiKey.API_VERSIONS, 4, request, ApiVersionsResponse)
    assert response.finalized_features_epoch >= 0
    assert ("transaction.version", 2) in [(one.name, one.max_version_level) for one in response.finalized_features]
    assert ("transaction.version", 0, 2) in [
        (one.name, one.min_version, one.max_version) for one in response.supported_features
    ]


def test_an_invalid_transaction_timeout_gets_no_producer_id(raw: RawConnection, name: str) -> None:
    requests.find_coordinator(raw, name)
    assert init(raw, name, timeout_ms=0).identity == NO_IDENTITY
