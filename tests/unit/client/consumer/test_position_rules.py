"""Position rules: no change of a log makes a consumer skip a record silently."""

from __future__ import annotations

import pytest

from moldau.client.consumer import position_rules
from moldau.client.consumer.offset_reset import EARLIEST, LATEST, NO_RESET, Reset, ResetKind
from moldau.client.consumer.subscription import AssignedPartition, Phase
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import NoOffsetForPartition, OffsetOutOfRange
from moldau.client.metadata import PartitionMetadata, TopicMetadata

ID, OTHER = bytes(15) + b"\1", bytes(15) + b"\2"
HOUR = Reset(ResetKind.BY_DURATION, 3_600_000)


def state_at(position: int | None = None, *, epoch: int = -1, leader_epoch: int = -1) -> AssignedPartition:
    state = AssignedPartition(TopicPartition("t", 0))
    if position is not None:
        state.seek(position)
        state.handed_out(position, epoch)
        state.leader_epoch = leader_epoch
        state.topic_id = ID
    return state


def note(state: AssignedPartition, epoch: int, *, topic_id: bytes = ID, policy: Reset = LATEST) -> object:
    return position_rules.note_leader(state, TopicMetadata("t", topic_id), PartitionMetadata(0, 1, epoch), policy)


class TestTheFirstPosition:
    def test_is_what_the_group_committed(self) -> None:
        state = state_at()
        assert position_rules.after_committed(state, OffsetAndMetadata(42), LATEST) is None
        assert (state.position, state.phase) == (42, Phase.READY)

    def test_is_checked_first_where_the_commit_has_an_epoch(self) -> None:
        state = state_at()
        position_rules.after_committed(state, OffsetAndMetadata(42, "", 3), LATEST)
        assert (state.position, state.epoch, state.phase) == (42, 3, Phase.VALIDATE)

    @pytest.mark.parametrize("policy", [EARLIEST, LATEST, HOUR])
    def test_is_found_by_the_reset_where_nothing_is_committed(self, policy: Reset) -> None:
        state = state_at()
        assert position_rules.after_committed(state, None, policy) is None
        assert (state.phase, state.reset) == (Phase.RESET, policy)

    def test_is_an_error_with_none_and_stays_one(self) -> None:
        state = state_at()
        for _ in range(2):
            assert isinstance(position_rules.after_committed(state, None, NO_RESET), NoOffsetForPartition)

    def test_is_the_applications_own_where_it_was_faster(self) -> None:
        state = state_at()
        state.seek(5)
        position_rules.after_committed(state, OffsetAndMetadata(42), LATEST)
        assert state.position == 5


def test_resets_ask_for_times() -> None:
    asked = [position_rules.reset_timestamp(reset, 10_000_000) for reset in (EARLIEST, LATEST, HOUR)]
    assert asked == [-2, -1, 6_400_000]
    assert position_rules.reset_timestamp(HOUR, 5) == 0


class TestOutOfRange:
    @pytest.mark.parametrize("policy", [EARLIEST, LATEST, HOUR])
    def test_is_reset(self, policy: Reset) -> None:
        state = state_at(10)
        assert position_rules.after_out_of_range(state, policy) is None
        assert (state.phase, state.reset, state.position) == (Phase.RESET, policy, None)

    def test_is_an_error_with_none_and_the_position_stays(self) -> None:
        state = state_at(10)
        error = position_rules.after_out_of_range(state, NO_RESET)
        assert isinstance(error, OffsetOutOfRange) and "offset 10 of t-0" in str(error)
        assert state.position == 10


class TestANewLeader:
    def test_is_asked_whether_it_has_what_was_read(self) -> None:
        state = state_at(10, epoch=3, leader_epoch=3)
        note(state, 4)
        assert state.phase is Phase.VALIDATE
        assert not state.fetchable

    def test_is_taken_as_it_is_where_nothing_was_read_yet(self) -> None:
        state = state_at(10)
        note(state, 4)
        assert (state.phase, state.leader_epoch) == (Phase.READY, 4)

    def test_that_is_older_is_not_believed(self) -> None:
        state = state_at(10, epoch=3, leader_epoch=3)
        note(state, 2)
        assert state.phase is Phase.READY

    def test_with_the_whole_log_changes_nothing(self) -> None:
        state = state_at(10, epoch=3, leader_epoch=3)
        note(state, 4)
        version = state.version
        assert position_rules.after_epoch_end(state, 15, 3, 20, 4, LATEST) is None
        assert (state.phase, state.position, state.leader_epoch) == (Phase.READY, 10, 4)
        assert state.version == version

    def test_without_what_waits_to_be_read_has_it_fetched_again(self) -> None:
        state = state_at(10, epoch=3, leader_epoch=3)
        note(state, 4)
        version = state.version
        assert position_rules.after_epoch_end(state, 15, 3, 12, 4, LATEST) is None
        assert (state.phase, state.position) == (Phase.READY, 10)
        assert state.version != version

    @pytest.mark.parametrize("policy", [EARLIEST, LATEST, HOUR])
    def test_whose_log_was_cut_before_the_position_is_read_from_the_cut(self, policy: Reset) -> None:
        state = state_at(10, epoch=3, leader_epoch=3)
        note(state, 4)
        assert position_rules.after_epoch_end(state, 10, 3, 7, 4, policy) is None
        assert (state.phase, state.position) == (Phase.READY, 7)

    def test_whose_log_was_cut_is_an_error_with_none(self) -> None:
        state = state_at(10, epoch=3, leader_epoch=3)
        note(state, 4, policy=NO_RESET)
        error = position_rules.after_epoch_end(state, 10, 3, 7, 4, NO_RESET)
        assert isinstance(error, OffsetOutOfRange) and "truncated to offset 7" in str(error)
        assert state.position == 10

    def test_that_knows_nothing_of_that_time_means_a_reset(self) -> None:
        state = state_at(10, epoch=3, leader_epoch=3)
        note(state, 4)
        position_rules.after_epoch_end(state, 10, -1, -1, 4, EARLIEST)
        assert (state.phase, state.reset) == (Phase.RESET, EARLIEST)


class TestATopicMadeAnew:
    @pytest.mark.parametrize("policy", [EARLIEST, LATEST, HOUR])
    def test_is_read_from_its_beginning(self, policy: Reset) -> None:
        """All its records are new for a consumer of the old topic: `latest` must not skip records written in the
        meantime."""
        state = state_at(10, epoch=3, leader_epoch=3)
        assert note(state, 0, topic_id=OTHER, policy=policy) is None
        assert (state.phase, state.reset, state.topic_id) == (Phase.RESET, EARLIEST, OTHER)

    def test_is_an_error_with_none(self) -> None:
        error = note(state_at(10), 0, topic_id=OTHER, policy=NO_RESET)
        assert isinstance(error, OffsetOutOfRange) and "created again" in str(error)

    def test_is_not_what_a_first_look_is(self) -> None:
        state = state_at(10)
        state.topic_id = None
        note(state, 0, topic_id=OTHER)
        assert state.position == 10
