"""Fetch buffer: for any order of events, the application gets each record from its position on, once and in order."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from moldau.client.consumer.buffer import FetchBuffer
from moldau.client.consumer.fetched_partition import Failure, FetchedPartition
from moldau.client.consumer.poll_results import PollResults
from moldau.client.consumer.subscription import Subscription
from moldau.client.data_types import TopicPartition
from moldau.client.errors import BrokerError
from moldau.records.arrow import ArrowRows
from tests.unit.client.consumer.batches import batch, marker

A, B, C = (TopicPartition("orders", index) for index in range(3))
PARTITIONS = (A, B, C)
BATCH = 4
BATCHES = 8
END = BATCH * BATCHES


def there(partition: TopicPartition) -> list[int]:
    """The offsets of a partition that have a record: all in one partition, some lost to compaction in another, and one
    with markers."""
    if partition == A:
        return list(range(END))
    if partition == B:
        return [offset for offset in range(END) if offset % 3]
    return [offset for offset in range(END) if offset // BATCH % 2 == 0]


def log(partition: TopicPartition) -> list[bytes]:
    present = set(there(partition))
    batches = []
    for base in range(0, END, BATCH):
        offsets = [offset for offset in range(base, base + BATCH) if offset in present]
        if partition == C and not offsets:
            batches.append(b"".join(marker(base + i, 1, commit=True) for i in range(BATCH)))
        else:
            batches.append(batch(offsets, base=base, last=base + BATCH - 1))
    return batches


LOGS = {partition: log(partition) for partition in PARTITIONS}


def answer(partition: TopicPartition, version: int, offset: int, batches: int, cut: int) -> FetchedPartition:
    """A broker's answer: whole batches from the one with the offset on, and perhaps the beginning of one more."""
    first = offset // BATCH
    data = b"".join(LOGS[partition][first : first + batches])
    if first + batches < BATCHES:
        data += LOGS[partition][first + batches][:cut]
    return FetchedPartition(partition, version, offset, data)


class Reading(RuleBasedStateMachine):
    """A consumer without a network. Answers arrive at any time, late, or never."""

    def __init__(self) -> None:
        super().__init__()
        self.subscription = Subscription()
        self.subscription.assign(PARTITIONS)
        self.buffer = FetchBuffer(self.subscription)
        # The model: the position of the application in each partition, by the records that it has seen.
        self.stands: dict[TopicPartition, int] = {}
        for partition in PARTITIONS:
            self.subscription.state(partition).seek(0)
            self.stands[partition] = 0
        self.open: PollResults | None = None

    asked = Bundle("asked")

    # -- network

    @rule(target=asked, partition=st.sampled_from(PARTITIONS), batches=st.integers(1, 3), cut=st.integers(0, 70))
    def ask(
        self, partition: TopicPartition, batches: int, cut: int
    ) -> tuple[TopicPartition, int, int, int, int] | None:
        state = self.subscription.assigned.get(partition)
        if state is None:
            return None
        offset, _ = self.buffer.next_offset(state)
        assert offset is not None
        return partition, state.version, offset, batches, cut

    @rule(request=asked)
    def arrive(self, request: tuple[TopicPartition, int, int, int, int] | None) -> None:
        """Answers may arrive long after the position has changed, and more than once."""
        if request is not None and request[2] < END:
            self.buffer.add(answer(*request))

    @rule(request=asked)
    def fail(self, request: tuple[TopicPartition, int, int, int, int] | None) -> None:
        if request is not None:
            partition, version, offset, _, _ = request
            self.buffer.add(Failure(partition, version, offset, -1, BrokerError("no")))

    # -- application

    def see(self, partition: TopicPartition, offset: int) -> None:
        expected = next(one for one in there(partition) if one >= self.stands[partition])
        assert offset == expected, f"{partition}: got {offset}, expected {expected}"
        assert not self.subscription.state(partition).paused
        self.stands[partition] = offset + 1

    def take(self, limit: int, piece: int = 0) -> PollResults:
        self.interrupt()
        try:
            return self.buffer.take(limit, piece)
        except BrokerError:
            return PollResults([], [])

    def interrupt(self) -> None:
        """Do what every call of the consumer except `next` does first."""
        self.subscription.in_hand = None
        if self.open is not None:
            self.buffer.give_back(self.open)
            self.open = None

    @rule(limit=st.integers(1, 20))
    def poll(self, limit: int) -> None:
        for record in self.take(limit).all_at_once():
            self.see(TopicPartition(record.topic, record.partition), record.offset)

    @rule(limit=st.integers(1, 20), piece=st.integers(0, 5), count=st.integers(0, 12), recalled=st.booleans())
    def iterate(self, limit: int, piece: int, count: int, recalled: bool) -> None:
        self.open = self.subscription.in_hand = self.take(limit, piece)
        records = self.open.one_by_one(None)
        for record in islice(records, count):
            self.see(TopicPartition(record.topic, record.partition), record.offset)
        if recalled:
            self.open.end_early()
            for record in records:
                self.see(TopicPartition(record.topic, record.partition), record.offset)

    @rule(limit=st.integers(1, 20))
    def poll_rows(self, limit: int) -> None:
        self.interrupt()
        rows = ArrowRows()
        try:
            self.buffer.take_rows(rows, limit)
        except BrokerError:
            return
        table = rows.finish()
        assert table.num_rows <= limit
        for partition, offset in zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True):
            self.see(TopicPartition("orders", partition), offset)

    @rule(partition=st.sampled_from(PARTITIONS), offset=st.integers(0, END))
    def seek(self, partition: TopicPartition, offset: int) -> None:
        if partition in self.subscription.assigned:
            self.interrupt()
            self.subscription.state(partition).seek(offset)
            self.stands[partition] = offset

    @rule(partition=st.sampled_from(PARTITIONS), paused=st.booleans())
    def pause(self, partition: TopicPartition, paused: bool) -> None:
        if partition in self.subscription.assigned:
            self.interrupt()
            self.subscription.state(partition).paused = paused

    @rule(partition=st.sampled_from(PARTITIONS), offset=st.integers(0, END), validated=st.booleans())
    def learn_of_a_cut(self, partition: TopicPartition, offset: int, validated: bool) -> None:
        """The log was truncated. This is noticed in the background, perhaps during an iteration of the application."""
        state = self.subscription.assigned.get(partition)
        if state is None:
            return
        if validated:
            state.fetch_again()
            return
        halfway = self.open is not None and self.open.unseen(partition) is not None
        state.seek(offset)
        if not halfway:
            self.stands[partition] = offset

    @rule(partition=st.sampled_from(PARTITIONS))
    def find_valid(self, partition: TopicPartition) -> None:
        if partition in self.subscription.assigned:
            self.subscription.state(partition).validated(0)

    @rule(partitions=st.sets(st.sampled_from(PARTITIONS)))
    def rebalance(self, partitions: set[TopicPartition]) -> None:
        """A partition that is assigned again continues at the application's position, as if that had been committed."""
        self.interrupt()
        before = set(self.subscription.assigned)
        self.subscription.take_assignment(sorted(partitions))
        for partition in sorted(partitions - before):
            self.subscription.state(partition).seek(self.stands[partition])

    # -- invariants

    @invariant()
    def positions_say_what_the_application_has_seen(self) -> None:
        for partition in self.subscription.assigned:
            consumed = self.subscription.consumed(partition)
            assert consumed is not None
            stands = self.stands[partition]
            skipped = [offset for offset in there(partition) if stands <= offset < consumed[0]]
            assert consumed[0] >= stands and not skipped, f"{partition}: a commit would skip {skipped}"

    @invariant()
    def what_is_held_is_counted(self) -> None:
        assert self.buffer.held == sum(self.buffer.size(partition) for partition in PARTITIONS)
        assert self.buffer or self.buffer.held == 0

    def teardown(self) -> None:
        """Nothing stalls: if all answers arrive, everything is read to the end."""
        self.rebalance(set(PARTITIONS))
        for partition in PARTITIONS:
            self.pause(partition, False)
            self.subscription.state(partition).validated(0)
        for _ in range(20 * BATCHES):
            for partition in PARTITIONS:
                state = self.subscription.state(partition)
                offset, _ = self.buffer.next_offset(state)
                if offset is not None and offset < END:
                    self.buffer.add(answer(partition, state.version, offset, 1, 0))
            self.poll(10)
        assert {partition: self.subscription.state(partition).position for partition in PARTITIONS} == dict.fromkeys(
            PARTITIONS, END
        )


class TestReading(Reading.TestCase):  # type: ignore[misc, valid-type, name-defined]
    """Run by hypothesis; `--soak` makes it long."""


@pytest.fixture
def buffer() -> FetchBuffer:
    subscription = Subscription()
    subscription.assign(PARTITIONS)
    for partition in PARTITIONS:
        subscription.state(partition).seek(0)
    return FetchBuffer(subscription)


def version(buffer: FetchBuffer, partition: TopicPartition) -> int:
    return buffer._subscription.state(partition).version


def test_partitions_are_read_in_turn_answer_by_answer(buffer: FetchBuffer) -> None:
    for partition in (A, B):
        buffer.add(answer(partition, version(buffer, partition), 0, 1, 0))
        buffer.add(answer(partition, version(buffer, partition), BATCH, 1, 0))
    order = [record.partition for _ in range(8) for record in buffer.take(2).all_at_once()]
    assert order[:4] == [0] * 4, "the first answer must be read to its end"
    assert 1 in order[4:8], "the next records must be from another partition"


def test_an_error_is_raised_once_after_the_records_before_it(buffer: FetchBuffer) -> None:
    buffer.add(answer(A, version(buffer, A), 0, 1, 0))
    buffer.add(Failure(A, version(buffer, A), BATCH, -1, BrokerError("no")))
    assert buffer.failed(A)
    assert len(buffer.take(100).all_at_once()) == BATCH
    with pytest.raises(BrokerError):
        buffer.take(100)
    assert not buffer.failed(A)
    assert buffer.take(100).all_at_once() == []


def test_an_error_of_one_partition_does_not_delay_the_others(buffer: FetchBuffer) -> None:
    buffer.add(Failure(A, version(buffer, A), 0, -1, BrokerError("no")))
    buffer.add(answer(B, version(buffer, B), 0, 1, 0))
    with pytest.raises(BrokerError):
        buffer.take(100)
    assert [record.partition for record in buffer.take(100).all_at_once()] == [1, 1]


def test_records_of_a_paused_partition_are_kept(buffer: FetchBuffer) -> None:
    buffer.add(answer(A, version(buffer, A), 0, 1, 0))
    buffer._subscription.state(A).paused = True
    assert buffer.take(100).records == []
    buffer._subscription.state(A).paused = False
    assert len(buffer.take(100).records) == BATCH
