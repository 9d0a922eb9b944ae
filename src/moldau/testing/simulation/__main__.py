"""Command line of the simulation: runs many seeds, or one seed with its trace.

`python -m moldau.testing.simulation` takes:

    --seeds 100 [--first 1]      run this many seeds, on all cores; prints failed seeds and how to replay them
    --seed 17                    run one seed, and print everything that happened

Exits with 1 if an anomaly was found.
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
"""CPU limit per seed. A simulation takes a few seconds; one that takes this long is in an endless loop and would block
the other seeds."""


class StoodStill(SystemExit):
    """A simulation that does not end. A SystemExit, because callbacks and tasks do not catch that."""


class SeedResult(NamedTuple):
    """A worker's result for one seed."""

    seed: int
    anomalies: list[Anomaly]
    report: str
    simulated_s: float
    acked: int


class Total(NamedTuple):
    """The summary of many seeds."""

    seeds: int
    failed: list[SeedResult]
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
    """A readable report of a failed seed: the anomalies, the events around the first one, and how to replay it."""
    lines = [f"seed {result.seed}: {len(result.anomalies)} anomalies"]
    lines += [f"  {anomaly}" for anomaly in result.anomalies[:SHOWN_ANOMALIES]]
    if result.anomalies:
        lines += [f"    {line}" for line in result.trace.around(result.anomalies[0].at_s)]
    lines.append(f"  replay: make sim SEED={result.seed}")
    return "\n".join(lines)


@contextmanager
def bounded(cpu_s: float) -> Iterator[None]:
    """Interrupt the block if it takes longer."""

    def break_off(*_: object) -> None:
        raise StoodStill(f"not finished after {cpu_s:g} s of CPU time")

    former = signal.signal(signal.SIGVTALRM, break_off)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)


def run_seed(seed: int) -> SeedResult:
    """Run one seed, in a worker."""
    try:
        with bounded(MOST_CPU_S):
            result = simulate(seed)
    except (Exception, StoodStill):  # noqa: BLE001 - the other seeds must run in any case
        told = f"seed {seed}: the simulation failed\n{traceback.format_exc()}"
        return SeedResult(seed, [Anomaly("the simulation failed", traceback.format_exc(-1), 0.0)], told, 0.0, 0)
    told = report(result) if result.anomalies else ""
    return SeedResult(seed, result.anomalies, told, result.simulated_s, result.counts["acked"])


def run_seeds(seeds: Sequence[int], workers: int, deadline: float = float("inf")) -> Iterator[SeedResult]:
    """Yield outcomes in the order of completion. After the deadline (of `time.monotonic`) workers start no further
    seed.

    The workers are already started when this returns: a process should not fork after it has started threads, for
    example that of a progress bar.
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


def _outcomes(processes: Sequence[BaseProcess], queue: SimpleQueue[SeedResult | None]) -> Iterator[SeedResult]:
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


def _work(seeds: Sequence[int], deadline: float, queue: SimpleQueue[SeedResult | None]) -> None:
    gc.freeze()  # keep the existing objects out of the collections after each seed
    try:
        for seed in seeds:
            if time.monotonic() >= deadline:
                break
            queue.put(run_seed(seed))
    except KeyboardInterrupt:
        pass  # the parent reports it
    finally:
        queue.put(None)


def run_all(seeds: Sequence[int], workers: int, *, show: bool = True, within_s: float = float("inf")) -> Total:
    """Run all seeds, or as many as can be started in time, with a progress bar. Failures are printed as they occur."""
    began = time.monotonic()
    failed: list[SeedResult] = []
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
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m moldau.testing.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed and print its trace")
    parser.add_argument("--seeds", type=int, default=100, help="number of seeds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="number of processes")
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
