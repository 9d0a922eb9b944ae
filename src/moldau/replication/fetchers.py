"""Replica fetchers of a broker: one for each leader that it copies from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from moldau.cluster.image import NO_LEADER
from moldau.replication.fetcher import ReplicaFetcher, Surroundings
from moldau.replication.partition import Partition


class ReplicaFetchers:
    def __init__(self, around: Surroundings, spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]) -> None:
        self._around = around
        self._spawn = spawn
        self._fetchers: dict[int, tuple[ReplicaFetcher, asyncio.Task[None]]] = {}
        self._leaders: dict[Partition, int] = {}
        self._stopped = False

    def __len__(self) -> int:
        return len(self._fetchers)

    def follow(self, partition: Partition) -> None:
        """Copy a partition from its current leader, in its current epoch."""
        leader = partition.leader_id
        if self._leaders.get(partition, leader) != leader:
            self.forget(partition)
        if leader == NO_LEADER or self._stopped:
            return
        running = self._fetchers.get(leader)
        if running is None:
            fetcher = ReplicaFetcher(leader, self._around)
            running = self._fetchers[leader] = (fetcher, self._spawn(fetcher.run()))
        self._leaders[partition] = leader
        running[0].add(partition)

    def forget(self, partition: Partition) -> None:
        """Stop copying a partition. A fetcher without partitions ends."""
        leader = self._leaders.pop(partition, NO_LEADER)
        running = self._fetchers.get(leader)
        if running is None:
            return
        fetcher, task = running
        fetcher.remove(partition)
        if not len(fetcher):
            del self._fetchers[leader]
            fetcher.stop()
            task.cancel()

    def reconnect(self, leaders: Iterable[int]) -> None:
        """Reconnect to these brokers: they have restarted, perhaps at another address."""
        for leader in leaders:
            if leader in self._fetchers:
                self._fetchers[leader][0].reconnect()

    def stop(self) -> None:
        self._stopped = True
        for fetcher, task in self._fetchers.values():
            fetcher.stop()
            task.cancel()
        self._fetchers.clear()
        self._leaders.clear()
