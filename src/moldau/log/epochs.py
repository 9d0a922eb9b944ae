"""Leader epochs: at which offset each began, for finding where two logs part (`leader-epoch-checkpoint`). Pure.

Entries rise in both epoch and offset. The file is written by whoever holds this when `dirty` says so, before the
recovery point passes: what a crash loses is found again in the batches, which carry their epoch.
"""

from __future__ import annotations

from bisect import bisect_right

from moldau.log.checkpoints import BadCheckpointError, decode_lines, encode_lines

NO_EPOCH = -1
NO_OFFSET = -1


class LeaderEpochs:
    """The epochs of one log."""

    __slots__ = ("_epochs", "_starts", "dirty")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.dirty = False

    @property
    def latest(self) -> int:
        """The epoch of the last entry, -1 where there is none."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    @property
    def earliest_start(self) -> int:
        """Where the first entry begins, -1 where there is none."""
        return self._starts[0] if self._starts else NO_OFFSET

    def entries(self) -> list[tuple[int, int]]:
        """The (epoch, start offset) of each, in order."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """A batch of this epoch stands at this offset, or its leader begins there.

        Entries that contradict it (later offsets of earlier epochs, which a truncation has made false) go.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} at offset {start_offset}")
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            del self._epochs[-1], self._starts[-1]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.dirty = True

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch not above the asked one, and where it ends: Kafka's OffsetForLeaderEpoch.

        (-1, -1) where the asked epoch lies beyond all that is known.
        """
        if epoch == NO_EPOCH:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        after = bisect_right(self._epochs, epoch)
        if after == len(self._epochs):
            return NO_EPOCH, NO_OFFSET
        if after == 0:
            # Older than everything we have: its records are gone, and the log goes on where the first one starts.
            return epoch, self._starts[0]
        return self._epochs[after - 1], self._starts[after]

    def epoch_at(self, offset: int) -> int:
        """The epoch that an offset belongs to, -1 where it is before all entries."""
        slot = bisect_right(self._starts, offset) - 1
        return self._epochs[slot] if slot >= 0 else NO_EPOCH

    def truncate_end(self, end_offset: int) -> None:
        """Forgets the epochs that begin at or after `end_offset`."""
        while self._starts and self._starts[-1] >= end_offset:
            del self._epochs[-1], self._starts[-1]
            self.dirty = True

    def truncate_start(self, start_offset: int) -> None:
        """Forgets the epochs that end before `start_offset`; the one that holds it begins there from now on."""
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
        """From the file's text; BadCheckpointError where it is not one."""
        epochs = cls()
        for fields in decode_lines(data, 2):
            try:
                epochs.assign(int(fields[0]), int(fields[1]))
            except ValueError as error:
                raise BadCheckpointError(f"not an epoch and an offset: {' '.join(fields)}") from error
        epochs.dirty = False
        return epochs

    @classmethod
    def of(cls, entries: list[tuple[int, int]]) -> LeaderEpochs:
        epochs = cls()
        for epoch, start in entries:
            epochs.assign(epoch, start)
        epochs.dirty = False
        return epochs
