"""Leader epochs of a log and their start offsets, kept in `leader-epoch-checkpoint`. Pure.

A follower compares them with its leader's to find the offset where the two logs diverge. Entries increase in both epoch
and offset. The owner writes the file when `dirty` is set, before the recovery point passes the change. Entries lost in
a crash are found again in the batches, which carry their epoch.
"""

from __future__ import annotations

from bisect import bisect_right

from moldau.log.checkpoints import BadCheckpointError, decode_lines, encode_lines
from moldau.wire.number_types import NO_LEADER_EPOCH, LeaderEpoch

NO_EPOCH = NO_LEADER_EPOCH
NO_OFFSET = -1


class LeaderEpochs:
    """The leader epochs of one log."""

    __slots__ = ("_epochs", "_starts", "dirty")

    def __init__(self) -> None:
        self._epochs: list[LeaderEpoch] = []
        self._starts: list[int] = []
        self.dirty = False

    @property
    def latest(self) -> LeaderEpoch:
        """The epoch of the last entry, -1 if there is none."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    @property
    def earliest_start(self) -> int:
        """The start offset of the first entry, -1 if there is none."""
        return self._starts[0] if self._starts else NO_OFFSET

    def entries(self) -> list[tuple[LeaderEpoch, int]]:
        """The (epoch, start offset) of each entry, in order."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: LeaderEpoch, start_offset: int) -> None:
        """Record that this epoch starts at this offset.

        Entries that contradict it are removed: after a truncation, earlier epochs may still have later start offsets.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} at offset {start_offset} is negative")
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            del self._epochs[-1], self._starts[-1]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.dirty = True

    def end_offset(self, epoch: LeaderEpoch, log_end_offset: int) -> tuple[LeaderEpoch, int]:
        """OffsetForLeaderEpoch: the largest known epoch not above the requested one, and its end offset.

        (-1, -1) if the requested epoch is newer than all known epochs.
        """
        if epoch == NO_EPOCH:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        after = bisect_right(self._epochs, epoch)
        if after == len(self._epochs):
            return NO_EPOCH, NO_OFFSET
        if after == 0:
            # Older than all known epochs: its records are deleted, and the log continues where the first entry starts.
            return epoch, self._starts[0]
        return self._epochs[after - 1], self._starts[after]

    def epoch_at(self, offset: int) -> LeaderEpoch:
        """The epoch of an offset, -1 if the offset is before all entries."""
        slot = bisect_right(self._starts, offset) - 1
        return self._epochs[slot] if slot >= 0 else NO_EPOCH

    def truncate_end(self, end_offset: int) -> None:
        """Remove the epochs that start at or after `end_offset`."""
        while self._starts and self._starts[-1] >= end_offset:
            del self._epochs[-1], self._starts[-1]
            self.dirty = True

    def truncate_start(self, start_offset: int) -> None:
        """Remove the epochs that end before `start_offset`; the epoch that contains it now starts there."""
        slot = bisect_right(self._starts, start_offset) - 1
        if slot < 0 or (slot == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:slot], self._starts[:slot]
        self._starts[0] = start_offset
        self.dirty = True

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.dirty = True

    def encode(self) -> bytes:
        return encode_lines(f"{epoch} {start}" for epoch, start in self.entries())

    @classmethod
    def decode(cls, data: bytes) -> LeaderEpochs:
        """Decode the file; BadCheckpointError if it is invalid."""
        epochs = cls()
        for fields in decode_lines(data, 2):
            try:
                epochs.assign(LeaderEpoch(int(fields[0])), int(fields[1]))
            except ValueError as error:
                raise BadCheckpointError(f"not an epoch and an offset: {' '.join(fields)}") from error
        epochs.dirty = False
        return epochs

    @classmethod
    def of(cls, entries: list[tuple[LeaderEpoch, int]]) -> LeaderEpochs:
        epochs = cls()
        for epoch, start in entries:
            epochs.assign(epoch, start)
        epochs.dirty = False
        return epochs
