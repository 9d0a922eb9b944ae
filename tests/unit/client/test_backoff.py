"""Pauses between attempts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.client.backoff import JITTER, Backoff

MIDDLE = 0.5


def test_the_pause_doubles_up_to_its_bound() -> None:
    backoff = Backoff(0.1, 1.0)
    assert [round(backoff.pause(failures, MIDDLE), 3) for failures in range(7)] == [0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_a_bound_below_the_first_pause_is_not_one() -> None:
    assert Backoff(0.5, 0.1).pause(3, MIDDLE) == 0.5


@given(st.floats(0, 1), st.integers(1, 10_000))
def test_jitter_changes_a_pause_by_a_fifth_at_most(chance: float, failures: int) -> None:
    backoff = Backoff(0.1, 1.0)
    middle = backoff.pause(failures, MIDDLE)
    assert middle * (1 - JITTER) - 1e-9 <= backoff.pause(failures, chance) <= middle * (1 + JITTER) + 1e-9
