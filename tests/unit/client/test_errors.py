"""Client errors: classes, messages and pickling."""

from __future__ import annotations

import pickle

import pytest

from moldau.client import errors
from moldau.client.broker_errors import CLASS_OF
from moldau.client.client_errors import error_copy
from moldau.client.data_types import TopicPartition
from moldau.client.errors import (
    BrokerError,
    DeserializationError,
    ErrorCode,
    MoldauError,
    NoOffsetForPartition,
    OffsetOutOfRange,
    TopicAlreadyExists,
    error_for,
)


def test_an_error_has_the_operation_the_reason_and_the_code() -> None:
    error = error_for(ErrorCode.TOPIC_ALREADY_EXISTS, "creating topic 'orders'")
    assert isinstance(error, TopicAlreadyExists) and error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert str(error) == (
        "creating topic 'orders': a topic with this name exists; use it, or choose another name (TOPIC_ALREADY_EXISTS)"
    )


def test_the_message_of_the_broker_is_first() -> None:
    error = error_for(ErrorCode.INVALID_CONFIG, "creating topic 'orders'", "retention.ms is -7.")
    assert str(error).startswith("creating topic 'orders': retention.ms is -7; the broker does not accept the setting")


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
def test_every_code_has_an_error_that_is_as_retriable_as_the_code(code: ErrorCode) -> None:
    error = error_for(code, "doing something")
    assert isinstance(error, BrokerError) and isinstance(error, MoldauError)
    assert error.code is code and error.retriable == code.retriable
    assert str(error).startswith("doing something: ") and str(error).endswith(f"({code.name})")


def test_an_unknown_code_is_shown_as_a_number() -> None:
    error = error_for(9999, "doing something")
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR and "(code 9999)" in str(error)


def test_every_class_with_a_code_explains_it() -> None:
    assert [kind for kind in CLASS_OF.values() if not kind.SAYS] == []


def test_every_error_can_be_imported_from_one_module() -> None:
    assert [kind.__name__ for kind in CLASS_OF.values() if not hasattr(errors, kind.__name__)] == []


def test_an_error_with_no_committed_offset_is_also_one_of_range() -> None:
    assert issubclass(NoOffsetForPartition, OffsetOutOfRange)


@pytest.mark.parametrize(
    "error",
    [
        error_for(ErrorCode.NOT_LEADER_OR_FOLLOWER, "sending"),
        error_for(ErrorCode.MEMBER_ID_REQUIRED, "joining"),
        errors.TimedOut("too late"),
        DeserializationError("bad", TopicPartition("t", 1), 7, "key", (b"k", b"v")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_can_be_copied_and_sent_to_other_processes(error: MoldauError) -> None:
    for copy in (error_copy(error), pickle.loads(pickle.dumps(error))):
        assert copy is not error and type(copy) is type(error)
        assert str(copy) == str(error) and vars(copy) == vars(error)


def test_a_record_that_cannot_be_read_is_named() -> None:
    error = DeserializationError("bad", TopicPartition("t", 1), 7, "key")
    assert (error.topic, error.partition.partition, error.offset, error.part) == ("t", 1, 7, "key")
