"""Fetch sessions: the client names its partitions once, then both sides send only changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.wire.errors import ErrorCode
from moldau.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from moldau.wire.messages.fetch import FetchRequestForgottenTopic, FetchResponse, FetchResponsePartition
from tests.compat import wire
from tests.compat.wire import fetch_partition
from tests.support.raw import RawConnection

NEW = 0
FINAL = -1


class Session:
    """The client's side of a fetch session."""

    def __init__(self, connection: RawConnection, topic: str, partitions: int) -> None:
        self.connection = connection
        self.topic = topic
        self.id = 0
        self.epoch = NEW
        wanted = [fetch_partition(index) for index in range(partitions)]
        self.first = self.fetch(*wanted)
        assert self.first.error_code == 0
        self.id = self.first.session_id
        assert self.id > 0

    def fetch(self, *wanted: object, forgotten: tuple[int, ...] = ()) -> FetchResponse:
        response = wire.fetch(
            self.connection,
            self.topic if wanted else None,
            wanted,  # type: ignore[arg-type]
            session_id=self.id,
            session_epoch=self.epoch,
            forgotten_topics_data=[FetchRequestForgottenTopic(topic=self.topic, partitions=list(forgotten))]
            if forgotten
            else [],
        )
        if response.error_code == 0:
            self.epoch += 1
        return response


def mentioned(response: FetchResponse) -> dict[int, FetchResponsePartition]:
    return {answer.partition_index: answer for topic in response.responses for answer in topic.partitions}


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic(partitions=3)


@pytest.fixture
def session(raw: RawConnection, topic: str) -> Session:
    return Session(raw, topic, partitions=3)


def test_the_first_answer_has_every_partition_even_the_empty_ones(session: Session) -> None:
    assert set(mentioned(session.first)) == {0, 1, 2}


def test_an_incremental_fetch_without_news_is_empty(session: Session) -> None:
    response = session.fetch()
    assert (response.error_code, response.session_id, mentioned(response)) == (0, session.id, {})


def test_only_partitions_with_news_are_in_the_response(session: Session, raw: RawConnection, topic: str) -> None:
    wire.produced(raw, topic, b"news", partition=1)
    found = mentioned(session.fetch())
    assert {index: len(wire.records_in(answer.records)) for index, answer in found.items()} == {1: 1}


def test_records_are_sent_again_until_the_fetch_offset_advances(
    session: Session, raw: RawConnection, topic: str
) -> None:
    wire.produced(raw, topic, b"news", partition=1)
    assert set(mentioned(session.fetch())) == {1}
    # The session still has the old fetch offset, because the client has not advanced it.
    assert set(mentioned(session.fetch())) == {1}
    assert mentioned(session.fetch(fetch_partition(1, offset=1))) == {}


def test_a_changed_log_start_is_in_the_response(session: Session, raw: RawConnection, topic: str) -> None:
    wire.produced(raw, topic, b"one", b"two", partition=2)
    session.fetch(fetch_partition(2, offset=2))
    assert mentioned(session.fetch()) == {}
    partition = DeleteRecordsRequestPartition(partition_index=2, offset=1)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsRequestTopic(name=topic, partitions=[partition])], timeout_ms=10_000
    )
    wire.ask(raw, request)
    found = mentioned(session.fetch())
    assert {index: answer.log_start_offset for index, answer in found.items()} == {2: 1}


def test_an_error_is_repeated_until_it_is_gone(session: Session) -> None:
    for _ in range(2):
        found = mentioned(session.fetch(fetch_partition(0, offset=50)))
        assert {index: answer.error_code for index, answer in found.items()} == {0: ErrorCode.OFFSET_OUT_OF_RANGE}
    found = mentioned(session.fetch(fetch_partition(0, offset=0)))
    assert all(answer.error_code == 0 for answer in found.values())
    assert mentioned(session.fetch()) == {}


def test_a_forgotten_partition_is_no_longer_in_responses(session: Session, raw: RawConnection, topic: str) -> None:
    session.fetch(forgotten=(1,))
    for partition in range(3):
        wire.produced(raw, topic, b"news", partition=partition)
    assert set(mentioned(session.fetch())) == {0, 2}


def test_a_partition_may_join_later(raw: RawConnection, topic: str) -> None:
    session = Session(raw, topic, partitions=1)
    assert set(mentioned(session.fetch(fetch_partition(2)))) <= {2}
    wire.produced(raw, topic, b"news", partition=2)
    assert set(mentioned(session.fetch())) == {2}


def test_a_waiting_session_is_woken(bootstrap: str, session: Session, topic: str) -> None:
    session.connection.send(
        1,
        wire.FETCH_VERSION,
        wire.fetch_request(None, max_wait_ms=60_000, session_id=session.id, session_epoch=session.epoch).encode(
            wire.FETCH_VERSION
        ),
    )
    with RawConnection(bootstrap) as writer:
        wire.produced(writer, topic, b"news", partition=0)
    response = session.connection.receive(1, wire.FETCH_VERSION, FetchResponse)
    assert set(mentioned(response)) == {0}


def test_an_unknown_session_is_an_error(raw: RawConnection, topic: str) -> None:
    response = wire.fetch(raw, topic, [fetch_partition()], session_id=123_456_789, session_epoch=5)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (response.session_id, response.responses) == (0, [])


@pytest.mark.parametrize("step", [-1, 1])
def test_a_wrong_session_epoch_is_an_error_and_keeps_the_session(step: int, session: Session) -> None:
    session.fetch()
    right = session.epoch
    session.epoch = right + step
    response = session.fetch()
    assert response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert (response.session_id, response.responses) == (0, [])
    session.epoch = right
    assert session.fetch().error_code == 0


def test_a_final_request_is_served_and_closes_the_session(session: Session, raw: RawConnection, topic: str) -> None:
    wire.produced(raw, topic, b"last", partition=0)
    session.epoch = FINAL
    response = session.fetch(fetch_partition(0))
    assert (response.error_code, response.session_id) == (0, 0)
    assert len(wire.records_in(mentioned(response)[0].records)) == 1
    session.epoch = 2
    assert session.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_new_session_replaces_the_old_one(session: Session, raw: RawConnection, topic: str) -> None:
    old = session.id
    response = wire.fetch(raw, topic, [fetch_partition(0)], session_id=old, session_epoch=NEW)
    assert response.error_code == 0
    assert response.session_id > 0
    assert set(mentioned(response)) == {0}
    if response.session_id != old:
        assert session.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_sessions_of_two_clients_are_separate(bootstrap: str, session: Session, raw: RawConnection, topic: str) -> None:
    with RawConnection(bootstrap) as connection:
        other = Session(connection, topic, partitions=3)
        assert other.id != session.id
        wire.produced(raw, topic, b"news", partition=1)
        for each in (session, other):
            assert set(mentioned(each.fetch())) == {1}
