"""The log compared with a model: a list of batches.

After any appends, reads, truncations, deletions, restarts, kills and power losses the log holds what the model holds.
After a power loss that is a clean prefix with everything that was flushed.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.log.config import LogConfig
from moldau.log.errors import OffsetNotInLog
from moldau.log.log import Log
from moldau.records import BatchRecord, Codec, decode_batch, peek_header
from moldau.testing.faulty_fs import FaultyFileSystem
from tests.unit.log.support import NAME, NOW, TOPIC_ID, batch, close_dirs, flush, open_dirs, split, with_threads

SMALL = LogConfig(
    segment_bytes=1500,
    index_interval_bytes=150,
    segment_index_bytes=160,
    max_message_bytes=1500,
    message_timestamp_after_max_ms=10**9,
    retention_ms=-1,
)

fractions = st.floats(0, 1, exclude_max=True)
producer_ids = st.sampled_from([-1, -1, 7, 8])


@dataclass
class Stored:
    """A batch of the model."""

    base: int
    last: int
    data: bytes
    producer_id: int
    sequence: int


class LogMachine(RuleBasedStateMachine):
    flush_messages = SMALL.flush_messages

    @initialize()
    def begin(self) -> None:
        self.config = LogConfig(
            **{
                **{name: getattr(SMALL, name) for name in SMALL.__slots__},
                "flush_messages": self.flush_messages,
            }
        )
        self.fs = FaultyFileSystem(max_open_files=4)
        self.dirs = open_dirs(self.fs, self.config)
        self.log: Log = self.dirs.create(NAME.topic, TOPIC_ID, NAME.partition, self.config)
        flush(self.log)  # its directory entry is durable, as after the first flush
        self.batches: list[Stored] = []
        self.start = 0
        self.end = 0
        self.durable = 0
        self.epoch = 0
        self.saved_start = 0

    def teardown(self) -> None:
        if hasattr(self, "dirs"):
            self.dirs.release()

    # -- operations ------------------------------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 5),
        size=st.integers(0, 200),
        timestamp=st.integers(0, 50_000),
        codec=st.sampled_from(list(Codec)),
        producer_id=producer_ids,
    )
    def append(self, count: int, size: int, timestamp: int, codec: Codec, producer_id: int) -> None:
        sequence = self.next_sequence(producer_id)
        data = batch(
            count,
            timestamp=NOW + timestamp,
            value=b"v" * size,
            codec=codec,
            producer_id=producer_id,
            sequence=sequence,
        )
        result = self.log.append(data, self.epoch, NOW)
        assert (result.first_offset, result.last_offset, result.duplicate) == (self.end, self.end + count - 1, False)
        self.batches.append(Stored(self.end, self.end + count - 1, bytes(data), producer_id, sequence))
        self.end += count
        if self.flush_messages == 1:
            assert self.log.flush_barrier == self.durable
            self.flush()
        assert self.log.flush_barrier == self.end

    def next_sequence(self, producer_id: int) -> int:
        for one in reversed(self.batches):
            if one.producer_id == producer_id >= 0:
                return one.sequence + one.last - one.base + 1
        return 0

    @precondition(lambda self: any(one.producer_id >= 0 and one.base >= self.start for one in self.batches))
    @rule()
    def retry_the_last_batch_of_a_producer(self) -> None:
        last = next(one for one in reversed(self.batches) if one.producer_id >= 0)
        result = self.log.append(memoryview(bytearray(last.data)), self.epoch, NOW)
        assert (result.first_offset, result.last_offset, result.duplicate) == (last.base, last.last, True)

    @rule()
    def flush(self) -> None:
        flush(self.log)
        self.durable = self.end
        assert self.log.flushed_offset == self.end

    @rule()
    def write_checkpoints(self) -> None:
        with_threads(self.dirs.write_checkpoints)
        self.saved_start = self.start

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule()
    def begin_a_leader_epoch(self) -> None:
        self.epoch += 1

    @precondition(lambda self: self.end > self.start)
    @rule(where=fractions)
    def truncate(self, where: float) -> None:
        offset = self.start + int((self.end - self.start) * where)
        self.log.truncate_to(offset, NOW)
        cut = [one for one in self.batches if one.last >= offset]
        self.batches = [one for one in self.batches if one.last < offset]
        self.end = min(offset, cut[0].base)
        if self.end < max(self.durable, self.start):
            # a truncation below the recovery point writes a new checkpoint
            self.saved_start = min(self.start, self.end)
        self.start = min(self.start, self.end)
        self.durable = min(self.durable, self.end)

    @precondition(lambda self: self.end > self.start)
    @rule(where=fractions)
    def delete_before(self, where: float) -> None:
        self.start += int((self.end - self.start) * where)
        self.log.delete_before(self.start)

    # -- stops and starts ------------------------------------------------------------------------------------------

    @rule()
    def stop_cleanly_and_start(self) -> None:
        close_dirs(self.dirs)
        self.saved_start = self.start
        self.reopen()
        assert self.log.start_offset == self.saved_start == self.start
        self.durable = self.end

    @rule()
    def kill_the_process_and_start(self) -> None:
        self.fs = self.fs.after_kill()
        self.reopen()
        self.follow_the_start()
        if self.flush_messages == 1:
            self.flush()

    @rule(seed=st.integers(0, 2**32))
    def lose_power_and_start(self, seed: int) -> None:
        self.fs = self.fs.after_power_loss(seed)
        self.reopen()
        found = self.log.end_offset
        assert self.durable <= found <= self.end
        # At the end of a batch, or at a start offset that was checkpointed before the records below it were flushed.
        assert found in {self.durable, self.end, self.saved_start, *(one.base for one in self.batches)}
        self.batches = [one for one in self.batches if one.last < found]
        self.end = found
        self.follow_the_start()
        self.durable = 0  # records restored from the page cache are not known to be on disk
        if self.flush_messages == 1:
            self.flush()

    def reopen(self) -> None:
        self.dirs = open_dirs(self.fs, self.config)
        self.log = self.dirs.logs[NAME]
        self.log.config = self.config
        assert self.log.topic_id == TOPIC_ID

    def follow_the_start(self) -> None:
        """A start offset that was not checkpointed goes back, at most to the first segment that is left."""
        assert self.log.start_offset <= max(self.start, self.log.start_offset if self.end <= self.start else 0)
        self.start = self.log.start_offset

    # -- invariants ------------------------------------------------------------------------------------------------

    @rule(where=fractions, max_bytes=st.integers(0, 3000), upto=fractions)
    def read(self, where: float, max_bytes: int, upto: float) -> None:
        if self.start == self.end:
            return
        offset = self.start + int((self.end - self.start) * where)
        bound = self.end if upto > 0.5 else offset + int((self.end - offset) * upto * 2)
        data = self.log.read(offset, max_bytes, bound)
        assert data is not None
        expected = [one.data for one in self.batches if one.last >= offset and one.last < bound]
        found = split(data)
        assert found == expected[: len(found)]
        if expected and offset < bound and self.batch_at(offset).last < bound:
            assert found, "a read must return at least one batch"
            assert len(found) == 1 or len(data) <= max_bytes
        else:
            assert not found

    def batch_at(self, offset: int) -> Stored:
        return next(one for one in self.batches if one.last >= offset)

    @rule(timestamp=st.integers(-10, 50_010))
    def find_by_time(self, timestamp: int) -> None:
        records = self.records()
        expected = next((one for one in records if one.timestamp >= NOW + timestamp), None)
        found = self.log.offset_for_timestamp(NOW + timestamp)
        assert (None if found is None else found[:2]) == (
            None if expected is None else (expected.timestamp, expected.offset)
        )

    @rule()
    def find_the_latest(self) -> None:
        records = self.records()
        found = self.log.max_timestamp_offset()
        if not records:
            assert found is None
            return
        latest = max(one.timestamp for one in records)
        first = next(one for one in records if one.timestamp == latest)
        assert found is not None
        assert found[:2] == (latest, first.offset)

    def records(self) -> list[BatchRecord]:
        return [
            record
            for one in self.batches
            if one.last >= self.start
            for record in decode_batch(one.data)
            if record.offset >= self.start
        ]

    @invariant()
    def it_spans_the_offsets_of_the_model(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
        assert self.log.last_stable_offset == self.end
        with pytest.raises(OffsetNotInLog):
            self.log.read(self.end + 1, 100, self.end + 10)
        if any(one.last >= self.start for one in self.batches):
            epoch = peek_header(self.batches[-1].data).leader_epoch
            assert self.log.latest_epoch == epoch
            assert self.log.epoch_end_offset(epoch) == (epoch, self.end)


class FlushedLogMachine(LogMachine):
    """The same with `flush.messages=1`: no acknowledged record is ever missing."""

    flush_messages = 1


steps = settings(stateful_step_count=40)
TestLog = LogMachine.TestCase
TestLog.settings = steps
TestFlushedLog = FlushedLogMachine.TestCase
TestFlushedLog.settings = steps
