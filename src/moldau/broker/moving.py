"""Partitions that move between data directories, as AlterReplicaLogDirs asks: one task each, in the background."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from moldau.host.clock import Randomness
from moldau.log.errors import LogError
from moldau.log.log_dir import LogDir
from moldau.log.move import Move
from moldau.replication.partition import Partition

if TYPE_CHECKING:
    from moldau.broker.broker import Broker

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 0.02
"""While a flush of the old log is under way, or it grows faster than its copy."""


class Moves:
    """The moves under way. A partition is in at most one."""

    def __init__(self, broker: Broker, randomness: Randomness) -> None:
        self._broker = broker
        self._randomness = randomness
        self._under_way: dict[Partition, Move] = {}

    def begin(self, partition: Partition, target: LogDir) -> None:
        """The partition is to be in `target`. One that is there already stays; a move elsewhere is called off."""
        under_way = self._under_way.get(partition)
        if under_way is not None and under_way.target is target:
            return
        self._under_way.pop(partition, None)
        if partition.log.home is not target:
            move = Move(partition.log, target, self._randomness.uuid().hex())
            self._under_way[partition] = move
            self._broker.spawn(self._carry_out(partition, move))

    def into(self, directory: LogDir) -> list[Move]:
        """The copies that grow in a directory."""
        return [move for move in self._under_way.values() if move.target is directory]

    async def _carry_out(self, partition: Partition, move: Move) -> None:
        run, lane, now_ms = self._broker.threads.run, f"move:{move.target.path}", self._broker.now_ms
        source = move.source
        try:
            await run(lane, move.begin, now_ms())
            while True:
                await run(lane, move.copy, now_ms())
                if not self._wanted(partition, move):
                    await run(lane, move.abandon)
                    return
                if not partition.flushing and move.ready():
                    break
                await asyncio.sleep(LOOK_AGAIN_S)
            later = move.take_place(now_ms())
            partition.moved_to(later)
            self._broker.log_dirs.logs[later.name] = later
            await run(lane, move.sync)
            self._broker.log_dirs.retire(source, later)
            await run(lane, move.clear_up)
            log.info("partition moved", extra={"partition": str(later.name), "directory": later.directory})
        except (LogError, OSError) as error:
            log.error("partition cannot be moved", extra={"partition": str(source.name), "reason": str(error)})
            if partition.log is source:
                await run(lane, move.abandon)
        finally:
            if self._under_way.get(partition) is move:
                del self._under_way[partition]

    def _wanted(self, partition: Partition, move: Move) -> bool:
        return (
            self._under_way.get(partition) is move
            and not self._broker.stopping
            and not partition.failure
            and not move.source.closed
            and move.target.online
        )
