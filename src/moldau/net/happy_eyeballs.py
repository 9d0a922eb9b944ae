"""Staggered race between alternatives: the next attempt starts when earlier ones have failed or take too long.

Happy Eyeballs (RFC 8305) does this for the addresses of one host. It is as useful for the brokers of one cluster: an
address that drops packets costs a moment instead of a full connection timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

STAGGER_S: Final = 0.25
"""Time before the next attempt starts in parallel."""


class AllFailed(Exception, Generic[E]):
    """All attempts failed; the errors are in the order of the failures."""

    def __init__(self, errors: list[E]) -> None:
        super().__init__("; ".join(map(str, errors)) or "there was nothing to try")
        self.errors = errors


async def race(
    attempts: Iterable[Callable[[], Coroutine[Any, Any, T]]],
    *,
    losing: type[E],
    stagger_s: float = STAGGER_S,
    discard: Callable[[T], None] | None = None,
) -> T:
    """The first result. The other attempts are cancelled; `discard` is called with results that come too late.

    An error of type `losing` ends one attempt, any other error ends the race. Raises AllFailed if all attempts failed.
    `attempts` is advanced only when the next attempt is to start.
    """
    loop = asyncio.get_running_loop()
    ways = iter(attempts)
    more = True
    running: list[asyncio.Task[T]] = []
    errors: list[E] = []
    try:
        while more or running:
            if more:
                attempt = next(ways, None)
                if attempt is None:
                    more = False
                    continue
                running.append(loop.create_task(attempt()))
            await asyncio.wait(running, timeout=stagger_s if more else None, return_when=asyncio.FIRST_COMPLETED)
            # In starting order, not in the order of a set: the winner must not depend on chance.
            for task in [task for task in running if task.done()]:
                running.remove(task)
                try:
                    return task.result()
                except losing as error:
                    errors.append(error)
        raise AllFailed(errors)
    finally:
        for task in running:
            task.cancel()
        for late in await asyncio.gather(*running, return_exceptions=True):
            if discard is not None and not isinstance(late, BaseException):
                discard(late)
