"""The two-phase commit of a streaming query's batches: what the driver does, in which order, and why that is safe.

Each task attempt has written its rows in a transaction of its own and left it prepared. `commit` makes all of them
visible, once, whatever dies in between:

1. *Take over.* The first commit of a run fences every older driver of the query and reads its last decision.
2. *Finish.* If that decision is of this batch or a later one, its rows are the batch's, and what the tasks have just
   written is aborted. The run that decided may have died while it carried it out: its transactions are committed
   (again: that does no harm to one that is committed already). The last decision of a batch before this one needs
   nothing: Spark goes on to the next batch only when a commit has returned.
3. *Decide.* Else the decision is stored, as one record in one transaction.
4. *Carry out.* Every transaction of the decision is committed.
5. *Sweep.* Whatever else of this query is still open, of attempts that failed, were killed or lost a race, is aborted.

A crash before 3 leaves no decision: the next run writes the batch again, and the sweep aborts what is left. A crash
after it leaves the decision: the next run finishes it. docs/exactly-once.md has the table.

Everything that touches a broker is behind `Ground`, so that a test can die at every step.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from moldau.client.errors import MoldauError
from moldau.spark.decisions import Decision, PreparedWrite, query_prefix

log = logging.getLogger(__name__)

SHOWN = 5
NO_RUN = ""


class DecidedButLost(MoldauError):
    """Rows that a decision promised were aborted by the broker before the decision could be carried out."""


class Transaction(NamedTuple):
    """A prepared transaction, as whoever ends it must name it."""

    transactional_id: str
    producer_id: int
    epoch: int


class Ground(Protocol):
    """What the protocol stands on: a broker. Every method either has its effect, may have had it, or raises."""

    def take_over(self, query: str) -> Decision | None:
        """Fence every other driver of the query; then its last decision."""

    def decide(self, decision: Decision) -> None:
        """Store the decision, if no newer driver has taken over."""

    def commit(self, transactions: Sequence[Transaction]) -> list[Transaction]:
        """Commit all; those that were aborted and cannot be committed any more. Once more does no harm."""

    def abort(self, transactions: Sequence[Transaction]) -> None:
        """Abort all. Once more does no harm."""

    def close_gate(self, query: str, run: str) -> None:
        """From now on no attempt of this run begins a transaction."""

    def open_transactions(self, prefix: str, *, or_about_to: bool = False) -> list[str]:
        """The ids that begin so and have an open transaction; on demand those as well that may just be opening one."""

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Abort whatever is open under these ids, and let their producers write no more."""


class TwoPhaseCommit:
    """One query, as the driver of one of its runs sees it."""

    def __init__(self, ground: Ground, *, fail_on_data_loss: bool = True) -> None:
        self._ground = ground
        self._fail_on_data_loss = fail_on_data_loss
        self._query: str | None = None  # taken over
        self._decided: Decision | None = None
        self._unfinished = False

    def commit(self, query: str, run: str, batch: int, writes: Sequence[PreparedWrite]) -> bool:
        """Make the batch visible. False where an earlier run had decided it, and this one's copy was dropped."""
        self._take_over(query)
        self._finish(run, batch)
        fresh = not self._has_decided(batch)
        if fresh:
            self._decide(Decision(query, run, batch, tuple(writes)))
            self._finish(run, batch)
        else:
            log.warning("batch %d of query %s was committed by an earlier run; it is not written again", batch, query)
            self._ground.abort([_named(Decision(query, run, batch, ()), write) for write in writes])
        self._sweep(query)
        return fresh

    def abort(self, query: str, run: str, batch: int, writes: Sequence[PreparedWrite]) -> None:
        """The batch failed, and with it the run: nothing of it may become visible, unless it was decided."""
        self._take_over(query)
        self._finish(run, batch)
        if self._decided is None or (self._decided.batch, self._decided.run) != (batch, run):
            self._ground.abort([_named(Decision(query, run, batch, ()), write) for write in writes])
        end_run(self._ground, query, run)

    def resolve(self, query: str) -> int:
        """The query will not come back: what it decided is carried out, all else of it aborted. How much that was."""
        self._take_over(query)
        if self._decided is not None:
            self._finish(NO_RUN, self._decided.batch)
        return self._sweep(query)

    def _take_over(self, query: str) -> None:
        if self._query != query:
            self._decided = self._ground.take_over(query)
            self._unfinished = True
            self._query = query

    def _has_decided(self, batch: int) -> bool:
        return self._decided is not None and batch <= self._decided.batch

    def _decide(self, decision: Decision) -> None:
        # Whether it was stored is unknown while this runs and where it fails: then the next call reads again.
        self._query = None
        self._ground.decide(decision)
        self._query, self._decided, self._unfinished = decision.query, decision, True

    def _finish(self, run: str, batch: int) -> None:
        """Commit what was decided. Where all of it was aborted meanwhile, it is as if nothing had been decided."""
        decision = self._decided
        if decision is None or not self._unfinished or not self._has_decided(batch):
            return
        lost = self._ground.commit([_named(decision, write) for write in decision.writes])
        if lost and len(lost) == len(decision.writes) and decision.run != run:
            log.warning(
                "batch %d of query %s was decided, but all of it was aborted before it was committed: it is rewritten",
                decision.batch,
                decision.query,
            )
            self._decided = decision._replace(batch=decision.batch - 1, writes=())
        elif lost and self._fail_on_data_loss:
            raise DecidedButLost(_loss(decision, lost))
        elif lost:
            log.error(_loss(decision, lost))
        self._unfinished = False

    def _sweep(self, query: str) -> int:
        """Nothing of this query may stay open between two batches: it would hold back readers of committed records.

        All that was decided is committed by now, so what is open was not. An attempt that is still running is a twin
        that lost: it finds itself fenced.
        """
        if strays := self._ground.open_transactions(query_prefix(query)):
            log.info("aborting %d transactions that attempts of query %s left open", len(strays), query)
            self._ground.fence(strays)
        return len(strays)


def end_run(ground: Ground, query: str, run: str) -> None:
    """Leave nothing open, now or later, of attempts that are still running somewhere.

    An attempt takes up its id first, and then looks whether the gate of its run is closed. Here the gate is closed
    first, and then all ids that are taken up are fenced. So whichever comes first: an attempt that took up its id
    before they were listed is fenced, and one that takes it up later finds the gate closed.
    """
    ground.close_gate(query, run)
    if strays := ground.open_transactions(query_prefix(query), or_about_to=True):
        ground.fence(strays)


def _named(decision: Decision, write: PreparedWrite) -> Transaction:
    return Transaction(decision.transactional_id(write), write.producer_id, write.epoch)


def _loss(decision: Decision, lost: Sequence[Transaction]) -> str:
    names = ", ".join(transaction.transactional_id for transaction in lost[:SHOWN])
    more = f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
    return (
        f"batch {decision.batch} of query {decision.query} was decided, but the broker has aborted {len(lost)} of its "
        f"{len(decision.writes)} transactions meanwhile ({names}{more}): the rows of these tasks are lost, the "
        "others are in the topics. The query was away for longer than prepared transactions are kept "
        "(transaction.timeout.ms, or moldau.transaction.two.phase.max.age.ms). Start it with "
        "failOnDataLoss=false to go on without them"
    )
