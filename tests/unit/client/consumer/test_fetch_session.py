"""Fetch sessions of a consumer: only changes are sent, and everything again after a doubt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer.fetch_session import (
    FINAL_EPOCH,
    MAX_EPOCH,
    ClientFetchSession,
    SessionRequest,
    WantedPartition,
)
from moldau.client.data_types import TopicPartition
from moldau.wire.errors import ErrorCode

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ID, OTHER = bytes(15) + b"\1", bytes(15) + b"\2"


def wanted(offset: int, topic_id: bytes = ID) -> WantedPartition:
    return WantedPartition(topic_id, offset, 0, 1_000)


def opened(*partitions: TopicPartition) -> ClientFetchSession:
    session = ClientFetchSession()
    session.begin(dict.fromkeys(partitions, wanted(0)))
    session.answered(ErrorCode.NONE, 77)
    return session


def test_the_first_request_names_all_partitions() -> None:
    request = ClientFetchSession().begin({A: wanted(0), B: wanted(5)})
    assert request == SessionRequest(0, 0, {A: wanted(0), B: wanted(5)}, ())
    assert request.full


def test_later_requests_name_only_changes() -> None:
    session = opened(A, B)
    assert session.begin({A: wanted(9), B: wanted(0)}) == SessionRequest(77, 1, {A: wanted(9)}, ())


def test_partitions_that_are_no_longer_wanted_are_forgotten() -> None:
    assert opened(A, B).begin({A: wanted(0)}) == SessionRequest(77, 1, {}, ((B, ID),))


def test_a_recreated_topic_is_forgotten_by_its_old_id_and_sent_with_the_new_one() -> None:
    assert opened(A).begin({A: wanted(0, OTHER)}) == SessionRequest(77, 1, {A: wanted(0, OTHER)}, ((A, ID),))


def test_a_broker_without_sessions_gets_all_partitions_every_time() -> None:
    session = ClientFetchSession()
    session.begin({A: wanted(0)})
    session.answered(ErrorCode.NONE, 0)
    assert session.begin({A: wanted(0)}).full


def test_a_session_that_the_broker_lost_is_replaced() -> None:
    session = opened(A)
    session.begin({A: wanted(1)})
    session.answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert session.begin({A: wanted(1)}) == SessionRequest(0, 0, {A: wanted(1)}, ())


def test_after_a_lost_answer_all_partitions_are_sent_and_the_old_session_is_closed() -> None:
    session = opened(A)
    session.begin({A: wanted(1)})
    session.failed()
    assert session.begin({A: wanted(1)}) == SessionRequest(77, 0, {A: wanted(1)}, ())


def test_the_last_epoch_is_followed_by_the_first() -> None:
    session = opened(A)
    session.epoch = MAX_EPOCH
    session.begin({A: wanted(0)})
    session.answered(ErrorCode.NONE, 77)
    assert session.epoch == 1


def test_the_end_of_a_session_is_sent_once() -> None:
    session = opened(A)
    assert session.end() == SessionRequest(77, FINAL_EPOCH, {}, ())
    assert session.end() is None


class Broker:
    """The state that a broker keeps for a session, by the rules of KIP-227."""

    def __init__(self) -> None:
        self.partitions: dict[tuple[TopicPartition, bytes], WantedPartition] = {}

    def take(self, request: SessionRequest) -> None:
        if request.full:
            self.partitions = {}
        for partition, topic_id in request.forget:
            del self.partitions[partition, topic_id]
        for partition, want in request.send.items():
            self.partitions[partition, want.topic_id] = want


steps = st.lists(
    st.tuples(
        st.dictionaries(
            st.sampled_from([TopicPartition("t", index) for index in range(4)]),
            st.tuples(st.integers(0, 3), st.sampled_from([ID, OTHER])),
        ),
        st.sampled_from(["answered", "lost request", "lost answer", "forgotten"]),
    ),
    max_size=12,
)


@given(steps)
def test_the_broker_always_knows_exactly_what_is_wanted(
    steps: list[tuple[dict[TopicPartition, tuple[int, bytes]], str]],
) -> None:
    session, broker = ClientFetchSession(), Broker()
    for described, fate in steps:
        asked = {partition: wanted(offset, topic_id) for partition, (offset, topic_id) in described.items()}
        request = session.begin(asked)
        if fate == "lost request":
            session.failed()
            continue
        if fate == "forgotten" and not request.full:
            session.answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
            continue
        broker.take(request)
        assert broker.partitions == {(partition, want.topic_id): want for partition, want in asked.items()}
        assert all(session.knows(partition) for partition in asked)
        if fate == "lost answer":
            session.failed()
        else:
            session.answered(ErrorCode.NONE, 5)
