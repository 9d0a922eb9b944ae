"""Position rules: changes of a partition's position after news about its leader, its topic or its log.

Plain functions without I/O. Each takes the partition's state and one fact, changes the state, and returns the error for
the application, if there is one. After an error the state allows a retry: it gives the same error again, or succeeds if
the cause is gone.
"""

from __future__ import annotations

from typing import Final

from moldau.client.consumer.offset_reset import EARLIEST, NO_RESET, Reset, ResetKind
from moldau.client.consumer.subscription import NO_EPOCH, AssignedPartition, Phase
from moldau.client.data_types import OffsetAndMetadata
from moldau.client.errors import LogTruncated, MoldauError, NoOffsetForPartition, OffsetOutOfRange
from moldau.client.metadata import NO_TOPIC_ID, PartitionMetadata, TopicMetadata
from moldau.wire.errors import ErrorCode

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
NO_OFFSET: Final = -1


def note_leader(
    state: AssignedPartition, topic: TopicMetadata, partition: PartitionMetadata, policy: Reset
) -> MoldauError | None:
    """Apply leader epoch and topic id from the metadata."""
    error = _note_topic(state, topic, policy)
    epoch = partition.leader_epoch
    if epoch == NO_EPOCH or epoch == state.leader_epoch:
        return error
    if state.epoch == NO_EPOCH:
        state.leader_epoch = epoch  # no record was read yet, so there is nothing to compare
    elif epoch > state.leader_epoch:
        state.ask_validation()
    return error


def _note_topic(state: AssignedPartition, topic: TopicMetadata, policy: Reset) -> MoldauError | None:
    """Reset the position if the topic was deleted and created again: the new topic's offsets start at 0.

    All records of the new topic are new to this consumer, so it reads from the beginning also if auto.offset.reset is
    not earliest. If it is none, the application gets an error.
    """
    if topic.id == NO_TOPIC_ID or topic.id == state.topic_id:
        return None
    created_again = state.topic_id is not None
    state.topic_id = topic.id
    if not created_again or state.position is None:
        return None
    before = state.position
    if policy is NO_RESET or policy.kind is ResetKind.NONE:
        state.seek(before)
        return OffsetOutOfRange(
            f"topic {topic.name!r} was deleted and created again, so offset {before} of partition "
            f"{state.partition.partition} means another record now; auto.offset.reset is none: "
            "seek to the offset to continue at",
            ErrorCode.OFFSET_OUT_OF_RANGE,
        )
    state.ask_reset(EARLIEST)
    return None


def after_committed(state: AssignedPartition, committed: OffsetAndMetadata | None, policy: Reset) -> MoldauError | None:
    """Start at the committed offset or, if there is none, as auto.offset.reset says."""
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
    """Return the timestamp to send in ListOffsets for this reset."""
    if reset.kind is ResetKind.EARLIEST:
        return EARLIEST_TIMESTAMP
    if reset.kind is ResetKind.BY_DURATION:
        return max(now_ms - reset.duration_ms, 0)
    return LATEST_TIMESTAMP


def after_out_of_range(state: AssignedPartition, policy: Reset) -> MoldauError | None:
    """Reset a position outside of the log: its record was deleted, or never existed."""
    if policy.kind is ResetKind.NONE:
        return OffsetOutOfRange(
            f"offset {state.position} of {state.partition} is out of range (log start is {state.log_start_offset}) and "
            "auto.offset.reset is none: seek to an existing offset",
            ErrorCode.OFFSET_OUT_OF_RANGE,
        )
    state.ask_reset(policy)
    return None


def after_epoch_end(
    state: AssignedPartition, fetched_to: int, end_epoch: int, end_offset: int, leader_epoch: int, policy: Reset
) -> MoldauError | None:
    """Apply the new leader's answer: the end, in its log, of the epoch of the record before the position.

    An end below the position means that records which the application has read are lost (an unclean election). An end
    below `fetched_to` means that buffered records are lost, and must be fetched again.
    """
    position = state.position
    if state.phase is not Phase.VALIDATE or position is None:
        return None
    if end_offset == NO_OFFSET or end_epoch == NO_EPOCH:
        return after_out_of_range(state, policy)  # the leader does not know that epoch
    if end_offset >= position:
        if end_offset < fetched_to:
            state.fetch_again()
        state.validated(leader_epoch)
        return None
    if policy.kind is ResetKind.NONE:
        return LogTruncated(
            f"{state.partition} was truncated to offset {end_offset}: records below {position} that were read before "
            "are lost; auto.offset.reset is none: seek to the offset to continue at",
            state.partition,
            position,
            end_offset,
        )
    state.seek(end_offset)
    state.leader_epoch = leader_epoch
    return None
