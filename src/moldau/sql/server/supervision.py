"""Supervision of continuous queries: which ones start, stop and start again, and when. Pure decisions.

The server tells what is wanted (the definitions of the catalogue), whether it leads its group, and how its runs go.
`actions` answers what to do now. A run is one start of a query; its number tells a late report of an earlier run from
one that counts.

Rules:

* Only the leader runs queries. A server that no longer leads stops all of them at once, and forgets them.
* A run that fails is followed by another one, after a pause that doubles. A query that fails too often without having
  worked for a while is FAILED, alone: others go on. RESUME tries it again, on any server.
* The death of Spark's JVM ends all runs. They begin again; no query becomes FAILED because of it, since nobody knows
  which one it was.
* A query whose definition is gone is stopped, then its state is removed. Another definition of the same name begins
  only after that: both write the same topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from moldau.sql.queries import QueryDefinition, QueryState, QueryStatus, WantedState

JITTER: Final = 0.25
"""A pause is longer or shorter by up to this share, so that queries of one broken topic do not all come at once."""
NEVER: Final = float("inf")


@dataclass(frozen=True)
class RestartRules:
    """When a query that fails is started again."""

    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0
    max_failures: int = 6
    """A query that has failed so often in a row is FAILED."""
    works_after_s: float = 60.0
    """A run that lasted for so long, or has finished a micro-batch with rows, has worked: failures count from one."""


@dataclass(frozen=True)
class StartQuery:
    """Begin a run of the query."""

    definition: QueryDefinition
    run: int


@dataclass(frozen=True)
class StopQuery:
    """End a run. `ended` is to be told when nothing of it runs any more."""

    definition: QueryDefinition
    run: int


@dataclass(frozen=True)
class RemoveQuery:
    """Remove checkpoint, transactions and index of a query that was terminated. `removed` is to be told."""

    definition: QueryDefinition


Action = StartQuery | StopQuery | RemoveQuery


class QueryPhase(Enum):
    """What the server does with a query."""

    WAITING = "waiting"
    """Not started yet, or waits for its next try."""
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    IDLE = "idle"
    """Paused or failed."""
    REMOVING = "removing"


LIVE: Final = frozenset({QueryPhase.STARTING, QueryPhase.RUNNING, QueryPhase.STOPPING})


@dataclass
class QueryEntry:
    """One query, as this server knows it."""

    definition: QueryDefinition
    phase: QueryPhase = QueryPhase.WAITING
    run: int = 0
    due: float = 0.0
    began: float = 0.0
    failures: int = 0
    """In a row, since the query has last worked."""
    deaths: int = 0
    """Deaths of the JVM in a row."""
    restarts: int = 0
    trace: str | None = None
    failed: bool = False
    worked: bool = False
    """Whether the current run has finished a micro-batch with rows."""

    @property
    def state(self) -> QueryState:
        if self.failed:
            return QueryState.FAILED
        if self.phase is QueryPhase.IDLE or self.definition.wanted is WantedState.PAUSED:
            return QueryState.PAUSED
        if self.phase is QueryPhase.RUNNING:
            return QueryState.RUNNING
        return QueryState.STARTING if self.trace is None else QueryState.RESTARTING


@dataclass
class QuerySupervision:
    """The queries of one server. Used by one thread."""

    rules: RestartRules = RestartRules()
    leads: bool = False
    entries: dict[str, QueryEntry] = field(default_factory=dict)
    """By id."""
    _wanted: dict[str, QueryDefinition] = field(default_factory=dict)
    _statuses: Mapping[str, QueryStatus] = field(default_factory=dict)
    _runs: int = 0

    # -- what is wanted ------------------------------------------------------------------------------------------------

    def lead(self, leads: bool) -> None:
        """This server leads its group from now on, or no longer does."""
        self.leads = leads

    def want(self, definitions: Iterable[QueryDefinition], statuses: Mapping[str, QueryStatus]) -> None:
        """What the catalogue says. `statuses` are the last reports, by name: of this server, or of one before it."""
        self._wanted = {definition.id: definition for definition in definitions}
        self._statuses = statuses

    # -- reports on runs -----------------------------------------------------------------------------------------------

    def started(self, query: str, run: int, now: float) -> None:
        entry = self._of_run(query, run)
        if entry is not None and entry.phase is QueryPhase.STARTING:
            entry.phase, entry.began = QueryPhase.RUNNING, now

    def progressed(self, query: str, run: int) -> None:
        """A run has finished a micro-batch with rows."""
        entry = self._of_run(query, run)
        if entry is not None and entry.phase is QueryPhase.RUNNING:
            entry.worked = True
            entry.deaths = 0

    def ended(
        self, query: str, run: int, now: float, trace: str | None = None, *, died: bool = False, chance: float = 0.5
    ) -> None:
        """Nothing of the run runs any more. `trace`: why it failed; `died`: the JVM has; `chance`: in [0, 1)."""
        entry = self._of_run(query, run)
        if entry is None or entry.phase not in LIVE:
            return
        stopping, entry.phase = entry.phase is QueryPhase.STOPPING, QueryPhase.WAITING
        entry.due = now
        if stopping or not self.leads:
            return
        has_worked = entry.worked or (entry.began > 0 and now - entry.began >= self.rules.works_after_s)
        entry.trace = trace or "the query has ended by itself"
        entry.restarts += 1
        if died:
            entry.deaths = 1 if has_worked else entry.deaths + 1
            entry.due = now + self._pause(entry.deaths, chance)
            return
        entry.failures = 1 if has_worked else entry.failures + 1
        if entry.failures >= self.rules.max_failures:
            entry.phase, entry.failed, entry.due = QueryPhase.IDLE, True, NEVER
        else:
            entry.due = now + self._pause(entry.failures, chance)

    def removed(self, query: str) -> None:
        """The state of a terminated query is gone."""
        entry = self.entries.get(query)
        if entry is not None and entry.phase is QueryPhase.REMOVING:
            del self.entries[query]

    # -- what to do ----------------------------------------------------------------------------------------------------

    def actions(self, now: float) -> list[Action]:
        """What to do now. Each action is given once; it counts as begun."""
        if not self.leads:
            return self._leave()
        found: list[Action] = []
        for query, definition in self._wanted.items():
            if query not in self.entries:
                self.entries[query] = self._new(definition, now)
        for query, entry in list(self.entries.items()):
            wanted = self._wanted.get(query)
            found += self._remove(entry) if wanted is None else self._follow(entry, wanted, now)
        return found

    def due(self) -> float:
        """When `actions` has to be asked again, if nothing happens before."""
        waiting = [entry.due for entry in self.entries.values() if entry.phase is QueryPhase.WAITING]
        return min(waiting, default=NEVER) if self.leads else NEVER

    def _leave(self) -> list[Action]:
        found: list[Action] = []
        for query, entry in list(self.entries.items()):
            if entry.phase in (QueryPhase.STARTING, QueryPhase.RUNNING):
                entry.phase = QueryPhase.STOPPING
                found.append(StopQuery(entry.definition, entry.run))
            elif entry.phase is not QueryPhase.STOPPING:
                del self.entries[query]
        return found

    def _new(self, definition: QueryDefinition, now: float) -> QueryEntry:
        entry = QueryEntry(definition, due=now)
        status = self._statuses.get(definition.name)
        if status is not None and status.id == definition.id:
            entry.restarts = status.restarts
            if status.state is QueryState.FAILED and status.resumes >= definition.resumes:
                entry.phase, entry.failed, entry.trace, entry.due = QueryPhase.IDLE, True, status.trace, NEVER
        return entry

    def _remove(self, entry: QueryEntry) -> list[Action]:
        if entry.phase in (QueryPhase.STARTING, QueryPhase.RUNNING):
            entry.phase = QueryPhase.STOPPING
            return [StopQuery(entry.definition, entry.run)]
        if entry.phase in (QueryPhase.STOPPING, QueryPhase.REMOVING):
            return []
        entry.phase = QueryPhase.REMOVING
        return [RemoveQuery(entry.definition)]

    def _follow(self, entry: QueryEntry, definition: QueryDefinition, now: float) -> list[Action]:
        resumed = definition.resumes > entry.definition.resumes
        entry.definition = definition
        if resumed:
            entry.failed, entry.failures, entry.deaths = False, 0, 0
            if entry.phase in (QueryPhase.WAITING, QueryPhase.IDLE):
                entry.phase, entry.due, entry.trace = QueryPhase.WAITING, now, None
        if definition.wanted is WantedState.PAUSED:
            return self._pause_query(entry)
        if entry.phase is QueryPhase.IDLE and not entry.failed:
            entry.phase, entry.due = QueryPhase.WAITING, now
        if entry.phase is not QueryPhase.WAITING or entry.due > now or self._has_predecessor(entry):
            return []
        self._runs += 1
        entry.phase, entry.run, entry.began, entry.worked = QueryPhase.STARTING, self._runs, 0.0, False
        return [StartQuery(definition, entry.run)]

    def _pause_query(self, entry: QueryEntry) -> list[Action]:
        if entry.phase in (QueryPhase.STARTING, QueryPhase.RUNNING):
            entry.phase = QueryPhase.STOPPING
            return [StopQuery(entry.definition, entry.run)]
        if entry.phase is QueryPhase.WAITING:
            entry.phase, entry.due, entry.trace = QueryPhase.IDLE, NEVER, None
        return []

    def _has_predecessor(self, entry: QueryEntry) -> bool:
        """Whether another definition of the same name still runs, or its state is being removed."""
        name = entry.definition.name.lower()
        return any(
            other is not entry and other.definition.name.lower() == name and other.definition.id not in self._wanted
            for other in self.entries.values()
        )

    def _of_run(self, query: str, run: int) -> QueryEntry | None:
        entry = self.entries.get(query)
        return entry if entry is not None and entry.run == run else None

    def _pause(self, failures: int, chance: float) -> float:
        pause = min(self.rules.first_pause_s * 2 ** min(failures - 1, 30), self.rules.longest_pause_s)
        return float(pause * (1 - JITTER + 2 * JITTER * chance))
