"""Runner of one connector: what the engine calls, and what it gives to the thread that makes the calls.

A runner belongs to one thread at a time. The engine gives each step a `Guard`: through it the thread says what it is
doing, so that a call that hangs is noticed, and learns that it must not go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from moldau.client.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    MoldauError,
    ProducerFenced,
    TransactionAbortable,
)
from moldau.connect.connector import Connector, RetriableError, TakenOverError
from moldau.connect.engine.batch_result import BatchResult
from moldau.connect.engine.job import DeadlineExceeded, JobCancelled, JobRunner, JobSpec, SessionDied, Task
from moldau.connect.engine.run_settings import ClientConfigs, RunSettings
from moldau.connect.engine.supervision import FailureKind
from moldau.host.clock import Clock

SESSION_START_S: Final = 180.0
"""How long the start of a Spark session may take, which is some seconds on an idle machine."""
GRACE_S: Final = 30.0
"""How long after its deadline a job may take to be cancelled, before its thread is abandoned."""


class AttemptEnded(MoldauError):
    """The connector was stopped, or this attempt was given up: the thread must not go on."""


@dataclass(frozen=True)
class StepOutcome:
    """What one step of a runner has done."""

    result: BatchResult | None = None
    """None: there was nothing to do."""
    pause_s: float | None = None
    """When to look again; None: the engine decides."""


@dataclass
class Guard:
    """One attempt at a step. The engine's thread reads it, the thread of the step writes it."""

    clock: Clock
    deadline_s: float
    jobs: JobRunner
    run_alone: Callable[[Callable[[], Any]], Any]
    """Runs a job, after the jobs of other suspects of a JVM death if this connector is one."""
    on_result: Callable[[BatchResult], None]
    phase: str = "start"
    deadline: float = 0.0
    ended: bool = False
    job_group: str | None = None
    in_job: bool = False

    def doing(self, phase: str, *, extra_s: float = 0.0) -> None:
        """Begin another call of the connector; raises if the attempt has ended."""
        self.phase = phase
        self.deadline = self.clock.monotonic() + self.deadline_s + extra_s
        self.check()

    def check(self) -> None:
        if self.ended:
            raise AttemptEnded(f"stopped during {self.phase}")

    def run_job(self, connector: str, task: Task, count: int) -> list[Any]:
        """Run a Spark job. Raises if it takes longer than the deadline."""

        def run() -> list[Any]:
            self.deadline = self.clock.monotonic() + SESSION_START_S
            self.jobs.holder.session()
            self.doing("batch", extra_s=GRACE_S)
            self.in_job = True
            try:
                return self.jobs.run(JobSpec(connector, task, count, self.deadline_s), on_start=self._job_begins)
            finally:
                self.in_job = False
                self.job_group = None

        self.deadline = float("inf")  # waiting for the jobs of other suspects does not count
        messages: list[Any] = self.run_alone(run)
        self.check()
        return messages

    def _job_begins(self, group: str) -> None:
        self.job_group = group

    def end(self) -> None:
        """Called by the engine: cancel the job, and let the thread find out."""
        self.ended = True
        group = self.job_group
        if group is not None:
            self.jobs.holder.cancel(group)


class EngineRunner(Protocol):
    """A source or a sink that runs here."""

    @property
    def deadline_s(self) -> float:
        """How long one call of the connector, or one batch, may take."""

    def open(self, guard: Guard) -> None:
        """Take over from an earlier owner, and find out where to go on."""

    def step(self, guard: Guard) -> StepOutcome:
        """Do what there is to do: at most one batch."""

    def close(self) -> None:
        """Free everything. Called in the thread of the last step, or in one of its own."""


@dataclass(frozen=True)
class RunContext:
    """What a runner needs to know of its connector and of its worker."""

    name: str
    group: str
    """The worker's group.id."""
    connector: Connector
    config: Mapping[str, Any] = field(repr=False)
    """ResolvedConfig, as text."""
    settings: RunSettings
    clients: ClientConfigs
    worker: Mapping[str, Any] = field(repr=False)
    clock: Clock
    new_run: Callable[[], str]
    """A random id for each start."""


def kind_of(error: BaseException) -> FailureKind:
    """What an error means for the connector."""
    if isinstance(error, SessionDied):
        return FailureKind.JVM_DEATH
    if isinstance(error, DeadlineExceeded):
        return FailureKind.HUNG
    if isinstance(error, (ProducerFenced, InvalidProducerEpoch, TakenOverError)):
        return FailureKind.FENCED
    if isinstance(error, (RetriableError, JobCancelled, InvalidTxnState, InvalidProducerIdMapping)):
        return FailureKind.RETRIABLE
    if isinstance(error, (TransactionAbortable, ConnectionError, TimeoutError)):
        return FailureKind.RETRIABLE
    if isinstance(error, MoldauError) and error.retriable:
        return FailureKind.RETRIABLE
    return FailureKind.PERMANENT
