"""A client `Network` on its own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from moldau.client.loop_thread import new_loop
from moldau.client.network import Network
from moldau.client.settings import ADMIN, ClientSettings, ClientTable

T = TypeVar("T")

PATIENCE_S = 60.0
"""Longer than any test here takes, also on a slow machine."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine on the kind of loop that clients use."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(coroutine)


@asynccontextmanager
async def network(bootstrap: str, table: ClientTable = ADMIN, **settings: Any) -> AsyncIterator[Network]:
    one = Network(ClientSettings.of(table, {"bootstrap.servers": bootstrap}, settings))
    await one.start()
    try:
        yield one
    finally:
        await one.close()


def soon(patience_s: float = PATIENCE_S) -> float:
    """A deadline that only a failing test reaches."""
    return asyncio.get_running_loop().time() + patience_s
