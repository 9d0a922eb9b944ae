"""Race between connection attempts: the winner, the next start, and the losers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau.net.happy_eyeballs import AllFailed, race
from tests.support.waiting import loop_turns

SOON_S = 0.01
NEVER_S = 3600.0


class Runners:
    """Connection attempts by name, with the order of starts and stops."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.stopped: list[str] = []

    def one(self, name: str, *, takes_s: float = 0.0, fails: Exception | None = None) -> Callable[..., Any]:
        async def attempt() -> str:
            self.started.append(name)
            try:
                await asyncio.sleep(takes_s)  # a slow attempt
            except asyncio.CancelledError:
                self.stopped.append(name)
                raise
            if fails is not None:
                raise fails
            return name

        return attempt


def run(scenario: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, timeout=30))


def test_a_quick_attempt_is_the_only_one() -> None:
    runners = Runners()
    attempts = [runners.one("first"), runners.one("second")]
    assert run(race(attempts, losing=OSError, stagger_s=NEVER_S)) == "first"
    assert runners.started == ["first"]


def test_a_hanging_attempt_is_overtaken_and_stopped() -> None:
    runners = Runners()
    attempts = [runners.one("hangs", takes_s=NEVER_S), runners.one("comes")]
    assert run(race(attempts, losing=OSError, stagger_s=SOON_S)) == "comes"
    assert runners.stopped == ["hangs"]


def test_the_next_attempt_starts_at_once_after_a_failure() -> None:
    runners = Runners()
    attempts = [runners.one("fails", fails=OSError("no")), runners.one("comes")]
    assert run(race(attempts, losing=OSError, stagger_s=NEVER_S)) == "comes"


def test_a_slow_attempt_may_still_win() -> None:
    runners = Runners()
    attempts = [runners.one("slow", takes_s=5 * SOON_S), runners.one("fails", fails=OSError("no"))]
    assert run(race(attempts, losing=OSError, stagger_s=SOON_S)) == "slow"


def test_if_all_attempts_fail_all_reasons_are_reported() -> None:
    runners = Runners()
    attempts = [runners.one("a", fails=OSError("one")), runners.one("b", fails=OSError("two"))]
    with pytest.raises(AllFailed) as lost:
        run(race(attempts, losing=OSError))
    assert list(map(str, lost.value.errors)) == ["one", "two"]
    with pytest.raises(AllFailed, match="nothing to try"):
        run(race([], losing=OSError))


def test_an_unexpected_error_ends_the_race() -> None:
    runners = Runners()
    attempts = [runners.one("hangs", takes_s=NEVER_S), runners.one("breaks", fails=ValueError("a fault"))]
    with pytest.raises(ValueError, match="a fault"):
        run(race(attempts, losing=OSError, stagger_s=SOON_S))
    assert runners.stopped == ["hangs"]


def test_cancelling_the_race_cancels_all_attempts() -> None:
    runners = Runners()

    async def scenario() -> None:
        task = asyncio.ensure_future(race([runners.one("hangs", takes_s=NEVER_S)], losing=OSError))
        await loop_turns(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(scenario())
    assert runners.stopped == ["hangs"]


def test_the_second_of_two_simultaneous_winners_is_closed() -> None:
    given_back: list[str] = []

    async def scenario() -> str:
        gate = asyncio.get_running_loop().create_future()

        async def through(name: str) -> str:
            await gate
            return name

        asyncio.get_running_loop().call_later(5 * SOON_S, gate.set_result, None)
        attempts = [lambda: through("first"), lambda: through("second")]
        return await race(attempts, losing=OSError, stagger_s=SOON_S, discard=given_back.append)

    assert run(scenario()) == "first"
    assert given_back == ["second"]
