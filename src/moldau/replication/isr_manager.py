"""ISR maintenance for led partitions: proposes changes of the ISR and applies the stored result.

`leadership` decides; this module batches, sends and retries. A change is valid once it is stored. While it is in
progress, the members of both sets hold back the high watermark. If the store does not report the result, they continue
to do so, and the same change is proposed again until the result is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

from moldau.cluster.errors import Refusal
from moldau.cluster.image import PartitionState
from moldau.cluster.isr import IsrProposal
from moldau.cluster.store import StoreError
from moldau.host.event_log import event_logger
from moldau.replication.leadership import JOIN_HOLD_S, Leadership
from moldau.replication.partition import Partition

log = event_logger(__name__)

MAX_PROPOSALS = 1_000
"""Maximum number of partitions in one call to the metadata store; the others wait for the next call."""

RETRY_S = 0.5
"""Delay after a proposal that was refused, or whose result is unknown."""


ChangeIsr = Callable[[Sequence[IsrProposal]], Awaitable[list[PartitionState | Refusal]]]


class IsrManager:
    def __init__(
        self,
        change_isr: ChangeIsr,
        max_lag_s: Callable[[], float],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._change_isr = change_isr
        self._max_lag_s = max_lag_s
        self._spawn = spawn
        self._loop = asyncio.get_running_loop()
        self._queue: dict[Partition, None] = {}
        self._sender: asyncio.Task[None] | None = None
        self._resting: dict[Partition, float] = {}
        """Partitions whose last proposal was refused, with the time before which no other proposal is made."""
        self._held: dict[Partition, None] = {}
        self._stopped = False
        self.shrinks = 0
        self.expansions = 0

    # -- reacting to events ----------------------------------------------------------------------------------------

    def refresh(self, partition: Partition) -> None:
        """Update a partition after a change of its followers' offsets or of its ISR."""
        if partition.refresh(self._loop.time(), self._max_lag_s()) and partition not in self._held:
            self._held[partition] = None
            if len(self._held) == 1:
                self._loop.call_later(JOIN_HOLD_S, self._look_at_held)

    def _look_at_held(self) -> None:
        held, self._held = self._held, {}
        if not self._stopped:
            for partition in held:
                self.refresh(partition)

    def fetched(self, partition: Partition, replica: int) -> None:
        """A follower has fetched. If it has caught up and is not in the ISR, propose to add it."""
        leadership = partition.leadership
        if leadership is None or not leadership.may_join_isr(replica, partition.high_watermark):
            return
        if self._rests(partition):
            return
        log.info("replica has caught up", extra={"partition": repr(partition), "replica": replica})
        self._propose(partition, leadership, leadership.with_member(replica))

    def check(self, partitions: Iterable[Partition]) -> None:
        """Propose to remove followers that lag from the ISR."""
        now, max_lag_s = self._loop.time(), self._max_lag_s()
        for partition in partitions:
            leadership = partition.leadership
            if leadership is None or not leadership.followers or leadership.proposal is not None:
                continue
            left = leadership.without_laggards(partition.log.end_offset, now, max_lag_s)
            settled = left == leadership.isr and not leadership.holds_for_nothing(
                partition.log.config.min_insync_replicas
            )
            if settled or self._rests(partition):
                continue
            if left != leadership.isr:
                log.warning(
                    "replicas lag and leave the ISR",
                    extra={"partition": repr(partition), "isr": leadership.isr, "left": left},
                )
            self._propose(partition, leadership, left)

    def stored(self, partition: Partition, state: PartitionState) -> None:
        """Apply the state of a partition that this broker leads from a new image."""
        leadership = partition.leadership
        if leadership is not None:
            self._take(partition, leadership, state)

    def forget(self, partition: Partition) -> None:
        """Drop all work for a partition that is no longer hosted here."""
        self._queue.pop(partition, None)
        self._resting.pop(partition, None)
        self._held.pop(partition, None)

    def stop(self) -> None:
        self._stopped = True
        if self._sender is not None:
            self._sender.cancel()

    # -- proposing -------------------------------------------------------------------------------------------------

    def _rests(self, partition: Partition) -> bool:
        until = self._resting.get(partition)
        if until is None:
            return False
        if self._loop.time() < until:
            return True
        del self._resting[partition]
        return False

    def _propose(self, partition: Partition, leadership: Leadership, isr: tuple[int, ...]) -> None:
        leadership.propose(isr)
        self.refresh(partition)
        self._queue[partition] = None
        if self._sender is None and not self._stopped:
            self._sender = self._spawn(self._send())

    async def _send(self) -> None:
        try:
            await asyncio.sleep(0)  # batch all proposals of this turn of the loop
            while self._queue:
                batch: list[tuple[Partition, Leadership, IsrProposal]] = []
                for partition in list(self._queue)[:MAX_PROPOSALS]:
                    del self._queue[partition]
                    leadership = partition.leadership
                    if leadership is not None and leadership.proposal is not None:
                        batch.append((partition, leadership, _proposal(partition, leadership, leadership.proposal)))
                if batch:
                    await self._send_batch(batch)
        finally:
            self._sender = None

    async def _send_batch(self, batch: list[tuple[Partition, Leadership, IsrProposal]]) -> None:
        try:
            answers = await self._change_isr([proposal for _, _, proposal in batch])
        except StoreError as error:
            log.warning("ISR change failed, proposing it again", extra={"reason": str(error), "proposals": len(batch)})
            for partition, leadership, _ in batch:
                if partition.leadership is leadership and leadership.proposal is not None:
                    self._queue[partition] = None
            await asyncio.sleep(RETRY_S)
            return
        for (partition, leadership, proposal), answer in zip(batch, answers, strict=True):
            if partition.leadership is not leadership:
                continue  # a new epoch: the image has the result of this one
            if isinstance(answer, Refusal):
                log.info(
                    "change of in-sync replicas refused", extra={"partition": repr(partition), "reason": answer[1]}
                )
                if leadership.state.partition_epoch == proposal.partition_epoch:
                    leadership.refused()
                    self._resting[partition] = self._loop.time() + RETRY_S
                    self.refresh(partition)
            else:
                self._take(partition, leadership, answer)

    def _take(self, partition: Partition, leadership: Leadership, state: PartitionState) -> None:
        before = leadership.isr
        if not leadership.stored(state):
            return
        self._resting.pop(partition, None)
        if leadership.isr != before:
            self.shrinks += any(one not in leadership.isr for one in before)
            self.expansions += any(one not in before for one in leadership.isr)
            log.info(
                "in-sync replicas changed",
                extra={"partition": repr(partition), "before": before, "now": leadership.isr},
            )
        self.refresh(partition)


def _proposal(partition: Partition, leadership: Leadership, isr: tuple[int, ...]) -> IsrProposal:
    return IsrProposal(
        partition.topic,
        partition.topic_id,
        partition.index,
        leadership.state.leader_epoch,
        leadership.state.partition_epoch,
        isr,
        {one: leadership.followers[one].broker_epoch for one in isr if one not in leadership.isr},
    )
