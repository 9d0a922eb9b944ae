"""Producer ids: numbers that no two producers of a cluster ever share, not even across crashes.

A broker reserves a block of them in the metadata store before it hands out the first; what a crash leaves unused is
lost, and never given to anybody else. The next block is reserved before this one is used up, so that whoever asks
nearly never waits.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.cluster.store import Conflict, Create, Set, Store, StoreError

log = logging.getLogger(__name__)

PATH = "/producer-ids"
"""The first id of the next block."""
BLOCK = 1_000
RESERVE_BELOW = BLOCK // 4
ATTEMPTS = 100
"""Of one reservation against other brokers that reserve at the same time."""


class ProducerIds:
    """The ids that this broker may hand out."""

    def __init__(
        self, store: Callable[[], Store], spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    ) -> None:
        self._store = store
        self._spawn = spawn
        self._blocks: list[range] = []
        self._left = 0
        self._reserving: asyncio.Task[None] | None = None
        self._refused = False
        """The store did not give the last block that was asked for. It is asked again with every client that comes."""

    @property
    def at_hand(self) -> bool:
        return self._left > 0

    def take(self) -> int | None:
        """An id; None where a block is being reserved and has to be waited for."""
        if self._left <= RESERVE_BELOW and self._reserving is None:
            self._reserving = self._spawn(self._reserve())
        if not self._left:
            return None
        self._left -= 1
        block = self._blocks[0]
        self._blocks[0] = block[1:]
        if not self._blocks[0]:
            del self._blocks[0]
        return block[0]

    async def ready(self) -> bool:
        """Waits until there is an id to take; False where the store does not give one."""
        if not self._left:
            if self._reserving is None:
                self._reserving = self._spawn(self._reserve())
            await asyncio.shield(self._reserving)
        return self._left > 0

    async def _reserve(self) -> None:
        try:
            first = await reserve_block(self._store())
        except StoreError as error:
            if not self._refused:
                log.error("no producer ids can be reserved, trying again", extra={"reason": str(error)})
            self._refused = True
            return
        finally:
            self._reserving = None
        if self._refused:
            log.info("producer ids can be reserved again")
        self._refused = False
        self._blocks.append(range(first, first + BLOCK))
        self._left += BLOCK


async def reserve_block(store: Store) -> int:
    """The first id of a block that is this caller's alone. Raises StoreError."""
    for _ in range(ATTEMPTS):
        found = await store.get(PATH)
        try:
            if found is None:
                await store.commit([Create(PATH, _encode(BLOCK))])
                return 0
            first = _decode(found.value)
            await store.commit([Set(PATH, _encode(first + BLOCK), found.version)])
        except Conflict:
            continue
        return first
    raise StoreError(f"{PATH} changed {ATTEMPTS} times while a block was being reserved")


def _encode(next_id: int) -> bytes:
    return json.dumps({"next": next_id}).encode()


def _decode(value: bytes) -> int:
    try:
        next_id = json.loads(value)["next"]
    except (ValueError, KeyError, TypeError):
        raise StoreError(f"{PATH} holds no number: {value[:80]!r}") from None
    if not isinstance(next_id, int):
        raise StoreError(f"{PATH} holds no number: {next_id!r}")
    return next_id
