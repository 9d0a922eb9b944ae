"""Two-phase commit of a streaming query's batches: the steps of the driver, and why they are safe.

Each task attempt has written its rows in its own transaction and left it prepared. `commit` makes all of them visible
exactly once, whichever process dies in between:

1. *Take over.* The first commit of a run fences every older driver of the query and reads the query's last decision.
2. *Finish.* If that decision is about this batch or a later one, the batch is already decided, and the rows that the
   tasks have just written are aborted. The run that decided may have died before it had committed everything, so its
   transactions are committed (again, if necessary: that has no effect). A last decision about an earlier batch needs
   nothing: Spark starts the next batch only after a commit has returned.
3. *Decide.* Otherwise the decision is stored, as one record in one transaction.
4. *Execute.* Every transaction of the decision is committed.
5. *Sweep.* All other open transactions of this query are aborted. They belong to attempts that failed, were killed or
   lost a race.

After a crash before step 3 there is no decision: the next run writes the batch again, and its sweep aborts the open
transactions. After a crash later, the next run finishes the decision. docs/exactly-once.md has the table.

Without more, a run takes over with its first commit. A run with a *claim* has done so before its first batch: `claim`
stores a text of the run as the note of the query's decision, and each decision of the run repeats it. A run whose claim
is not the last one has been replaced. It decides nothing any more, even if it slept since before its first commit.

All access to a broker goes through `TransactionAccess`, so that a test can stop at every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from moldau.client.errors import MoldauError
from moldau.host.event_log import event_logger
from moldau.spark.commit_log import CommitDecision, PreparedWrite, query_prefix

log = event_logger(__name__)

SHOWN = 5
NO_RUN = ""


class DecidedButLost(MoldauError):
    """The broker aborted transactions of a decision before they were committed."""


class RunReplaced(MoldauError):
    """A run of a query that another run of the same query has replaced."""


class TaskTransaction(NamedTuple):
    """A prepared transaction, with everything that is needed to commit or abort it."""

    transactional_id: str
    producer_id: int
    epoch: int


class LastDecision(NamedTuple):
    """The last decision of a query, carried out; `lost` if all of its transactions had been aborted before."""

    decision: CommitDecision | None
    lost: bool


class TransactionAccess(Protocol):
    """The broker access of the protocol. A method that raises may or may not have had its effect."""

    def take_over(self, query: str) -> CommitDecision | None:
        """Fence every other driver of the query, then return its last decision."""

    def last_decision(self, query: str) -> CommitDecision | None:
        """The last decision of a query. It fences nobody."""

    def decide(self, decision: CommitDecision) -> None:
        """Store the decision, unless a newer driver has taken over."""

    def commit(self, transactions: Sequence[TaskTransaction]) -> list[TaskTransaction]:
        """Commit all; return those that were aborted and can no longer be committed. Idempotent."""

    def abort(self, transactions: Sequence[TaskTransaction]) -> None:
        """Abort all. Idempotent."""

    def refuse_new_transactions(self, query: str, run: str) -> None:
        """Prevent all attempts of this run from starting another transaction."""

    def open_transactions(self, prefix: str, *, or_about_to: bool = False) -> list[str]:
        """The ids with this prefix that have an open transaction, and with `or_about_to` also those that may be opening
        one."""

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Abort the open transactions of these ids, and fence their producers."""


class TwoPhaseCommit:
    """The commits of one query, in the driver of one of its runs."""

    def __init__(self, access: TransactionAccess, *, fail_on_data_loss: bool = True, claim: str | None = None) -> None:
        self._access = access
        self._fail_on_data_loss = fail_on_data_loss
        self._claim = claim
        self._query: str | None = None  # the query that this driver has taken over
        self._decided: CommitDecision | None = None
        self._unfinished = False

    def commit(self, query: str, run: str, batch: int, writes: Sequence[PreparedWrite], note: str = "") -> bool:
        """Make the batch visible. Return False if an earlier run had decided it and the rows of this run were
        aborted."""
        try:
            self._take_over(query)
        except RunReplaced:
            self._abort_own(query, run, batch, writes)
            raise
        self._finish(run, batch)
        fresh = not self._has_decided(batch)
        if fresh:
            self._decide(CommitDecision(query, run, batch, tuple(writes), self._claim or note))
            self._finish(run, batch)
        else:
            log.warning(
                "batch was committed by an earlier run; it is not written again", extra={"query": query, "batch": batch}
            )
            self._access.abort([_named(CommitDecision(query, run, batch, ()), write) for write in writes])
        self._sweep(query)
        return fresh

    def abort(self, query: str, run: str, batch: int, writes: Sequence[PreparedWrite]) -> None:
        """Abort a failed batch and its run: none of its rows may become visible, unless the batch was decided."""
        try:
            self._take_over(query)
        except RunReplaced:
            self._abort_own(query, run, batch, writes)
            return
        self._finish(run, batch)
        if self._decided is None or (self._decided.batch, self._decided.run) != (batch, run):
            self._access.abort([_named(CommitDecision(query, run, batch, ()), write) for write in writes])
        end_run(self._access, query, run)

    def _abort_own(self, query: str, run: str, batch: int, writes: Sequence[PreparedWrite]) -> None:
        """Abort the batch of a run that was replaced. All other open transactions belong to the newer run now."""
        self._access.abort([_named(CommitDecision(query, run, batch, ()), write) for write in writes])

    def resolve(self, query: str) -> int:
        """For a query that will not be restarted: finish its last decision and abort everything else. Return the number
        of aborted transactions."""
        self._take_over(query)
        if self._decided is not None:
            self._finish(NO_RUN, self._decided.batch)
        return self._sweep(query)

    def recover(self, query: str) -> LastDecision:
        """For a driver that stores its position with each decision, before it reads that position: take over, finish
        the last decision, and abort everything else."""
        self._take_over(query)
        found = self._decided
        if found is not None:
            self._finish(NO_RUN, found.batch)
        self._sweep(query)
        return LastDecision(found, lost=self._decided is not found)

    def claim(self, query: str) -> None:
        """Take over for a run that has not started yet: from now on, no other run of the query can decide anything."""
        assert self._claim is not None, "the run needs a claim"
        claim, self._claim = self._claim, None
        self.recover(query)
        last = self._decided or CommitDecision(query, NO_RUN, -1, ())
        self._decide(last._replace(writes=(), note=claim))
        self._claim, self._unfinished = claim, False

    def settle(self) -> None:
        """Store that the last decision is carried out, so that a later driver does not have to ask for transactions
        that the brokers have forgotten by then (transactional.id.expiration.ms)."""
        if self._query is not None and self._decided is not None and self._decided.writes and not self._unfinished:
            self._decide(self._decided._replace(writes=(), note=""))
            self._unfinished = False

    def _take_over(self, query: str) -> None:
        if self._query != query:
            if self._claim is not None:
                # A run that was replaced must not fence the newer one, so it looks before it takes over.
                self._check_claim(query, self._access.last_decision(query))
            decided = self._access.take_over(query)
            if self._claim is not None:
                self._check_claim(query, decided)
            self._decided = decided
            self._unfinished = True
            self._query = query

    def _check_claim(self, query: str, last: CommitDecision | None) -> None:
        if last is None or last.note != self._claim:
            raise RunReplaced(
                f"another run of query {query} has taken over: this run ends, and nothing of its batch becomes visible"
            )

    def _has_decided(self, batch: int) -> bool:
        return self._decided is not None and batch <= self._decided.batch

    def _decide(self, decision: CommitDecision) -> None:
        # While this runs, and after a failure, it is unknown whether the decision was stored. The next call reads it
        # again.
        self._query = None
        self._access.decide(decision)
        self._query, self._decided, self._unfinished = decision.query, decision, True

    def _finish(self, run: str, batch: int) -> None:
        """Commit the transactions of the decision. If all of them were aborted, treat the batch as undecided."""
        decision = self._decided
        if decision is None or not self._unfinished or not self._has_decided(batch):
            return
        lost = self._access.commit([_named(decision, write) for write in decision.writes])
        if lost and len(lost) == len(decision.writes) and decision.run != run:
            log.warning(
                "batch was decided, but all of it was aborted before it was committed; it is written again",
                extra={"query": decision.query, "batch": decision.batch},
            )
            self._decided = decision._replace(batch=decision.batch - 1, writes=())
        elif lost and self._fail_on_data_loss:
            raise DecidedButLost(_loss(decision, lost))
        elif lost:
            log.error(
                "rows of a decided batch are lost; the query continues because failOnDataLoss is false",
                extra={"query": decision.query, "batch": decision.batch, "reason": _loss(decision, lost)},
            )
        self._unfinished = False

    def _sweep(self, query: str) -> int:
        """Abort all open transactions of this query, because they would block readers of committed records between
        batches.

        All decided transactions are committed by now, so the open ones are undecided. A running attempt with such a
        transaction is a duplicate that lost the race: it is fenced.
        """
        if strays := self._access.open_transactions(query_prefix(query)):
            log.info("aborting open transactions of earlier attempts", extra={"query": query, "count": len(strays)})
            self._access.fence(strays)
        return len(strays)


def end_run(access: TransactionAccess, query: str, run: str) -> None:
    """Make sure that attempts that are still running leave no open transaction, now or later.

    An attempt first initialises its transactional id, and then checks whether the gate of its run is closed. Here the
    gate is closed first, and then all initialised ids are fenced. So both orders are safe: an attempt that initialised
    its id before the listing is fenced, and one that does so later finds the gate closed.
    """
    access.refuse_new_transactions(query, run)
    if strays := access.open_transactions(query_prefix(query), or_about_to=True):
        access.fence(strays)


def _named(decision: CommitDecision, write: PreparedWrite) -> TaskTransaction:
    return TaskTransaction(decision.transactional_id(write), write.producer_id, write.epoch)


def _loss(decision: CommitDecision, lost: Sequence[TaskTransaction]) -> str:
    names = ", ".join(transaction.transactional_id for transaction in lost[:SHOWN])
    more = f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
    return (
        f"batch {decision.batch} of query {decision.query} was decided, but the broker has aborted {len(lost)} of "
        f"its {len(decision.writes)} transactions in the meantime ({names}{more}): the rows of these tasks are lost, "
        "the other rows are in the topics. The query was stopped for longer than prepared transactions are kept "
        "(transaction.timeout.ms, or moldau.transaction.two.phase.max.age.ms). To continue without the lost rows, "
        "start it with failOnDataLoss=false"
    )
