"""Simulation speed: how much faster than real time a simulated cluster of three brokers runs, on one core.

CPU seconds are counted, not wall time, because many simulations run in parallel, one per core.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.harness import Context, Row, median, spread
from moldau.testing.simulation.scenario import Options, simulate

LEAST_SPEED = 50.0
LIGHT_PACE_S = 2.0


def run(context: Context) -> Iterator[Row]:
    minutes = context.sized(4, 1)
    quiet = Options(faults=False, faults_s=60.0 * minutes, brokers=3, pace_s=LIGHT_PACE_S)
    simulate(0, Options(faults=False, faults_s=1.0))  # warm-up: imports and one-time initialization
    speeds, records = [], 0
    for seed in range(1, context.sized(5, 3) + 1):
        speed, result = _speed(seed, quiet)
        speeds.append(speed)
        records += result
    context.say(f"simulation, light traffic: {median(speeds):.0f} x real time")
    yield Row(
        "Simulation, 3 brokers, light traffic",
        median(speeds),
        "x real time",
        LEAST_SPEED,
        at_least=True,
        note=f"repeats {spread(speeds)}; eight clients, {records} records acknowledged by three replicas",
    )
    faulty = [_speed(seed, Options(brokers=3))[0] for seed in range(1, context.sized(20, 5) + 1)]
    context.say(f"simulation under faults: {median(faulty):.0f} x real time")
    yield Row("Simulation under faults", median(faulty), "x real time", None, note=f"seeds {spread(faulty)}")


def _speed(seed: int, options: Options) -> tuple[float, int]:
    began = time.process_time()
    result = simulate(seed, options)
    return result.simulated_s / (time.process_time() - began), result.counts["acked"]
