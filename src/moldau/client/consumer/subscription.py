"""What a consumer is subscribed to, what it has been assigned, and how far the application has come in each partition.

Pure: no clock, no network, no task. The event loop owns it. Three rules keep records from being lost:

* A position moves only when records are handed out (`handed_out`) or when somebody sets it (`seek`, a reset).
* Records that were handed to an iterator but not yet yielded do not count: `consumed` and `positions_to_commit` stop at
  the last record that the application has seen.
* Every `seek`, reset or new assignment gives a partition a new `version`. What was asked for under an older one, be it
  records on their way or an offset that is being looked up, is dropped when it arrives.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from itertools import count
from types import MappingProxyType
from typing import Final, Protocol

from moldau.client.consumer.model import Reset
from moldau.client.errors import IllegalStateError
from moldau.client.model import OffsetAndMetadata, TopicPartition

NO_EPOCH: Final = -1

_versions = count(1)  # never the same twice, so that a partition taken, lost and taken again is told apart, too


class Mode(Enum):
    """Where the partitions of a consumer come from."""

    NONE = "nothing"
    TOPICS = "topics by name"
    PATTERN = "topics by pattern"
    ASSIGNED = "partitions of its own choice"


class Phase(Enum):
    """What a partition needs before records can be fetched for it."""

    INITIAL = "its committed offset is to be looked up"
    RESET = "a position is to be found as the reset says"
    VALIDATE = "the position is to be compared with the log of a new leader"
    READY = "nothing: it can be fetched"


class InHand(Protocol):
    """Records on their way through an iterator: some were yielded, some not yet."""

    def unseen(self, partition: TopicPartition) -> tuple[int, int] | None:
        """The offset to go on from, and the epoch of what stands before it; None where all was yielded."""


class PartitionState:
    """One assigned partition: its position, what is known of its log, and whether it is paused."""

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
        self.position: int | None = None  # of the next record to hand out
        self.epoch = NO_EPOCH  # of the leader that wrote the record before the position, where known
        self.leader_epoch = NO_EPOCH  # of the leader that the position was last found valid with
        self.topic_id: bytes | None = None  # of the topic that the position is meant for, once that is known
        self.reset: Reset | None = None  # how to find a position, while the phase is RESET
        self.paused = False
        self.revoking = False  # given up, as soon as the application has heard of it: nothing more is handed out
        # As the last answer said; -1 while unknown.
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1

    def __repr__(self) -> str:
        return f"<{self.partition} at {self.position}, {self.phase.name}{', paused' if self.paused else ''}>"

    @property
    def fetchable(self) -> bool:
        """Whether records may be fetched for it and handed out."""
        return self.phase is Phase.READY and not self.paused and not self.revoking

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """Go on from `offset`, whatever was before."""
        self.version = next(_versions)
        self.position = offset
        self.epoch = epoch
        self.leader_epoch = NO_EPOCH
        self.reset = None
        # Where the epoch of what stands before is known, a log that was cut and written anew can be told.
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
        """The leader changed: before more is fetched, see whether its log has what stands before the position.

        The version stays: what was fetched from the old leader below its high watermark is sound.
        """
        if self.phase is Phase.READY and self.epoch != NO_EPOCH:
            self.phase = Phase.VALIDATE

    def validated(self, leader_epoch: int) -> None:
        """The leader of `leader_epoch` has the record before the position."""
        self.leader_epoch = leader_epoch
        if self.phase is Phase.VALIDATE:
            self.phase = Phase.READY

    def fetch_again(self) -> None:
        """Whatever was fetched beyond the position is not to be believed; the position is."""
        self.version = next(_versions)

    def handed_out(self, position: int, epoch: int) -> None:
        """Records up to `position` (exclusive) are the application's now."""
        self.position = position
        self.epoch = epoch


class Subscription:
    """Everything a consumer knows about what it reads. See the module's rules."""

    __slots__ = ("_assigned", "_pattern", "_topics", "in_hand", "mode", "revision")

    def __init__(self) -> None:
        self.mode = Mode.NONE
        self.revision = 0  # goes up with every change of `topics`, `pattern` or `mode`
        self.in_hand: InHand | None = None
        self._topics: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None
        self._assigned: dict[TopicPartition, PartitionState] = {}

    # -- what is subscribed ----------------------------------------------------------------------------------------

    @property
    def topics(self) -> tuple[str, ...]:
        """The names subscribed to, sorted; with a pattern, those that it matched when `match` was last called."""
        return self._topics

    @property
    def pattern(self) -> re.Pattern[str] | None:
        return self._pattern

    @property
    def uses_group(self) -> bool:
        """Whether a group decides what is read."""
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
        """Take the topics that the pattern matches among `names`; whether they are others than before."""
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

    # -- what is assigned ------------------------------------------------------------------------------------------

    @property
    def assigned(self) -> Mapping[TopicPartition, PartitionState]:
        return MappingProxyType(self._assigned)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """The application chose these itself; those it had before keep their positions."""
        self._enter(Mode.ASSIGNED)
        self.take_assignment(partitions)
        self._topics = tuple(sorted({partition.topic for partition in self._assigned}))
        self.revision += 1

    def take_assignment(self, partitions: Iterable[TopicPartition]) -> None:
        """From now on exactly these: new ones come without a position, the others go."""
        wanted = dict.fromkeys(TopicPartition(*partition) for partition in partitions)
        self.revoke([partition for partition in self._assigned if partition not in wanted])
        for partition in wanted:
            if partition not in self._assigned:
                self._assigned[partition] = PartitionState(partition)

    def begin_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """These will go as soon as the application has heard of it: until then they are ours, but stand still."""
        for partition in partitions:
            if (state := self._assigned.get(partition)) is not None:
                state.revoking = True

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """These are gone, with their positions and all that was fetched for them."""
        for partition in partitions:
            self._assigned.pop(partition, None)

    def state(self, partition: TopicPartition) -> PartitionState:
        """The state of an assigned partition; an error that says so where it is not."""
        state = self._assigned.get(partition)
        if state is None:
            raise IllegalStateError(
                f"partition {partition[1]} of topic {partition[0]!r} is not assigned to this consumer; assigned are "
                f"{_listing(self._assigned)}"
            )
        return state

    def current(self, partition: TopicPartition, version: int) -> PartitionState | None:
        """The state that was asked for under `version`, or None: revoked, or moved since."""
        state = self._assigned.get(partition)
        return state if state is not None and state.version == version else None

    # -- how far the application has come --------------------------------------------------------------------------

    def consumed(self, partition: TopicPartition) -> tuple[int, int] | None:
        """The offset after the last record that the application has seen, and that record's epoch."""
        state = self.state(partition)
        if state.position is None:
            return None
        if self.in_hand is not None and (unseen := self.in_hand.unseen(partition)) is not None:
            return unseen
        return state.position, state.epoch

    def positions_to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """For each assigned partition with a position: what a commit should say now.

        Never more than the application has seen: a record that an iterator still holds is not in it.
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
