"""Work that goes on when whoever waits for it does not."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def outcome(task: asyncio.Task[T]) -> T:
    """What the task comes to. It runs to its end also where the caller is cancelled; its error is nobody's then."""
    task.add_done_callback(_looked_at)
    return await asyncio.shield(task)


def _looked_at(task: asyncio.Task[T]) -> None:
    """asyncio logs an error that nobody has looked at, and `shield` does not look once its caller is gone."""
    if not task.cancelled():
        task.exception()
