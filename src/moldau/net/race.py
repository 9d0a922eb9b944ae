"""Several ways to the same thing, tried as a race: the next one starts when those before it have failed, or take long.

What Happy Eyeballs (RFC 8305) does for the addresses of one host is as good for the brokers of one cluster: an address
that swallows packets costs a moment, and not the time-out that it takes to be sure of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

STAGGER_S: Final = 0.25
"""How long an attempt is alone before the next one starts beside it."""


class AllFailed(Exception, Generic[E]):
    """Nobody won: why not, in the order in which they gave up."""

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
    """The first result there is. The other attempts are cancelled; `discard` gets what one of them has won in vain.

    An error of the kind `losing` ends one attempt, any other the race. Raises AllFailed when all of them have lost.
    `attempts` is asked for the next one only when that is to start.
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
            # In the order of their start, and not in that of a set: who wins must not depend on chance.
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
