"""Random histories of keyed records, tombstones and transactions, cleaned repeatedly, with crashes.

Invariants: a reader that keeps the last value of each key gets the same map; no record changes its offset, key, value
or timestamp; and the log keeps its producer state.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from moldau.records import BatchRecord, Codec, encode_batch
from tests.unit.log.clean.support import (
    DAY,
    NOW,
    Died,
    PersistentDirectory,
    clean,
    committed,
    complete,
    end_transaction,
    flush,
    keep_last,
    records,
)

PRODUCERS = (7, 8, 9)

entries = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.none() | st.sampled_from(["", "one", "two", "three" * 10])),
    min_size=1,
    max_size=6,
)


class CleanerMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.directory = PersistentDirectory()
        self.now = NOW
        self.written: dict[int, BatchRecord] = {}
        self.last: dict[bytes, bytes] = {}
        self.sequences: dict[int, int] = {}
        self.pending: dict[int, list[BatchRecord]] = {}
        self.aborted: set[int] = set()
        self.first_dirty: int | None = None

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, pairs: list[tuple[str, str | None]], producer: int, transactional: bool, codec: Codec) -> None:
        log = self.directory.log
        base = log.end_offset
        found = [
            BatchRecord(base + number, self.now + number, key.encode(), None if value is None else value.encode())
            for number, (key, value) in enumerate(pairs)
        ]
        sequence = self.sequences.get(producer, 0)
        batch = encode_batch(
            found,
            codec=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence if producer >= 0 else -1,
            transactional=transactional,
        )
        assert log.append(memoryview(batch), 0, self.now).first_offset == base
        if producer >= 0:
            self.sequences[producer] = sequence + len(found)
        self.written.update((record.offset, record) for record in found)
        if transactional:
            self.pending.setdefault(producer, []).extend(found)
        else:
            for record in found:
                keep_last(self.last, record)

    @rule(pairs=entries, codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD]))
    def write(self, pairs: list[tuple[str, str | None]], codec: Codec) -> None:
        self.append(pairs, -1, False, codec)

    @rule(pairs=entries, producer=st.sampled_from(PRODUCERS), transactional=st.booleans())
    def write_as_producer(self, pairs: list[tuple[str, str | None]], producer: int, transactional: bool) -> None:
        self.append(pairs, producer, transactional or producer in self.pending, Codec.NONE)

    @rule(producer=st.sampled_from(PRODUCERS), commit=st.booleans())
    def end(self, producer: int, commit: bool) -> None:
        if producer not in self.pending:
            return
        end_transaction(self.directory.log, producer, commit=commit, timestamp=self.now)
        found = self.pending.pop(producer)
        if commit:
            # The model is ordered by offset: a record of a transaction that commits late keeps its offset.
            touched = {record.key for record in found}
            committed_before = {offset: record for offset, record in self.written.items() if self.is_committed(offset)}
            for key in touched:
                assert key is not None
                self.last.pop(key, None)
                for _, record in sorted(committed_before.items()):
                    if record.key == key:
                        keep_last(self.last, record)
        else:
            for record in found:
                self.aborted.add(record.offset)

    def is_committed(self, offset: int) -> bool:
        undecided = {record.offset for found in self.pending.values() for record in found}
        return offset not in self.aborted and offset not in undecided

    @rule()
    def roll(self) -> None:
        complete(self.directory.log)

    @rule(days=st.integers(0, 2))
    def time_passes(self, days: int) -> None:
        self.now += days * DAY + 1

    # -- cleaning --------------------------------------------------------------------------------------------------

    @rule(slots=st.sampled_from([1, 3, 100]), from_start=st.booleans())
    def clean(self, slots: int, from_start: bool) -> None:
        first = None if from_start else self.first_dirty
        cleaned = clean(self.directory.log, now_ms=self.now, first_dirty=first, slots=slots)
        assert cleaned.failure is None
        assert cleaned.taken == len(cleaned.replacements)
        self.first_dirty = cleaned.end_offset

    @rule(
        steps=st.integers(0, 60),
        power_loss=st.none() | st.integers(0, 2**32),
        recover_from=st.floats(0, 1),
        slots=st.sampled_from([3, 100]),
    )
    def die_while_cleaning(self, steps: int, power_loss: int | None, recover_from: float, slots: int) -> None:
        log = self.directory.log
        flush(log)  # unflushed records may be lost with the power, independent of the cleaner
        self.directory.mortal.dies_at = self.directory.mortal.changes + steps
        try:
            clean(log, now_ms=self.now, first_dirty=self.first_dirty, slots=slots)
        except Died:
            pass
        self.directory.restart(power_loss=power_loss, recovery_point=int(log.recovery_point * recover_from))

    @rule(recover_from=st.floats(0, 1))
    def die(self, recover_from: float) -> None:
        flush(self.directory.log)
        self.directory.restart(recovery_point=int(self.directory.log.recovery_point * recover_from))

    # -- invariants ------------------------------------------------------------------------------------------------

    @invariant()
    def the_last_values_are_the_same(self) -> None:
        readable = self.directory.log
        if not self.pending:
            assert committed(readable) == self.last

    @invariant()
    def no_record_changes(self) -> None:
        for record in records(self.directory.log):
            assert record == self.written[record.offset]

    @invariant()
    def the_end_stays(self) -> None:
        if self.written:
            assert self.directory.log.end_offset > max(self.written)

    @invariant()
    def producers_are_known(self) -> None:
        producers = self.directory.log.producers
        for producer, sequence in self.sequences.items():
            assert producers.producers[producer].next_sequence == sequence
        assert {producer for producer, _ in producers.open_transactions()} == set(self.pending)


CleanerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestCleaner = CleanerMachine.TestCase
