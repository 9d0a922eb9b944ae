"""Subscription state: topics, assigned partitions, and the application's positions in them."""

from __future__ import annotations

import re

import pytest

from moldau.client.consumer.decode import Record
from moldau.client.consumer.offset_reset import EARLIEST, LATEST, NO_RESET, Reset, ResetKind, reset_of
from moldau.client.consumer.poll_results import PollResults, Span
from moldau.client.consumer.subscription import NO_EPOCH, Phase, Subscription
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import ConfigurationError, IllegalStateError

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def subscription() -> Subscription:
    one = Subscription()
    one.assign([A, B])
    return one


def test_a_pattern_matches_whole_names_and_says_whether_that_changed_anything() -> None:
    one = Subscription()
    one.subscribe_pattern(re.compile("orders-.*"))
    assert one.match(["orders-2", "orders-1", "my-orders-1", "orders"])
    assert one.topics == ("orders-1", "orders-2")
    assert not one.match(["orders-1", "orders-2"])


def test_topics_and_chosen_partitions_do_not_mix() -> None:
    one = Subscription()
    one.subscribe(["t"])
    with pytest.raises(IllegalStateError, match="call unsubscribe"):
        one.assign([A])
    one.unsubscribe()
    one.assign([A])


def test_partitions_that_stay_keep_their_positions(subscription: Subscription) -> None:
    subscription.state(A).seek(7)
    subscription.take_assignment([A])
    assert subscription.state(A).position == 7
    subscription.take_assignment([A, B])
    assert subscription.state(B).position is None


def test_a_partition_that_is_assigned_again_is_distinguished_from_its_earlier_assignment(
    subscription: Subscription,
) -> None:
    version = subscription.state(A).version
    subscription.take_assignment([B])
    subscription.take_assignment([A, B])
    assert subscription.current(A, version) is None


def test_a_question_about_a_partition_that_is_not_assigned_names_those_that_are(subscription: Subscription) -> None:
    with pytest.raises(IllegalStateError, match=r"partition 5 of topic 't' is not assigned.*t-0, t-1"):
        subscription.state(TopicPartition("t", 5))


def test_nothing_is_committed_for_a_partition_without_a_position(subscription: Subscription) -> None:
    subscription.state(A).seek(3)
    assert subscription.positions_to_commit() == {A: OffsetAndMetadata(3)}


def test_a_commit_never_includes_records_that_were_not_yielded(subscription: Subscription) -> None:
    state = subscription.state(A)
    state.seek(10)
    state.handed_out(13, 4)
    records = [Record("t", 0, 10 + i, leader_epoch=4) for i in range(3)]
    handout = PollResults(records, [Span(A, state, state.version, None, 0, 3, 10, -1, 13, 4)])
    subscription.in_hand = handout
    assert subscription.positions_to_commit()[A] == OffsetAndMetadata(10)
    iterator = handout.one_by_one(None)
    next(iterator)
    assert subscription.positions_to_commit()[A] == OffsetAndMetadata(11, "", 4)
    list(iterator)
    assert subscription.positions_to_commit()[A] == OffsetAndMetadata(13, "", 4)


def test_partitions_being_revoked_are_not_read(subscription: Subscription) -> None:
    subscription.state(A).seek(1)
    assert subscription.state(A).fetchable
    subscription.begin_revocation([A])
    assert not subscription.state(A).fetchable
    assert subscription.state(A).position == 1


def test_a_seek_with_an_epoch_is_checked_before_it_is_fetched_from(subscription: Subscription) -> None:
    subscription.state(A).seek(1, 4)
    assert subscription.state(A).phase is Phase.VALIDATE


@pytest.mark.parametrize(
    ("text", "reset"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("none", NO_RESET),
        ("by_duration:PT1H", Reset(ResetKind.BY_DURATION, 3_600_000)),
        ("by_duration:P1DT0.5S", Reset(ResetKind.BY_DURATION, 86_400_500)),
    ],
)
def test_auto_offset_reset_is_read_as_kafka_reads_it(text: str, reset: Reset) -> None:
    assert reset_of(text) == reset


@pytest.mark.parametrize("text", ["soon", "by_duration:", "by_duration:P", "by_duration:-PT1S", "by_duration:1h"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        reset_of(text)


def test_records_that_are_given_back_before_a_check_leave_nothing_to_check(subscription: Subscription) -> None:
    state = subscription.state(A)
    state.seek(0)
    state.handed_out(3, epoch=1)
    state.ask_validation()
    assert state.phase is Phase.VALIDATE
    state.handed_out(0, NO_EPOCH)
    assert state.phase is Phase.READY and state.position == 0
