"""Finds a position for every assigned partition that needs one: committed, by the reset, or checked with a new leader.

The rules are in decide.py, the questions in lookup.py; this asks one by means of the other, in a task a kind of
question, while the application does something else. An answer that comes after a seek, a revocation or another reset
is dropped: the partition has another version by then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial

from moldau.client.backoff import Backoff
from moldau.client.consumer import decide
from moldau.client.consumer.buffer import FetchBuffer
from moldau.client.consumer.lookup import OffsetAndTimestamp, OffsetLookup
from moldau.client.consumer.model import Reset
from moldau.client.consumer.subscription import NO_EPOCH, PartitionState, Phase, Subscription
from moldau.client.errors import BrokerError, MoldauError, UnsupportedByBroker
from moldau.client.model import NO_LEADER, OffsetAndMetadata, TopicPartition
from moldau.client.network import Network
from moldau.client.settings import ClientSettings
from moldau.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

Committed = Callable[[Collection[TopicPartition], float], Awaitable[Mapping[TopicPartition, OffsetAndMetadata | None]]]
"""What the group has committed for these partitions; None where it has nothing. With a deadline."""

MIDDLE = 0.5  # of the back-off's range of chance: one consumer's own questions need not be spread


class Positions:
    """The tasks that find positions. Loop-owned."""

    def __init__(
        self,
        network: Network,
        settings: ClientSettings,
        subscription: Subscription,
        buffer: FetchBuffer,
        lookup: OffsetLookup,
        *,
        policy: Reset,
        committed: Committed | None,
        changed: Callable[[], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._network = network
        self._subscription = subscription
        self._buffer = buffer
        self._lookup = lookup
        self._policy = policy
        self._committed = committed
        self._changed = changed
        self._now_ms = now_ms
        self._timeout_s = settings["request.timeout.ms"] / 1_000
        self._backoff = Backoff(settings["retry.backoff.ms"] / 1_000, settings["retry.backoff.max.ms"] / 1_000)
        self._tasks: dict[Phase, asyncio.Task[None]] = {}
        self._new_image = asyncio.Event()
        self._error: tuple[MoldauError, PartitionState | None, int] | None = None
        """What the application has to hear of, about which partition and version; while it stands, nothing is asked."""

    def note_leaders(self) -> None:
        """Hold positions against the metadata: leaders that changed, topics that were made anew."""
        self._new_image.set()
        metadata = self._network.metadata
        for (name, index), state in self._subscription.assigned.items():
            partition = metadata.partition(name, index)
            if partition is not None:
                self._hear(decide.note_leader(state, metadata.topics[name], partition, self._policy), state)

    def pump(self) -> None:
        """Begin to ask whatever has to be asked."""
        if self._error is not None and self._still_matters():
            return
        if all(state.phase is Phase.READY for state in self._subscription.assigned.values()):
            return
        for phase in (Phase.INITIAL, Phase.RESET, Phase.VALIDATE):
            if phase not in self._tasks and self._in(phase):
                task = asyncio.get_running_loop().create_task(self._settle(phase), name=f"positions: {phase.name}")
                self._tasks[phase] = task
                task.add_done_callback(partial(self._ended, phase))

    def take_error(self) -> MoldauError | None:
        """The error that is to be raised now. After a seek or a revocation it is no longer anybody's."""
        if self._error is None or not self._still_matters():
            return None
        error, self._error = self._error[0], None
        return error

    def _still_matters(self) -> bool:
        assert self._error is not None
        _, state, version = self._error
        if state is None or self._subscription.current(state.partition, version) is state:
            return True
        self._error = None
        return False

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # -- tasks -----------------------------------------------------------------------------------------------------

    def _in(self, phase: Phase) -> list[PartitionState]:
        """What can be asked now. A partition without a leader waits for metadata, which is on its way then."""
        states = [state for state in self._subscription.assigned.values() if state.phase is phase]
        if phase is Phase.INITIAL:
            return states  # the group's coordinator is asked, not the leader
        metadata = self._network.metadata
        led = [state for state in states if metadata.leader(state.partition) != NO_LEADER]
        if len(led) < len(states):
            self._network.refresh_soon()
        return led

    def _ended(self, phase: Phase, task: asyncio.Task[None]) -> None:
        del self._tasks[phase]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("looking for positions failed", exc_info=error)
            self._error = MoldauError(f"looking for positions failed: {error!r}"), None, 0
        self._changed()

    async def _settle(self, phase: Phase) -> None:
        ask = {Phase.INITIAL: self._initial, Phase.RESET: self._reset, Phase.VALIDATE: self._validate}[phase]
        failures = 0
        while self._error is None and (states := self._in(phase)):
            asked = self._leaders(states)
            try:
                whole = await ask({state.partition: state.version for state in states})
            except MoldauError as error:
                self._hear(error)
                whole = False
            self._changed()
            failures = 0 if whole else failures + 1
            if failures and self._error is None:
                await self._other_leaders(states, asked, self._backoff.pause(failures, MIDDLE))

    def _leaders(self, states: list[PartitionState]) -> list[tuple[int, int] | None]:
        """Who leads each partition, and since which epoch, as far as is known."""
        found = [self._network.metadata.partition(*state.partition) for state in states]
        return [None if one is None else (one.leader, one.leader_epoch) for one in found]

    async def _other_leaders(
        self, states: list[PartitionState], before: list[tuple[int, int] | None], pause_s: float
    ) -> None:
        """Returns after the pause, or when there are other leaders to be asked than those that could not answer."""
        try:
            async with asyncio.timeout(pause_s):
                while self._leaders(states) == before:
                    self._new_image.clear()
                    await self._new_image.wait()
        except TimeoutError:
            pass

    def _hear(self, error: MoldauError | None, state: PartitionState | None = None) -> bool:
        """Note what went wrong; whether there was nothing to note. What may pass by itself is not the application's."""
        if error is None:
            return True
        if error.retriable:
            logger.info("looking for positions: %s", error)
        elif self._error is None:
            self._error = error, state, 0 if state is None else state.version
        return False

    # -- questions -------------------------------------------------------------------------------------------------

    async def _initial(self, versions: Mapping[TopicPartition, int]) -> bool:
        found: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
        if self._committed is not None:
            found = await self._committed(list(versions), asyncio.get_running_loop().time() + self._timeout_s)
        whole = True
        for partition, version in versions.items():
            state = self._subscription.current(partition, version)
            if state is not None:
                whole &= self._hear(decide.after_committed(state, found.get(partition), self._policy), state)
        return whole

    async def _reset(self, versions: Mapping[TopicPartition, int]) -> bool:
        wanted: dict[TopicPartition, int] = {}
        for partition, version in versions.items():
            state = self._subscription.current(partition, version)
            if state is not None and state.reset is not None:
                wanted[partition] = decide.reset_timestamp(state.reset, self._now_ms())
        answers, errors = await self._lookup.attempt_offsets(wanted)
        none_as_new = [partition for partition, answer in answers.items() if answer.offset < 0]
        if none_as_new:  # nothing is as new as `by_duration` asks for: then at the end
            at_end, more = await self._lookup.attempt_offsets(dict.fromkeys(none_as_new, decide.LATEST_TIMESTAMP))
            for partition in none_as_new:
                del answers[partition]
            answers |= at_end
            errors |= more
        for partition, answer in answers.items():
            self._seek(partition, versions[partition], answer)
        for partition, error in errors.items():
            self._hear(error, self._subscription.current(partition, versions[partition]))
        return not errors

    def _seek(self, partition: TopicPartition, version: int, answer: OffsetAndTimestamp) -> None:
        state = self._subscription.current(partition, version)
        if state is not None and state.phase is Phase.RESET:
            logger.info("%s: no usable offset, going on at %d (%s)", partition, answer.offset, state.reset)
            state.seek(answer.offset)

    async def _validate(self, versions: Mapping[TopicPartition, int]) -> bool:
        wanted: dict[TopicPartition, int] = {}
        for partition, version in versions.items():
            state = self._subscription.current(partition, version)
            if state is None or state.phase is not Phase.VALIDATE:
                continue
            wanted[partition] = state.epoch
        answers, errors = await self._lookup.attempt_epoch_ends(wanted)
        for partition, answer in answers.items():
            state = self._subscription.current(partition, versions[partition])
            if state is None or state.epoch != wanted[partition]:
                continue
            fetched_to = self._buffer.next_offset(state)[0]
            error = decide.after_epoch_end(
                state,
                fetched_to if fetched_to is not None else decide.NO_OFFSET,
                answer.epoch,
                answer.offset,
                answer.leader_epoch,
                self._policy,
            )
            self._hear(error, state)
        whole = True
        for partition, problem in errors.items():
            whole &= self._not_validated(partition, versions[partition], problem)
        return whole

    def _not_validated(self, partition: TopicPartition, version: int, error: MoldauError) -> bool:
        """A broker that is too old to know epochs is trusted; a position that cannot be checked is fetched from."""
        state = self._subscription.current(partition, version)
        too_old = isinstance(error, UnsupportedByBroker) or (
            isinstance(error, BrokerError) and error.code is ErrorCode.UNSUPPORTED_VERSION
        )
        if state is not None and too_old:
            state.validated(NO_EPOCH)
            return True
        return self._hear(error, state)
