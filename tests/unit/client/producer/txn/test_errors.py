"""Errors of transactional requests: their severity, and the one that counts among many."""

from __future__ import annotations

import pytest

from moldau.client.errors import (
    BrokerUnavailable,
    CommitFailed,
    MoldauError,
    ProducerFenced,
    TimedOut,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    UnsupportedByBroker,
    error_for,
)
from moldau.client.producer.txn.errors import MEMBER_LEFT, Severity, of_batch, of_init, of_request
from moldau.client.producer.txn.requests import raise_worst
from moldau.wire.errors import ErrorCode

E = ErrorCode


@pytest.mark.parametrize(
    ("code", "request_means", "batch_means", "init_means"),
    [
        (E.NOT_COORDINATOR, Severity.RETRY, Severity.ABORT, Severity.RETRY),
        (E.CONCURRENT_TRANSACTIONS, Severity.RETRY, Severity.ABORT, Severity.RETRY),
        (E.PRODUCER_FENCED, Severity.FATAL, Severity.FATAL, Severity.FATAL),
        (E.INVALID_PRODUCER_EPOCH, Severity.FATAL, Severity.ABORT, Severity.FATAL),
        (E.TRANSACTION_ABORTABLE, Severity.ABORT, Severity.ABORT, Severity.NOTHING),
        (E.TOPIC_AUTHORIZATION_FAILED, Severity.ABORT, Severity.ABORT, Severity.NOTHING),
        (E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Severity.FATAL, Severity.FATAL, Severity.NOTHING),
        (E.OUT_OF_ORDER_SEQUENCE_NUMBER, Severity.FATAL, Severity.ABORT, Severity.NOTHING),
        (E.INVALID_TXN_STATE, Severity.FATAL, Severity.ABORT, Severity.NOTHING),
        (E.INVALID_TRANSACTION_TIMEOUT, Severity.FATAL, Severity.ABORT, Severity.NOTHING),
        (E.MESSAGE_TOO_LARGE, Severity.FATAL, Severity.ABORT, Severity.NOTHING),
        (E.UNKNOWN_SERVER_ERROR, Severity.FATAL, Severity.ABORT, Severity.NOTHING),
    ],
)
def test_error_codes_are_handled_as_in_kafkas_producer(
    code: ErrorCode, request_means: Severity, batch_means: Severity, init_means: Severity
) -> None:
    error = error_for(code, "doing something")
    assert (of_request(error), of_batch(error), of_init(error)) == (request_means, batch_means, init_means)


@pytest.mark.parametrize("error", [TimedOut("late"), BrokerUnavailable("gone")])
def test_network_errors_are_retried(error: MoldauError) -> None:
    assert of_request(error) is of_init(error) is Severity.RETRY


def test_an_unsupported_request_is_a_fatal_error() -> None:
    assert of_request(UnsupportedByBroker("old")) is of_batch(UnsupportedByBroker("old")) is Severity.FATAL


@pytest.mark.parametrize("code", sorted(MEMBER_LEFT))
def test_a_consumer_that_lost_its_partitions_fails_the_transaction_and_says_so(code: ErrorCode) -> None:
    with pytest.raises(CommitFailed, match="assigned the partitions to other members") as refusal:
        raise_worst([(code, "partition 0 of 't'")], "committing offsets")
    assert of_request(refusal.value) is Severity.ABORT


def test_of_many_errors_the_lasting_one_counts_and_names_its_partition() -> None:
    found = [
        (E.NONE, "a"),
        (E.OPERATION_NOT_ATTEMPTED, "b"),
        (E.UNKNOWN_TOPIC_OR_PARTITION, "c"),
        (E.TOPIC_AUTHORIZATION_FAILED, "partition 3 of 'orders'"),
        (E.OPERATION_NOT_ATTEMPTED, "d"),
    ]
    with pytest.raises(TopicAuthorizationFailed, match="partition 3 of 'orders'"):
        raise_worst(found, "adding partitions")


@pytest.mark.parametrize("turn", [1, -1])
def test_operation_not_attempted_after_a_retriable_error_is_retried(turn: int) -> None:
    found = [(E.OPERATION_NOT_ATTEMPTED, "a"), (E.UNKNOWN_TOPIC_OR_PARTITION, "b")][::turn]
    with pytest.raises(UnknownTopicOrPartition) as refusal:
        raise_worst(found, "adding partitions")
    assert of_request(refusal.value) is Severity.RETRY


def test_the_fencing_error_of_old_coordinators_is_understood() -> None:
    with pytest.raises(ProducerFenced):
        raise_worst([(E.INVALID_PRODUCER_EPOCH, "")], "committing")


def test_no_error_is_no_error() -> None:
    raise_worst([(E.NONE, ""), (E.NONE, "")], "anything")
