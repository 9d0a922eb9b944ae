"""`wait_until`: its result, the exceptions it tolerates, and its error message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.waiting import NotYet, wait_until, wait_until_async


def returning(*values: Any) -> Callable[[], Any]:
    """A condition that returns, or raises, one of these values per call; the last one is repeated."""
    left = list(values)

    def condition() -> Any:
        value = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(value, Exception):
            raise value
        return value

    return condition


def wait_on_loop(condition: Callable[[], Any], what: str = "", timeout_s: float = 10.0) -> Any:
    return asyncio.run(wait_until_async(condition, what, timeout_s))


@pytest.mark.parametrize("wait", [wait_until, wait_on_loop])
def test_the_first_true_value_is_returned(wait: Callable[..., Any]) -> None:
    assert wait(returning(None, 0, NotYet("two are missing"), "found")) == "found"
    assert wait(returning(*[False] * 15, "found after pauses")) == "found after pauses"


@pytest.mark.parametrize("wait", [wait_until, wait_on_loop])
def test_a_failure_says_what_was_awaited_and_the_last_value(wait: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError, match=r"not within 0\.\d s \(\d+ looks\): three brokers; last value: 0$"):
        wait(returning(0), "three brokers", 0.02)


def test_a_failure_shows_the_code_of_a_condition_without_a_name() -> None:
    with pytest.raises(AssertionError, match=r"lambda: 1 > 2"):
        wait_until(lambda: 1 > 2, timeout_s=0)


def test_a_failure_shows_what_is_missing_in_the_words_of_the_condition() -> None:
    with pytest.raises(AssertionError, match=r"last value: NotYet\('broker 2 does not answer'\)"):
        wait_until(returning(NotYet("broker 2 does not answer")), timeout_s=0)


def test_only_the_given_exceptions_mean_not_yet() -> None:
    assert wait_until(returning(ConnectionError("refused"), "up"), retry_on=(OSError,)) == "up"
    with pytest.raises(ConnectionError):
        wait_until(returning(ConnectionError("refused"), "up"))
