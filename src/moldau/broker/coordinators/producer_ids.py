"""Producer ids: numbers that are unique in the cluster, also after crashes.

A broker reserves a block of ids in the metadata store before it assigns the first of them. Ids that are unused after a
crash are lost and never assigned. The next block is reserved before the current one is used up, so clients rarely wait.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.cluster.store import Conflict, Create, Set, Store, StoreError
from moldau.host.event_log import event_logger

log = event_logger(__name__)

PATH = "/producer-ids"
"""The first id of the next block."""
BLOCK = 1_000
RESERVE_BELOW = BLOCK // 4
ATTEMPTS = 100
"""Attempts of one reservation. An attempt fails if another broker reserves at the same time."""


class ProducerIds:
    """The ids that this broker may assign."""

    def __init__(
        self, store: Callable[[], Store], spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    ) -> None:
        self._store = store
        self._spawn = spawn
        self._blocks: list[range] = []
        self._left = 0
        self._reserving: asyncio.Task[None] | None = None
        self._refused = False
        """Whether the last reservation failed. It is tried again with the next request of a client."""

    @property
    def available(self) -> bool:
        return self._left > 0

    def take(self) -> int | None:
        """The next id; None if the caller must wait for a block."""
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
        """Wait until there is an id. False if the reservation failed."""
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
    """Reserve a block and return its first id. Raises StoreError."""
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
        raise StoreError(f"{PATH} does not contain a producer id: {value[:80]!r}") from None
    if not isinstance(next_id, int):
        raise StoreError(f"{PATH} does not contain a producer id: {next_id!r}")
    return next_id
