"""Simulated thread pool: jobs run on the simulated loop, with a delay before and after each.

Lanes, limits and cancellation are those of the real pool (`moldau.host.threads`); only the thread is replaced by two
timers. The whole job runs at one moment between its start and its result, which the seed chooses. Other callbacks run
before and after it, as with a real thread.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from moldau.host.threads import DEFAULT_PER_LANE, DEFAULT_THREADS, Threads, _Job

if TYPE_CHECKING:
    from moldau.testing.simulation.machine import SimulatedProcess

USUAL_S = 0.0005
"""Maximum delay before and after a job, if its disk is not slow."""


class SimulatedThreads(Threads):
    """The thread pool of one process."""

    def __init__(self, process: SimulatedProcess) -> None:
        super().__init__(DEFAULT_THREADS, DEFAULT_PER_LANE)
        self._process = process
        self._random = Random(process.machine.random.getrandbits(64))
        self._extra_s = 0.0
        self.in_job = False

    def job_takes(self, seconds: float) -> None:
        """Delay the running job because of its disk."""
        self._extra_s += seconds

    def _begin(self, job: _Job) -> None:
        self._later(self._random.random() * USUAL_S, job, self._do)

    def _do(self, job: _Job) -> None:
        self._extra_s = 0.0
        self.in_job = True
        try:
            job.call()
        except BaseException as error:  # noqa: BLE001 - every error is raised in the awaiting task
            job.error = error
        finally:
            self.in_job = False
        self._later(self._extra_s + self._random.random() * USUAL_S, job, self._finished)

    def _later(self, seconds: float, job: _Job, step: object) -> None:
        self._process.loop.call_later(seconds, step, job, context=self._process.context)  # type: ignore[arg-type]
