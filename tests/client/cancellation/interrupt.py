"""Cancellation of a coroutine at its k-th await, for k = 1, 2, … until it ends before that."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")

MOST_SUSPENSIONS = 300
"""A bound on the number of suspensions of one call."""

PATIENCE_S = 60.0


@types.coroutine
def _stepped(coroutine: Coroutine[Any, Any, T], k: int, reached: list[int]) -> Generator[Any, Any, T]:
    """Run the coroutine and cancel its task at the k-th suspension, as a caller could do."""
    to_send: Any = None
    to_throw: BaseException | None = None
    while True:
        try:
            waits_for = coroutine.send(to_send) if to_throw is None else coroutine.throw(to_throw)
        except StopIteration as stop:
            result: T = stop.value
            return result
        reached[0] += 1
        if reached[0] == k:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        to_send = to_throw = None
        try:
            to_send = yield waits_for
        except BaseException as error:  # noqa: BLE001 - it is the coroutine's, whatever it is
            to_throw = error


async def cancel_at(k: int, coroutine: Coroutine[Any, Any, object]) -> bool:
    """Whether the call reached its k-th suspension and was cancelled. Fails if it swallows the cancellation or
    hangs."""
    reached = [0]

    async def run() -> object:
        return await _stepped(coroutine, k, reached)

    task = asyncio.ensure_future(run())
    await asyncio.wait([task], timeout=PATIENCE_S)
    assert task.done(), f"cancelled at its suspension {k}, the call never ended"
    if reached[0] < k:
        task.result()
        return False
    assert task.cancelled(), f"cancelled at its suspension {k}, the call ended with {task} instead"
    return True


async def at_every_suspension(scenario: Callable[[int], Awaitable[bool]]) -> int:
    """Run the scenario with k = 1, 2, … until its call ends before the k-th suspension. Returns the number of
    suspensions."""
    for k in range(1, MOST_SUSPENSIONS):
        if not await scenario(k):
            return k - 1
    raise AssertionError(f"the call waits more than {MOST_SUSPENSIONS} times")


async def in_time(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of the awaitable. A call that hangs fails here, before the time limit of the test."""
    async with asyncio.timeout(PATIENCE_S):
        return await coroutine
