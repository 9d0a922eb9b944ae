"""`python -m moldau.testing.simulation`: many seeds, or one of them with its trace.

    --seeds 100 [--first 1]      run so many, on all cores; says which failed and how to see why
    --seed 17                    run one, and print everything that happened

Exits with 1 where an anomaly was found.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from typing import NamedTuple

from moldau.cli.progress import ProgressBar
from moldau.testing.simulation.checkers import Anomaly
from moldau.testing.simulation.scenario import Options, Result, simulate

SHOWN_ANOMALIES = 5
MOST_CPU_S = 240.0
"""A simulation takes a few seconds. One that takes so many has met a loop that never ends, and holds up the rest."""


class StoodStill(SystemExit):
    """A simulation that does not end: of a kind that callbacks and tasks let through."""


class Outcome(NamedTuple):
    """What a worker tells about a seed."""

    seed: int
    anomalies: list[Anomaly]
    report: str
    simulated_s: float
    acked: int


class Total(NamedTuple):
    """What many seeds came to."""

    seeds: int
    failed: list[Outcome]
    simulated_s: float
    took_s: float
    acked: int

    def __str__(self) -> str:
        speed = self.simulated_s / self.took_s if self.took_s else 0.0
        return (
            f"{self.seeds} seeds, {len(self.failed)} with anomalies; {self.simulated_s / 3600:.2f} simulated hours in "
            f"{self.took_s:.0f} s ({speed:.0f} x), {self.acked:,} records acknowledged"
        )


def report(result: Result) -> str:
    """A failed seed for people: what is wrong, what happened around it, how to see all of it."""
    lines = [f"seed {result.seed}: {len(result.anomalies)} anomalies"]
    lines += [f"  {anomaly}" for anomaly in result.anomalies[:SHOWN_ANOMALIES]]
    if result.anomalies:
        lines += [f"    {line}" for line in result.trace.around(result.anomalies[0].at_s)]
    lines.append(f"  replay: make sim SEED={result.seed}")
    return "\n".join(lines)


@contextmanager
def bounded(cpu_s: float) -> Iterator[None]:
    """Breaks off what takes longer, wherever it is."""

    def break_off(*_: object) -> None:
        raise StoodStill(f"still at it after {cpu_s:g} s of the processor")

    former = signal.signal(signal.SIGVTALRM, break_off)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)


def run_seed(seed: int) -> Outcome:
    """In a worker."""
    try:
        with bounded(MOST_CPU_S):
            result = simulate(seed)
    except (Exception, StoodStill):  # noqa: BLE001 - whatever it is, the other seeds shall run all the same
        told = f"seed {seed}: the simulation failed\n{traceback.format_exc()}"
        return Outcome(seed, [Anomaly("the simulation failed", traceback.format_exc(-1), 0.0)], told, 0.0, 0)
    told = report(result) if result.anomalies else ""
    return Outcome(seed, result.anomalies, told, result.simulated_s, result.counts["acked"])


def run_seeds(seeds: Sequence[int], workers: int, deadline: float = float("inf")) -> Iterator[Outcome]:
    """As they end, in any order; after the deadline, of `time.monotonic`, no worker begins another.

    The workers are there when this returns: a process should not fork once it has threads, a progress bar's among them.
    """
    fork = get_context("fork")
    queue = fork.SimpleQueue()
    processes = [
        fork.Process(target=_work, args=(seeds[number::workers], deadline, queue), daemon=True)
        for number in range(workers)
    ]
    for process in processes:
        process.start()
    return _outcomes(processes, queue)


def _outcomes(processes: Sequence[BaseProcess], queue: SimpleQueue[Outcome | None]) -> Iterator[Outcome]:
    left = len(processes)
    try:
        while left:
            outcome = queue.get()
            if outcome is None:
                left -= 1
            else:
                yield outcome
    finally:
        for process in processes:
            process.kill()
            process.join()


def _work(seeds: Sequence[int], deadline: float, queue: SimpleQueue[Outcome | None]) -> None:
    gc.freeze()  # what there is by now stays: no need to look through all modules after each seed
    try:
        for seed in seeds:
            if time.monotonic() >= deadline:
                break
            queue.put(run_seed(seed))
    except KeyboardInterrupt:
        pass  # the parent says so
    finally:
        queue.put(None)


def run_all(seeds: Sequence[int], workers: int, *, show: bool = True, within_s: float = float("inf")) -> Total:
    """All of them, or as many as can be begun in time, with a bar; failures are told as they come."""
    began = time.monotonic()
    failed: list[Outcome] = []
    simulated_s, acked, count = 0.0, 0, 0
    outcomes = run_seeds(seeds, workers, began + within_s)
    with ProgressBar("simulating", len(seeds), "seeds", wanted=show) as bar:
        for outcome in outcomes:
            bar.add(1)
            count += 1
            simulated_s += outcome.simulated_s
            acked += outcome.acked
            if outcome.anomalies:
                failed.append(outcome)
                if show:
                    sys.stdout.write(outcome.report + "\n")
                    sys.stdout.flush()
    failed.sort()
    return Total(count, failed, simulated_s, time.monotonic() - began, acked)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m moldau.testing.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one and print its trace")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    given = parser.parse_args(arguments)
    if given.seed is not None:
        result = simulate(given.seed, Options())
        for line in result.lines:
            sys.stdout.write(f"{line}\n")
        for anomaly in result.anomalies:
            sys.stdout.write(f"ANOMALY {anomaly}\n")
        sys.stdout.write(
            f"seed {given.seed}: {result.simulated_s:.1f} s, trace {result.digest}, {dict(result.counts)}\n"
        )
        return 1 if result.anomalies else 0
    total = run_all(range(given.first, given.first + given.seeds), given.workers)
    sys.stdout.write(f"{total}\n")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
