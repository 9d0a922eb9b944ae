"""Bugs that are put into the code are found."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from moldau.testing.simulation.scenario import simulate
from tests.sim.planted import BUGS, planted

FOUND_SOON = ("high watermark from the leaders end", "sequence check off", "marker lost")
"""Those that a run of a minute can afford to look for."""

HARD_TO_HIT = ("in sync set not fenced by broker epoch",)
"""Those that may not show in the seeds of a soak: too much has to come together within milliseconds."""

SOON_SEEDS = 5
MOST_SEEDS = 1_000


def seeds_until_found(most: int, name: str) -> tuple[int, str] | None:
    """How many seeds it takes to find the bug, and as what it shows."""
    with planted(name):
        for seed in range(1, most + 1):
            anomalies = simulate(seed).anomalies
            if anomalies:
                return seed, anomalies[0].kind
    return None


def test_planted_bugs_are_found(soak: bool, capsys: pytest.CaptureFixture[str]) -> None:
    names = sorted(BUGS) if soak else FOUND_SOON
    search = partial(seeds_until_found, MOST_SEEDS if soak else SOON_SEEDS)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(names, pool.map(search, names), strict=True))
    with capsys.disabled():
        for name, result in found.items():
            print(f"\nplanted: {name}: {'not found' if result is None else f'{result[1]}, seed {result[0]}'}", end="")
    assert [name for name, result in found.items() if result is None and name not in HARD_TO_HIT] == []
