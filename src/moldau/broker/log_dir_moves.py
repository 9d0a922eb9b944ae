"""Moves of partitions between data directories, as AlterReplicaLogDirs requests them: one background task each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.host.clock import Clock, Randomness
from moldau.host.event_log import event_logger
from moldau.host.threads import Threads
from moldau.log.dirs import LogDirs
from moldau.log.errors import LogError
from moldau.log.log_dir import DataDirectory
from moldau.log.log_move import Move
from moldau.replication.partition import Partition

log = event_logger(__name__)

LOOK_AGAIN_S = 0.02
"""The pause while a flush of the old log is in progress, or while the log grows faster than its copy."""


class LogDirMoves:
    """The moves in progress. A partition has at most one."""

    def __init__(
        self,
        dirs: LogDirs,
        threads: Threads,
        clock: Clock,
        randomness: Randomness,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._dirs = dirs
        self._threads = threads
        self._clock = clock
        self._randomness = randomness
        self._spawn = spawn
        self._is_stopping = is_stopping
        self._moves: dict[Partition, Move] = {}

    def begin(self, partition: Partition, target: DataDirectory) -> None:
        """Move the partition to `target`, unless it is there already. A move to another directory is cancelled."""
        current = self._moves.get(partition)
        if current is not None and current.target is target:
            return
        self._moves.pop(partition, None)
        if partition.log.data_dir is not target:
            move = Move(partition.log, target, self._randomness.uuid().hex())
            self._moves[partition] = move
            self._spawn(self._carry_out(partition, move))

    def into(self, directory: DataDirectory) -> list[Move]:
        """The moves whose target is this directory."""
        return [move for move in self._moves.values() if move.target is directory]

    async def _carry_out(self, partition: Partition, move: Move) -> None:
        run, lane, now_ms = self._threads.run, f"move:{move.target.path}", self._clock.now_ms
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
            moved = move.take_place(now_ms())
            partition.moved_to(moved)
            self._dirs.logs[moved.name] = moved
            await run(lane, move.sync)
            self._dirs.retire(source, moved)
            await run(lane, move.clear_up)
            log.info("partition moved", extra={"partition": str(moved.name), "directory": moved.directory})
        except (LogError, OSError) as error:
            log.error("partition cannot be moved", extra={"partition": str(source.name), "reason": str(error)})
            if partition.log is source:
                await run(lane, move.abandon)
        finally:
            if self._moves.get(partition) is move:
                del self._moves[partition]

    def _wanted(self, partition: Partition, move: Move) -> bool:
        return (
            self._moves.get(partition) is move
            and not self._is_stopping()
            and not partition.failure
            and not move.source.closed
            and move.target.online
        )
