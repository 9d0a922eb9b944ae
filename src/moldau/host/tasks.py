"""Tasks that continue when their waiter is cancelled."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def outcome(task: asyncio.Task[T]) -> T:
    """Await the task. It runs to its end even if the caller is cancelled; its exception is ignored in that case."""
    task.add_done_callback(_retrieve_exception)
    return await asyncio.shield(task)


def _retrieve_exception(task: asyncio.Task[T]) -> None:
    """Retrieve the exception: otherwise asyncio logs it, because `shield` does not after its caller was cancelled."""
    if not task.cancelled():
        task.exception()
