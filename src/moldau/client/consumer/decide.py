"""What becomes of a partition's position when something is learnt about its log: rules, and nothing but rules.

Each function takes the partition's state and one fact, changes the state, and returns the error that the application
has to hear of, if there is one. After an error the state is such that trying again is right: either the same error
comes again, or the matter has settled itself.
"""

from __future__ import annotations

from typing import Final

from moldau.client.consumer.model import EARLIEST, NO_RESET, Reset, ResetKind
from moldau.client.consumer.subscription import NO_EPOCH, PartitionState, Phase
from moldau.client.errors import LogTruncated, MoldauError, NoOffsetForPartition, OffsetOutOfRange
from moldau.client.metadata import NO_TOPIC_ID, PartitionMetadata, TopicMetadata
from moldau.client.model import OffsetAndMetadata
from moldau.wire.errors import ErrorCode

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
NO_OFFSET: Final = -1


def note_leader(
    state: PartitionState, topic: TopicMetadata, partition: PartitionMetadata, policy: Reset
) -> MoldauError | None:
    """The metadata says who leads the partition, of which topic."""
    error = _note_topic(state, topic, policy)
    epoch = partition.leader_epoch
    if epoch == NO_EPOCH or epoch == state.leader_epoch:
        return error
    if state.epoch == NO_EPOCH:
        state.leader_epoch = epoch  # nothing was read yet that could be compared
    elif epoch > state.leader_epoch:
        state.ask_validation()
    return error


def _note_topic(state: PartitionState, topic: TopicMetadata, policy: Reset) -> MoldauError | None:
    """A topic that was deleted and created again under its name is another log: its offsets begin anew.

    All of its records are new to whoever followed the old one, so reading goes on at its beginning, whichever way
    auto.offset.reset points; with `none` the application is asked.
    """
    if topic.id == NO_TOPIC_ID or topic.id == state.topic_id:
        return None
    made_anew = state.topic_id is not None
    state.topic_id = topic.id
    if not made_anew or state.position is None:
        return None
    before = state.position
    if policy is NO_RESET or policy.kind is ResetKind.NONE:
        state.seek(before)
        return OffsetOutOfRange(
            f"topic {topic.name!r} was deleted and created again, so offset {before} of partition "
            f"{state.partition.partition} means another record now; auto.offset.reset is none: seek to where to go on",
            ErrorCode.OFFSET_OUT_OF_RANGE,
        )
    state.ask_reset(EARLIEST)
    return None


def after_committed(state: PartitionState, committed: OffsetAndMetadata | None, policy: Reset) -> MoldauError | None:
    """The group has committed this for a partition that has no position yet, or nothing."""
    if state.phase is not Phase.INITIAL:
        return None
    if committed is not None and committed.offset >= 0:
        state.seek(committed.offset, NO_EPOCH if committed.leader_epoch is None else committed.leader_epoch)
        return None
    if policy.kind is ResetKind.NONE:
        return NoOffsetForPartition(
            f"no offset is committed for {state.partition}, and auto.offset.reset is none: seek, or commit one first",
            ErrorCode.OFFSET_OUT_OF_RANGE,
        )
    state.ask_reset(policy)
    return None


def reset_timestamp(reset: Reset, now_ms: int) -> int:
    """What ListOffsets is asked for."""
    if reset.kind is ResetKind.EARLIEST:
        return EARLIEST_TIMESTAMP
    if reset.kind is ResetKind.BY_DURATION:
        return max(now_ms - reset.duration_ms, 0)
    return LATEST_TIMESTAMP


def after_out_of_range(state: PartitionState, policy: Reset) -> MoldauError | None:
    """The broker has no record at the position: it was deleted, or has never been there."""
    if policy.kind is ResetKind.NONE:
        return OffsetOutOfRange(
            f"offset {state.position} of {state.partition} is out of range (log start is {state.log_start_offset}) and "
            "auto.offset.reset is none: seek to an offset that is there",
            ErrorCode.OFFSET_OUT_OF_RANGE,
        )
    state.ask_reset(policy)
    return None


def after_epoch_end(
    state: PartitionState, fetched_to: int, end_epoch: int, end_offset: int, leader_epoch: int, policy: Reset
) -> MoldauError | None:
    """The new leader says where the epoch of the record before our position ends in its log.

    Ends it before the position, then what the application has read last was cut off and is gone (an unclean election).
    Ends it before `fetched_to`, then what waits to be read is gone, and has to be fetched again.
    """
    position = state.position
    if state.phase is not Phase.VALIDATE or position is None:
        return None
    if end_offset == NO_OFFSET or end_epoch == NO_EPOCH:
        return after_out_of_range(state, policy)  # the leader knows nothing of that time
    if end_offset >= position:
        if end_offset < fetched_to:
            state.fetch_again()
        state.validated(leader_epoch)
        return None
    if policy.kind is ResetKind.NONE:
        return LogTruncated(
            f"{state.partition} was cut at offset {end_offset}, and records up to {position} that were read before are "
            "no longer in it; auto.offset.reset is none: seek to where to go on",
            state.partition,
            position,
            end_offset,
        )
    state.seek(end_offset)
    state.leader_epoch = leader_epoch
    return None
