"""Bugs that are put into the code are found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.testing.simulation.scenario import simulate
from tests.sim.planted import BUGS, planted

FOUND_SOON = ("high watermark from the leaders end", "sequence check off", "marker lost")
"""Those that a run of a minute can afford to look for."""

MOST_SEEDS = 300


def seeds_until_found(name: str, most: int) -> tuple[int, str] | None:
    """How many seeds it takes to find the bug, and as what it shows."""
    with planted(name):
        for seed in range(1, most + 1):
            anomalies = simulate(seed).anomalies
            if anomalies:
                return seed, anomalies[0].kind
    return None


@pytest.mark.parametrize("name", FOUND_SOON)
def test_a_planted_bug_is_found_soon(name: str) -> None:
    assert seeds_until_found(name, 5) is not None


@pytest.mark.parametrize("name", sorted(BUGS))
def test_every_planted_bug_is_found(
    name: str, count: Callable[[int, int], int], capsys: pytest.CaptureFixture[str]
) -> None:
    most = count(0, MOST_SEEDS)
    if not most:
        pytest.skip("in a soak")
    found = seeds_until_found(name, most)
    assert found is not None
    with capsys.disabled():
        print(f"\nplanted: {name}: {found[1]}, after {found[0]} seeds")
