"""Subscription state of a consumer: topics, assigned partitions, and the position in each partition.

No clock, no network, no task; owned by the event loop. Three rules keep records from being lost:

* A position moves only when records are handed out (`handed_out`) or by `seek` and resets.
* Records that an iterator holds and has not yielded do not count: `consumed` and `positions_to_commit` stop at the last
  record that the application has seen.
* Every `seek`, reset or new assignment gives a partition a new `version`. A response to a request of an older version,
  with records or with an offset, is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from itertools import count
from types import MappingProxyType
from typing import Final, Protocol

from moldau.client.consumer.offset_reset import Reset
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import IllegalStateError

NO_EPOCH: Final = -1

_versions = count(1)  # unique, so that a response for a partition that was revoked and assigned again is dropped too


class Mode(Enum):
    """Where the partitions of a consumer come from."""

    NONE = "nothing"
    TOPICS = "topics by name"
    PATTERN = "topics by pattern"
    ASSIGNED = "partitions of its own choice"


class Phase(Enum):
    """What must happen before records can be fetched for a partition."""

    INITIAL = "look up the committed offset"
    RESET = "find a position with the reset policy"
    VALIDATE = "compare the position with the log of a new leader"
    READY = "nothing"


class InHand(Protocol):
    """Records that an iterator holds: some were yielded, some not yet."""

    def unseen(self, partition: TopicPartition) -> tuple[int, int] | None:
        """Return the offset of the first record not yielded, and the epoch of the record before it; None if none."""


class AssignedPartition:
    """One assigned partition: its position, offsets of its log, and whether it is paused."""

    __slots__ = (
        "epoch",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "partition",
        "paused",
        "phase",
        "position",
        "reset",
        "revoking",
        "topic_id",
        "version",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.version = next(_versions)
        self.phase = Phase.INITIAL
        self.position: int | None = None  # offset of the next record to hand out
        self.epoch = NO_EPOCH  # of the leader that wrote the record before the position, if known
        self.leader_epoch = NO_EPOCH  # of the leader whose log the position was last compared with
        self.topic_id: bytes | None = None  # of the topic that the position belongs to, once it is known
        self.reset: Reset | None = None  # how to find a position, while the phase is RESET
        self.paused = False
        self.revoking = False  # revoked after the listener was called; no more records are handed out
        # From the last Fetch response; -1 while unknown.
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1

    def __repr__(self) -> str:
        return f"<{self.partition} at {self.position}, {self.phase.name}{', paused' if self.paused else ''}>"

    @property
    def fetchable(self) -> bool:
        """Whether records may be fetched and handed out."""
        return self.phase is Phase.READY and not self.paused and not self.revoking

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """Continue at `offset`."""
        self.version = next(_versions)
        self.position = offset
        self.epoch = epoch
        self.leader_epoch = NO_EPOCH
        self.reset = None
        # With the epoch of the record before it, the leader can say whether the log was truncated below the offset.
        self.phase = Phase.READY if epoch == NO_EPOCH else Phase.VALIDATE

    def ask_reset(self, reset: Reset) -> None:
        """Find a new position as `reset` says."""
        self.version = next(_versions)
        self.position = None
        self.epoch = NO_EPOCH
        self.leader_epoch = NO_EPOCH
        self.reset = reset
        self.phase = Phase.RESET

    def ask_validation(self) -> None:
        """After a change of leader, check that the new leader's log has the record before the position.

        The version stays: records that the old leader returned were below its high watermark, so they are valid.
        """
        if self.phase is Phase.READY and self.epoch != NO_EPOCH:
            self.phase = Phase.VALIDATE

    def validated(self, leader_epoch: int) -> None:
        """Note that the log of the leader of `leader_epoch` has the record before the position."""
        self.leader_epoch = leader_epoch
        if self.phase is Phase.VALIDATE:
            self.phase = Phase.READY

    def fetch_again(self) -> None:
        """Keep the position, and drop the records that were fetched after it."""
        self.version = next(_versions)

    def handed_out(self, position: int, epoch: int) -> None:
        """Move the position: records before it were handed to the application.

        Back to the start, if the application did not get them: then no record was read, and a check that was asked for
        has nothing to compare. A broker would answer that it does not know the epoch, and the position would be reset.
        """
        self.position = position
        self.epoch = epoch
        if epoch == NO_EPOCH and self.phase is Phase.VALIDATE:
            self.phase = Phase.READY


class Subscription:
    """Topics, assignment and positions of one consumer. See the module's rules."""

    __slots__ = ("_assigned", "_pattern", "_topics", "in_hand", "mode", "revision")

    def __init__(self) -> None:
        self.mode = Mode.NONE
        self.revision = 0  # incremented by every change of `topics`, `pattern` or `mode`
        self.in_hand: InHand | None = None
        self._topics: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None
        self._assigned: dict[TopicPartition, AssignedPartition] = {}

    # -- subscription ----------------------------------------------------------------------------------------------

    @property
    def topics(self) -> tuple[str, ...]:
        """The subscribed topics, sorted; with a pattern, the topics that the last `match` found."""
        return self._topics

    @property
    def pattern(self) -> re.Pattern[str] | None:
        return self._pattern

    @property
    def uses_group(self) -> bool:
        """Whether the consumer has subscribed, so that its group (if any) assigns the partitions."""
        return self.mode in (Mode.TOPICS, Mode.PATTERN)

    def subscribe(self, topics: Iterable[str]) -> None:
        self._enter(Mode.TOPICS)
        self._pattern = None
        self._topics = tuple(sorted(set(topics)))
        self.revision += 1

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        self._enter(Mode.PATTERN)
        self._pattern = pattern
        self._topics = ()
        self.revision += 1

    def match(self, names: Iterable[str]) -> bool:
        """Subscribe to the topics of `names` that match the pattern. Return whether the topics have changed."""
        if self._pattern is None:
            return False
        matched = tuple(sorted(name for name in set(names) if self._pattern.fullmatch(name)))
        if matched == self._topics:
            return False
        self._topics = matched
        self.revision += 1
        return True

    def unsubscribe(self) -> None:
        self.mode = Mode.NONE
        self._pattern = None
        self._topics = ()
        self._assigned.clear()
        self.revision += 1

    def _enter(self, mode: Mode) -> None:
        if mode is not self.mode and self.mode is not Mode.NONE:
            raise IllegalStateError(
                f"this consumer reads {self.mode.value}; call unsubscribe() before it can read {mode.value}"
            )
        self.mode = mode

    # -- assignment ------------------------------------------------------------------------------------------------

    @property
    def assigned(self) -> Mapping[TopicPartition, AssignedPartition]:
        return MappingProxyType(self._assigned)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign the partitions that the application gave. Those it had before keep their positions."""
        self._enter(Mode.ASSIGNED)
        self.take_assignment(partitions)
        self._topics = tuple(sorted({partition.topic for partition in self._assigned}))
        self.revision += 1

    def take_assignment(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment. New partitions have no position yet; missing ones are revoked."""
        wanted = dict.fromkeys(TopicPartition(*partition) for partition in partitions)
        self.revoke([partition for partition in self._assigned if partition not in wanted])
        for partition in wanted:
            if partition not in self._assigned:
                self._assigned[partition] = AssignedPartition(partition)

    def begin_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out no more records of these partitions. They stay assigned until the listener has been called."""
        for partition in partitions:
            if (state := self._assigned.get(partition)) is not None:
                state.revoking = True

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove these partitions with their positions. Records that were fetched for them are dropped."""
        for partition in partitions:
            self._assigned.pop(partition, None)

    def state(self, partition: TopicPartition) -> AssignedPartition:
        """Return the state of an assigned partition. Raises IllegalStateError if it is not assigned."""
        state = self._assigned.get(partition)
        if state is None:
            raise IllegalStateError(
                f"partition {partition[1]} of topic {partition[0]!r} is not assigned to this consumer; assigned are: "
                f"{_listing(self._assigned)}"
            )
        return state

    def current(self, partition: TopicPartition, version: int) -> AssignedPartition | None:
        """Return the partition's state if it still has this version; None after a revocation, seek or reset."""
        state = self._assigned.get(partition)
        return state if state is not None and state.version == version else None

    # -- consumed offsets ------------------------------------------------------------------------------------------

    def consumed(self, partition: TopicPartition) -> tuple[int, int] | None:
        """Return the offset after the last record that the application has seen, and that record's epoch."""
        state = self.state(partition)
        if state.position is None:
            return None
        if self.in_hand is not None and (unseen := self.in_hand.unseen(partition)) is not None:
            return unseen
        return state.position, state.epoch

    def positions_to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit now, for each assigned partition with a position.

        Records that an iterator still holds are not included.
        """
        offsets = {}
        for partition in self._assigned:
            if (consumed := self.consumed(partition)) is not None:
                offset, epoch = consumed
                offsets[partition] = OffsetAndMetadata(offset, "", None if epoch == NO_EPOCH else epoch)
        return offsets


def _listing(partitions: Collection[TopicPartition], most: int = 8) -> str:
    if not partitions:
        return "none"
    shown = [f"{topic}-{partition}" for topic, partition in sorted(partitions)[:most]]
    return ", ".join(shown) + (f" and {len(partitions) - most} more" if len(partitions) > most else "")
