"""Planted bugs: the simulation finds each of them."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial, wraps
from typing import Any

import pytest

from moldau.replication.partition import Partition
from moldau.testing.simulation.scenario import simulate
from moldau.testing.simulation.security import SHARE as SECURED_SHARE
from tests.sim.planted_bugs import BUGS, Patch, places, planted, replaced

FOUND_SOON = (
    "acknowledged before the high watermark",
    "consumers read above the high watermark",
    "marker lost",
    "leader serves after its session is lost",
    "sequence check off",
    "decisions cached after a change of rules",
    "removed rules stay in force",
)
"""Bugs that nearly every seed finds (the last two: every seed of a secured cluster), so that a short run can include
them."""

ONLY_SECURED = FOUND_SOON[-2:]
"""Bugs in code that runs in secured clusters only. Other seeds would cost time and find nothing."""

SOON_SEEDS = 5
"""One of them, the fourth, simulates a secured cluster."""
MOST_SEEDS = 200
"""Many times the number of seeds that the slowest bug needed at the last count (docs/simulation.md). After that, it
counts as not found."""


def seeds_until_found(most: int, name: str) -> tuple[int, str] | None:
    """The number of seeds until the bug is found, and the anomaly that shows it."""
    with planted(name):
        for seed in range(1, most + 1):
            if name in ONLY_SECURED and seed % SECURED_SHARE:
                continue
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
    assert [name for name, result in found.items() if result is None] == []


def test_the_code_passes_wherever_bugs_are_planted() -> None:
    """If the code is not called any more, a planted bug has no effect and measures nothing."""
    unseen = dict.fromkeys((owner.__name__, attribute) for owner, attribute in places())
    for seed in sorted(range(1, SOON_SEEDS + 1), key=lambda seed: seed % SECURED_SHARE):
        with replaced([_seeing(owner, attribute, unseen) for owner, attribute in places()]):
            simulate(seed)
        if not unseen:
            break
    assert list(unseen) == []


def _seeing(owner: Any, attribute: str, unseen: dict[tuple[str, str], None]) -> Patch:
    """Wrap the function so that it records that it was called."""
    original = owner.__dict__[attribute]

    @wraps(original)
    def called(*args: Any, **kwargs: Any) -> Any:
        unseen.pop((owner.__name__, attribute), None)
        return original(*args, **kwargs)

    return owner, attribute, called


def test_a_bug_that_does_not_fit_the_code_any_more_cannot_be_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    def another(self: Partition, next_offset: int, epoch: int) -> bool:
        return True

    monkeypatch.setattr(Partition, "is_safe", another)
    with pytest.raises(TypeError), planted("acknowledged before the high watermark"):
        pass
    monkeypatch.delattr(Partition, "is_safe")
    with pytest.raises(KeyError), planted("acknowledged before the high watermark"):
        pass
