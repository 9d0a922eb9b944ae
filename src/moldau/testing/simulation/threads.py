"""Threads without threads: jobs run on the simulated loop, each after a delay and answered after another.

Lanes, bounds and cancellation are those of the real pool (`moldau.host.threads`); only the thread is exchanged for two
timers. What a job does happens at one moment between its start and its answer, which the seed chooses: before and after
it, others run, as beside a real thread.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from moldau.host.threads import DEFAULT_PER_LANE, DEFAULT_THREADS, Threads, _Job

if TYPE_CHECKING:
    from moldau.testing.simulation.machine import Life

USUAL_S = 0.0005
"""A job begins and ends within so much each, if its disk is not slow."""


class SimulatedThreads(Threads):
    """The pool of one process."""

    def __init__(self, life: Life) -> None:
        super().__init__(DEFAULT_THREADS, DEFAULT_PER_LANE)
        self._life = life
        self._random = Random(life.machine.random.getrandbits(64))
        self._extra_s = 0.0
        self.in_job = False

    def job_takes(self, seconds: float) -> None:
        """The job that runs now is held up by its disk."""
        self._extra_s += seconds

    def _begin(self, job: _Job) -> None:
        self._later(self._random.random() * USUAL_S, job, self._do)

    def _do(self, job: _Job) -> None:
        self._extra_s = 0.0
        self.in_job = True
        try:
            job.call()
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the one who awaits
            job.error = error
        finally:
            self.in_job = False
        self._later(self._extra_s + self._random.random() * USUAL_S, job, self._finished)

    def _later(self, seconds: float, job: _Job, step: object) -> None:
        self._life.loop.call_later(seconds, step, job, context=self._life.context)  # type: ignore[arg-type]
