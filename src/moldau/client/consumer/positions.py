"""Positions of assigned partitions: from committed offsets, from the reset policy, or checked with a new leader.

`position_rules.py` has the rules and `offset_lookup.py` sends the requests. This module combines them, in one task per
kind of request, while the application does something else. An answer that arrives after a seek, a revocation or another
reset is dropped, because the version of the partition has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial

from moldau.client.backoff import Backoff
from moldau.client.consumer import position_rules
from moldau.client.consumer.buffer import FetchBuffer
from moldau.client.consumer.offset_lookup import OffsetAndTimestamp, OffsetLookup
from moldau.client.consumer.offset_reset import Reset
from moldau.client.consumer.subscription import NO_EPOCH, AssignedPartition, Phase, Subscription
from moldau.client.data_types import NO_LEADER, OffsetAndMetadata, TopicPartition
from moldau.client.errors import BrokerError, MoldauError, UnsupportedByBroker
from moldau.client.network import Network
from moldau.client.settings import ClientSettings
from moldau.host.event_log import event_logger
from moldau.wire.errors import ErrorCode

log = event_logger(__name__)

Committed = Callable[[Collection[TopicPartition], float], Awaitable[Mapping[TopicPartition, OffsetAndMetadata | None]]]
"""Returns the group's committed offset per partition, None for a partition without one. Takes a deadline."""

MIDDLE = 0.5  # of the back-off's random range: one consumer sends few lookups, which need no jitter


class Positions:
    """The tasks that find positions. Owned by the event loop."""

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
        self._new_metadata = asyncio.Event()
        self._error: tuple[MoldauError, AssignedPartition | None, int] | None = None
        """The error to raise, with its partition and version. While it is set, no lookup is started."""

    def note_leaders(self) -> None:
        """Compare positions with the metadata: leaders may have changed, topics may have been created again."""
        self._new_metadata.set()
        metadata = self._network.metadata
        for (name, index), state in self._subscription.assigned.items():
            partition = metadata.partition(name, index)
            if partition is not None:
                self._note(position_rules.note_leader(state, metadata.topics[name], partition, self._policy), state)

    def pump(self) -> None:
        """Start the lookups that are needed."""
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
        """Return the error to raise now, once. After a seek or a revocation of its partition it is dropped."""
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

    def _in(self, phase: Phase) -> list[AssignedPartition]:
        """Return the partitions of this phase that can be looked up now; without a leader they wait for metadata."""
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
            log.error("position lookup failed", exc_info=error)
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
                self._note(error)
                whole = False
            self._changed()
            failures = 0 if whole else failures + 1
            if failures and self._error is None:
                await self._other_leaders(states, asked, self._backoff.pause(failures, MIDDLE))

    def _leaders(self, states: list[AssignedPartition]) -> list[tuple[int, int] | None]:
        """Return leader and leader epoch of each partition, None if unknown."""
        found = [self._network.metadata.partition(*state.partition) for state in states]
        return [None if one is None else (one.leader, one.leader_epoch) for one in found]

    async def _other_leaders(
        self, states: list[AssignedPartition], before: list[tuple[int, int] | None], pause_s: float
    ) -> None:
        """Return after the pause, or earlier if the metadata shows other leaders than those that could not answer."""
        try:
            async with asyncio.timeout(pause_s):
                while self._leaders(states) == before:
                    self._new_metadata.clear()
                    await self._new_metadata.wait()
        except TimeoutError:
            pass

    def _note(self, error: MoldauError | None, state: AssignedPartition | None = None) -> bool:
        """Log an error that can be retried, keep another one for the application. Return True if there is none."""
        if error is None:
            return True
        if error.retriable:
            log.info("position lookup failed, will try again", extra={"reason": str(error)})
        elif self._error is None:
            self._error = error, state, 0 if state is None else state.version
        return False

    # -- lookups ---------------------------------------------------------------------------------------------------

    async def _initial(self, versions: Mapping[TopicPartition, int]) -> bool:
        found: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
        if self._committed is not None:
            found = await self._committed(list(versions), asyncio.get_running_loop().time() + self._timeout_s)
        whole = True
        for partition, version in versions.items():
            state = self._subscription.current(partition, version)
            if state is not None:
                whole &= self._note(position_rules.after_committed(state, found.get(partition), self._policy), state)
        return whole

    async def _reset(self, versions: Mapping[TopicPartition, int]) -> bool:
        wanted: dict[TopicPartition, int] = {}
        for partition, version in versions.items():
            state = self._subscription.current(partition, version)
            if state is not None and state.reset is not None:
                wanted[partition] = position_rules.reset_timestamp(state.reset, self._now_ms())
        answers, errors = await self._lookup.attempt_offsets(wanted)
        none_as_new = [partition for partition, answer in answers.items() if answer.offset < 0]
        if none_as_new:  # no record is as new as `by_duration` says: start at the end
            at_end, more = await self._lookup.attempt_offsets(
                dict.fromkeys(none_as_new, position_rules.LATEST_TIMESTAMP)
            )
            for partition in none_as_new:
                del answers[partition]
            answers |= at_end
            errors |= more
        for partition, answer in answers.items():
            self._seek(partition, versions[partition], answer)
        for partition, error in errors.items():
            self._note(error, self._subscription.current(partition, versions[partition]))
        return not errors

    def _seek(self, partition: TopicPartition, version: int, answer: OffsetAndTimestamp) -> None:
        state = self._subscription.current(partition, version)
        if state is not None and state.phase is Phase.RESET:
            log.info(
                "position reset",
                extra={"partition": str(partition), "offset": answer.offset, "policy": str(state.reset)},
            )
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
            error = position_rules.after_epoch_end(
                state,
                fetched_to if fetched_to is not None else position_rules.NO_OFFSET,
                answer.epoch,
                answer.offset,
                answer.leader_epoch,
                self._policy,
            )
            self._note(error, state)
        whole = True
        for partition, problem in errors.items():
            whole &= self._validation_failed(partition, versions[partition], problem)
        return whole

    def _validation_failed(self, partition: TopicPartition, version: int, error: MoldauError) -> bool:
        """Handle an error of a validation. If the broker is too old for epochs, the position counts as valid."""
        state = self._subscription.current(partition, version)
        too_old = isinstance(error, UnsupportedByBroker) or (
            isinstance(error, BrokerError) and error.code is ErrorCode.UNSUPPORTED_VERSION
        )
        if state is not None and too_old:
            state.validated(NO_EPOCH)
            return True
        return self._note(error, state)
