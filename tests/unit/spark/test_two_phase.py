"""Two-phase commit killed at every step: each batch becomes visible once, and no transaction stays open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count, product

import pytest

from moldau.spark.commit_log import CommitDecision, PreparedWrite, decode, encode, latest, transactional_id
from moldau.spark.two_phase import DecidedButLost, RunReplaced, TaskTransaction, TwoPhaseCommit

QUERY = "3a1f2c4e-0000-4000-8000-000000000001"
TASKS = 3


class Died(Exception):
    """The driver has died."""


class Cluster:
    """The state of a broker: transactions by id, their visible records, decisions, and the newest driver."""

    def __init__(self) -> None:
        self.open: dict[str, tuple[int, int, object]] = {}
        self.committed: dict[str, tuple[int, int]] = {}  # by id: the last transaction, until the id is used again
        self.visible: list[object] = []
        self.records: list[tuple[bytes | None, bytes | None]] = []
        self.driver = 0
        self.gates: set[tuple[str, str]] = set()
        self._ids = count(1)

    def prepare(self, run: str, batch: int, partition: int, attempt: int, row: object) -> PreparedWrite:
        name = transactional_id(QUERY, run, batch, partition, attempt)
        # Using an id again aborts its open transaction. After that, the outcome of the earlier one is unknown.
        self.open.pop(name, None)
        self.committed.pop(name, None)
        write = PreparedWrite(partition, attempt, next(self._ids), 0)
        self.open[name] = (write.producer_id, write.epoch, row)
        return write

    def expire(self, *names: str) -> None:
        """The transaction time-out of the broker."""
        for name in names or list(self.open):
            del self.open[name]


class Driver:
    """The sink's view of the broker for one driver, which dies before or after its n-th action."""

    def __init__(self, cluster: Cluster, dies_at: float = -1) -> None:
        self._cluster = cluster
        self._dies_at = dies_at
        self._actions = 0
        self._epoch = 0

    def _act(self, action: Callable[[], object]) -> None:
        """Dying at n + ½ means dying after the effect of the n-th action."""
        if self._dies_at == self._actions:
            raise Died
        action()
        if self._dies_at == self._actions + 0.5:
            raise Died
        self._actions += 1

    def take_over(self, query: str) -> CommitDecision | None:
        def fence() -> None:
            self._cluster.driver += 1
            self._epoch = self._cluster.driver

        self._act(fence)
        return latest(query, self._cluster.records)

    def last_decision(self, query: str) -> CommitDecision | None:
        return latest(query, self._cluster.records)

    def decide(self, decision: CommitDecision) -> None:
        def store() -> None:
            assert self._epoch == self._cluster.driver, "fenced"
            self._cluster.records.append(encode(decision))

        self._act(store)

    def commit(self, transactions: Sequence[TaskTransaction]) -> list[TaskTransaction]:
        lost = []
        for transaction in transactions:

            def end(one: TaskTransaction = transaction) -> None:
                found = self._cluster.open.get(one.transactional_id)
                if found is not None and found[:2] == one[1:]:
                    del self._cluster.open[one.transactional_id]
                    self._cluster.committed[one.transactional_id] = (one.producer_id, one.epoch)
                    self._cluster.visible.append(found[2])
                elif self._cluster.committed.get(one.transactional_id) != (one.producer_id, one.epoch):
                    lost.append(one)

            self._act(end)
        return lost

    def abort(self, transactions: Sequence[TaskTransaction]) -> None:
        for one in transactions:
            found = self._cluster.open.get(one.transactional_id)
            if found is not None and found[:2] == one[1:]:
                self._act(lambda name=one.transactional_id: self._cluster.open.pop(name))  # type: ignore[misc]

    def refuse_new_transactions(self, query: str, run: str) -> None:
        self._cluster.gates.add((query, run))

    def open_transactions(self, prefix: str, *, or_about_to: bool = False) -> list[str]:
        return [name for name in self._cluster.open if name.startswith(prefix)]

    def fence(self, transactional_ids: Sequence[str]) -> None:
        for name in transactional_ids:
            self._act(lambda name=name: self._cluster.open.pop(name))  # type: ignore[misc]


def run_batch(cluster: Cluster, commits: TwoPhaseCommit, run: str, batch: int, *, stray: bool = False) -> None:
    """Like Spark: the tasks write, one of them twice if its first attempt was killed, then the driver commits."""
    writes = []
    for task in range(TASKS):
        attempt = 0
        if stray and task == 1:
            cluster.prepare(run, batch, task, 0, (batch, task, "killed"))
            attempt = 1
        writes.append(cluster.prepare(run, batch, task, attempt, (batch, task)))
    commits.commit(QUERY, run, batch, writes)


def wanted(batches: int) -> list[tuple[int, int]]:
    return [(batch, task) for batch in range(batches) for task in range(TASKS)]


def deaths() -> Iterator[float]:
    for step in range(14):
        yield step
        yield step + 0.5


@pytest.mark.parametrize("stray", [False, True])
@pytest.mark.parametrize("dies_at", list(deaths()))
def test_a_driver_that_dies_at_any_step_leaves_each_batch_visible_once(dies_at: float, stray: bool) -> None:
    cluster = Cluster()
    first = TwoPhaseCommit(Driver(cluster, dies_at))
    batch = 0
    try:
        while batch < 2:
            run_batch(cluster, first, "run1", batch, stray=stray)
            batch += 1
    except Died:
        pass
    second = TwoPhaseCommit(Driver(cluster))
    for again in range(batch, 3):  # Spark repeats the batch whose commit did not return
        run_batch(cluster, second, "run2", again)
    assert sorted(cluster.visible) == wanted(3)
    assert not cluster.open


@pytest.mark.parametrize(("first_death", "second_death"), list(product(deaths(), deaths())))
def test_a_batch_is_committed_once_if_the_next_driver_dies_too(first_death: float, second_death: float) -> None:
    cluster = Cluster()
    batch = 0
    for run, dies_at in (("run1", first_death), ("run2", second_death), ("run3", -1)):
        commits = TwoPhaseCommit(Driver(cluster, dies_at))
        try:
            while batch < 3:
                run_batch(cluster, commits, run, batch, stray=True)
                batch += 1
        except Died:
            continue
    assert sorted(cluster.visible) == wanted(3)
    assert not cluster.open


def test_a_replaced_driver_cannot_commit() -> None:
    cluster = Cluster()
    old, new = TwoPhaseCommit(Driver(cluster)), TwoPhaseCommit(Driver(cluster))
    run_batch(cluster, old, "run1", 0)
    run_batch(cluster, new, "run2", 1)
    with pytest.raises(AssertionError, match="fenced"):
        run_batch(cluster, old, "run1", 1)
    assert sorted(cluster.visible) == wanted(2)


def claimed(cluster: Cluster, claim: str, dies_at: float = -1) -> TwoPhaseCommit:
    commits = TwoPhaseCommit(Driver(cluster, dies_at), claim=claim)
    commits.claim(QUERY)
    return commits


def test_a_run_that_was_replaced_before_its_first_commit_writes_nothing_and_fences_nobody() -> None:
    cluster = Cluster()
    claimed(cluster, "first")  # claims before its start; the process of its commits has the claim only
    sleeper = TwoPhaseCommit(Driver(cluster), claim="first")
    newer = claimed(cluster, "second")
    with pytest.raises(RunReplaced, match="another run"):
        run_batch(cluster, sleeper, "run1", 0)
    assert not cluster.visible
    assert not cluster.open
    in_flight = cluster.prepare("run2", 0, 0, 0, (0, 0))
    sleeper.abort(QUERY, "run1", 0, [])
    assert newer.commit(QUERY, "run2", 0, [in_flight]), "the newer run is neither fenced nor swept"
    run_batch(cluster, newer, "run2", 1)
    assert sorted(cluster.visible) == [(0, 0), *wanted(2)[TASKS:]]


@pytest.mark.parametrize(("first_death", "second_death"), list(product(deaths(), deaths())))
def test_a_claim_finishes_what_the_run_before_has_decided(first_death: float, second_death: float) -> None:
    cluster = Cluster()
    batch = 0
    for run, dies_at in (("run1", first_death), ("run2", second_death), ("run3", -1)):
        try:
            commits = claimed(cluster, run, dies_at)
            while batch < 3:
                run_batch(cluster, commits, run, batch, stray=True)
                batch += 1
        except Died:
            continue
    assert sorted(cluster.visible) == wanted(3)
    assert not cluster.open


def test_a_batch_that_failed_leaves_nothing() -> None:
    cluster = Cluster()
    commits = TwoPhaseCommit(Driver(cluster))
    writes = [cluster.prepare("run1", 0, task, 0, (0, task)) for task in range(TASKS)]
    cluster.prepare("run1", 0, 0, 1, "an unknown attempt")
    commits.abort(QUERY, "run1", 0, writes[:2])
    assert not cluster.open
    assert cluster.gates == {(QUERY, "run1")}
    assert not cluster.visible


def decided_and_dead(cluster: Cluster) -> None:
    with pytest.raises(Died):
        run_batch(cluster, TwoPhaseCommit(Driver(cluster, 1.5)), "run1", 0)
    assert len(cluster.records) == 1 and len(cluster.open) == TASKS


def test_a_decision_whose_transactions_were_all_aborted_counts_as_none() -> None:
    cluster = Cluster()
    decided_and_dead(cluster)
    cluster.expire()
    run_batch(cluster, TwoPhaseCommit(Driver(cluster)), "run2", 0)
    assert sorted(cluster.visible) == wanted(1)


def test_a_partly_aborted_decision_is_reported_as_a_loss() -> None:
    cluster = Cluster()
    decided_and_dead(cluster)
    cluster.expire(transactional_id(QUERY, "run1", 0, 1, 0))
    for run in ("run2", "run3"):  # a restart does not repair it
        with pytest.raises(DecidedButLost, match=r"1 of its 3 transactions.*run1-0-1-0.*failOnDataLoss"):
            run_batch(cluster, TwoPhaseCommit(Driver(cluster)), run, 0)
    commits = TwoPhaseCommit(Driver(cluster), fail_on_data_loss=False)
    run_batch(cluster, commits, "run4", 0)
    run_batch(cluster, commits, "run4", 1)
    assert sorted(cluster.visible) == [(0, 0), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert not cluster.open


def test_an_abandoned_query_is_resolved_from_outside() -> None:
    cluster = Cluster()
    decided_and_dead(cluster)
    cluster.prepare("run2", 0, 0, 0, "a task of a run that died, too")
    assert TwoPhaseCommit(Driver(cluster)).resolve(QUERY) == 1
    assert sorted(cluster.visible) == wanted(1)
    assert not cluster.open
    assert TwoPhaseCommit(Driver(cluster)).resolve("another") == 0


def test_an_old_checkpoint_does_not_write_a_batch_twice() -> None:
    cluster = Cluster()
    commits = TwoPhaseCommit(Driver(cluster))
    for batch in range(3):
        run_batch(cluster, commits, "run1", batch)
    restored = TwoPhaseCommit(Driver(cluster))
    for batch in range(1, 4):
        run_batch(cluster, restored, "run2", batch)
    assert sorted(cluster.visible) == wanted(4)


def test_an_old_checkpoint_does_no_harm_after_a_crash_in_the_batch_after_the_last_decided() -> None:
    cluster = Cluster()
    commits = TwoPhaseCommit(Driver(cluster))
    for batch in range(2):
        run_batch(cluster, commits, "run1", batch)
    cluster.prepare("run1", 2, 0, 0, "one task of the next batch, then all is gone")
    restored = TwoPhaseCommit(Driver(cluster))
    for batch in range(4):
        run_batch(cluster, restored, "run2", batch)
    assert sorted(cluster.visible) == wanted(4)
    assert not cluster.open


def test_a_decision_is_read_as_it_was_written() -> None:
    decision = CommitDecision(QUERY, "run1", 7, (PreparedWrite(0, 0, 12, 3), PreparedWrite(1, 2, 13, 0)))
    key, value = encode(decision)
    assert decode(key, value) == decision
    others = [(b"another", b"?"), (key, value), (None, b"?")]
    assert latest(QUERY, others) == decision
    assert latest(QUERY, [*others, (key, None)]) is None
    assert latest("unknown", others) is None


# -- drivers that store their position with the decision, as Connect's sources do --------------------------------------


class PositionDriver(Driver):
    """Stores a position in the transaction of the decision."""

    def __init__(self, cluster: Cluster, positions: list[int], dies_at: float = -1) -> None:
        super().__init__(cluster, dies_at)
        self.positions = positions
        self.with_next: int | None = None

    def decide(self, decision: CommitDecision) -> None:
        def store() -> None:
            assert self._epoch == self._cluster.driver, "fenced"
            self._cluster.records.append(encode(decision))
            if self.with_next is not None:
                self.positions.append(self.with_next)
                self.with_next = None

        self._act(store)


def run_source(cluster: Cluster, driver: PositionDriver, run: str, until: int) -> None:
    """Recover, then read on from the stored position, one number per batch and task."""
    commits = TwoPhaseCommit(driver)
    last, lost = commits.recover(QUERY)
    batch = 0 if last is None else last.batch + 1
    if last is not None and lost:
        driver.with_next = int(last.note)
        commits.commit(QUERY, run, batch, [])
        batch += 1
    position = driver.positions[-1]
    while position < until:
        writes = [cluster.prepare(run, batch, task, 0, (position, task)) for task in range(TASKS)]
        cluster.prepare(run, batch, 0, 1, "an attempt that was killed")
        driver.with_next = position + 1
        commits.commit(QUERY, run, batch, writes, note=str(position))
        position, batch = position + 1, batch + 1
        commits.settle()


@pytest.mark.parametrize(("first_death", "second_death"), list(product(deaths(), deaths())))
def test_a_position_and_its_rows_never_disagree(first_death: float, second_death: float) -> None:
    cluster = Cluster()
    positions = [0]
    for run, dies_at in (("run1", first_death), ("run2", second_death), ("run3", -1)):
        try:
            run_source(cluster, PositionDriver(cluster, positions, dies_at), run, 3)
        except Died:
            continue
    assert sorted(cluster.visible) == wanted(3)
    assert not cluster.open


@pytest.mark.parametrize("second_death", list(deaths()))
def test_a_position_goes_back_when_all_rows_of_its_decision_were_aborted(second_death: float) -> None:
    cluster = Cluster()
    positions = [0]
    with pytest.raises(Died):
        run_source(cluster, PositionDriver(cluster, positions, 1.5), "run1", 1)
    assert positions == [0, 1] and not cluster.visible, "decided, and dead before the commits"
    cluster.expire()
    for run, dies_at in (("run2", second_death), ("run3", -1)):
        try:
            run_source(cluster, PositionDriver(cluster, positions, dies_at), run, 2)
        except Died:
            continue
    assert sorted(cluster.visible) == wanted(2)


def test_a_settled_decision_needs_no_transaction_that_the_broker_has_forgotten() -> None:
    cluster = Cluster()
    positions = [0]
    run_source(cluster, PositionDriver(cluster, positions), "run1", 1)
    cluster.committed.clear()  # transactional.id.expiration.ms is over
    run_source(cluster, PositionDriver(cluster, positions), "run2", 2)
    assert sorted(cluster.visible) == wanted(2)


def test_a_note_is_part_of_a_decision() -> None:
    decision = CommitDecision(QUERY, "run1", 7, (), "a note")
    assert decode(*encode(decision)) == decision
