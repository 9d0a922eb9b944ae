"""Group membership of a consumer: runs the state machine of its protocol on the event loop.

Everything runs on the event loop, in steps. There is no permanent task, only pending requests and one timer, so
heartbeats continue whatever the application does. Listener callbacks wait for the next poll of the application.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from moldau.client.backoff import Backoff
from moldau.client.consumer.assignors import assignors_of
from moldau.client.consumer.membership.classic_protocol import ClassicMachine
from moldau.client.consumer.membership.consumer_protocol import ConsumerMachine
from moldau.client.consumer.membership.events import (
    NO_GENERATION,
    NO_MEMBER,
    Answered,
    BeginRevocation,
    CallbackDone,
    CallbackStarted,
    CoordinatorGone,
    Event,
    LeaveRequested,
    LookUpTopics,
    MemberConfig,
    MetadataChanged,
    PollCalled,
    RefreshMetadata,
    RequestFailed,
    Send,
    SetAssignment,
    Subscribed,
    Tick,
    TopicInfo,
    TopicsLookedUp,
)
from moldau.client.consumer.membership.machine import MemberStateMachine
from moldau.client.consumer.offset_reset import CallbackDue
from moldau.client.consumer.subscription import Subscription
from moldau.client.errors import IllegalStateError, MoldauError
from moldau.client.metadata import ClusterMetadata
from moldau.client.network import CoordinatorKind, Network
from moldau.client.settings import ClientSettings
from moldau.host.clock import Randomness, SystemRandomness
from moldau.host.event_log import event_logger
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode

log = event_logger(__name__)

POLL_GRAIN_S: Final = 0.05
"""Polls within this time count as one: an application may poll a hundred thousand times per second."""

STATIC_FROM: Final[Mapping[int, int]] = {
    ApiKey.JOIN_GROUP: 5,
    ApiKey.SYNC_GROUP: 3,
    ApiKey.HEARTBEAT: 3,
    ApiKey.LEAVE_GROUP: 3,
}
"""First versions with group.instance.id; an older broker would treat a static member as a dynamic one."""

PATTERN_FROM: Final = 1
"""First version of ConsumerGroupHeartbeat with a pattern that the broker matches."""

GONE: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_TOPIC_EXCEPTION}
)


class GroupMetadata(NamedTuple):
    """Identity of a consumer in its group. A transactional producer needs it to commit the consumer's offsets."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = NO_MEMBER
    group_instance_id: str | None = None

    def __await__(self) -> Generator[None, None, GroupMetadata]:
        """Return itself. `group_metadata()` of the asyncio consumer was a coroutine, so some callers await it."""
        yield from ()
        return self


class AutoCommit(Protocol):
    """Automatic commits before partitions are revoked."""

    def before_revocation(self) -> Awaitable[None] | None:
        """Commit the records that the application has read; None if enable.auto.commit is not set."""


def member_config(settings: ClientSettings, randomness: Randomness) -> MemberConfig:
    """Return the settings that a state machine needs."""
    backoff = Backoff(settings.seconds("retry.backoff.ms"), settings.seconds("retry.backoff.max.ms"))
    return MemberConfig(
        settings["group.id"],
        settings["group.instance.id"],
        settings.seconds("session.timeout.ms"),
        settings.seconds("heartbeat.interval.ms"),
        settings.seconds("max.poll.interval.ms"),
        settings.seconds("request.timeout.ms"),
        settings["client.rack"] or None,
        settings["group.remote.assignor"],
        lambda failures: backoff.pause(failures + 1, randomness.random()),
    )


class GroupMembership:
    """One consumer's membership. `start` begins it and `leave` ends it; then it can be started again."""

    def __init__(
        self,
        network: Network,
        settings: ClientSettings,
        subscription: Subscription,
        *,
        on_change: Callable[[], None] = lambda: None,
        randomness: Randomness | None = None,
    ) -> None:
        self.group_id: str = settings["group.id"]
        self.auto_commit: AutoCommit | None = None
        self._network = network
        self._settings = settings
        self._subscription = subscription
        self.on_change = on_change
        """Called when `callback_due`, `failure` or the assignment may have changed."""
        self._randomness = randomness or SystemRandomness()
        self._new_protocol: bool = settings["group.protocol"] == "consumer"
        self._assignors = [] if self._new_protocol else assignors_of(settings["partition.assignment.strategy"])
        self._member_id = self._randomness.uuid().hex()
        self._machine: MemberStateMachine | None = None
        self._broken: MoldauError | None = None
        self._revision = -1
        self._polled_at = -POLL_GRAIN_S
        self._running_callback: CallbackDue | None = None
        self._committed_for: CallbackDue | None = None
        self._committing: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._followed: frozenset[str] = frozenset()
        self._known: dict[str, TopicInfo] = {}
        self._stepped = asyncio.Event()
        network.on_metadata(self._on_metadata)

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether the membership was started."""
        return self._machine is not None

    @property
    def failure(self) -> MoldauError | None:
        """The error that ended the membership; every poll raises it."""
        return None if self._machine is None else self._broken or self._machine.failure

    @property
    def settled(self) -> bool:
        """Whether the member is in its group, and the listener was called with its whole assignment."""
        return self._machine is not None and self._machine.settled

    @property
    def rebalancing(self) -> bool:
        """Whether the next generation needs only responses of the coordinator, and no callback."""
        return self._machine is not None and self._machine.rebalancing

    @property
    def generation(self) -> int:
        return NO_GENERATION if self._machine is None else self._machine.generation

    @property
    def member_id(self) -> str:
        return NO_MEMBER if self._machine is None else self._machine.member_id

    @property
    def new_protocol(self) -> bool:
        """Whether group.protocol is consumer (KIP-848)."""
        return self._new_protocol

    def group_metadata(self) -> GroupMetadata:
        """Return the consumer's current identity in its group."""
        if self._machine is None:
            return GroupMetadata(self.group_id)
        return GroupMetadata(
            self.group_id, self._machine.generation, self._machine.member_id, self._settings["group.instance.id"]
        )

    async def next_step(self, deadline: float) -> None:
        """Wait for the next step of the state machine, or for the deadline."""
        self._stepped.clear()
        try:
            async with asyncio.timeout_at(deadline):
                await self._stepped.wait()
        except TimeoutError:
            pass

    # -- starting and leaving --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the membership. The member joins the group at the next `polled`."""
        if self._machine is not None:
            return
        config = member_config(self._settings, self._randomness)
        if self._new_protocol:
            self._machine = ConsumerMachine(config, self._member_id)
        else:
            self._machine = ClassicMachine(config, self._assignors)
        self._broken = None
        self._revision = -1
        self._on_metadata(self._network.metadata)
        self._apply_subscription()

    def polled(self, now: float) -> None:
        """Note that the application polls. A poll that waits long calls this again and again."""
        if self._machine is None:
            return
        if self._subscription.revision != self._revision:
            self._apply_subscription()
        if now - self._polled_at >= POLL_GRAIN_S:
            self._polled_at = now
            self._step(PollCalled())

    async def leave(self, deadline: float) -> None:
        """End the membership, and leave the group. The caller has run the callback of `final_callback`."""
        machine = self._machine
        if machine is None:
            return
        before = set(self._tasks)
        self._step(LeaveRequested())
        self._machine = None
        self._running_callback = self._committed_for = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._follow(frozenset())
        await self._end([*before, *([] if self._committing is None else [self._committing])])
        leaving = self._tasks - before
        if leaving:
            loop = asyncio.get_running_loop()
            try:
                await asyncio.wait(leaving, timeout=max(0.0, deadline - loop.time()))
            finally:
                await self._end(leaving)

    async def _end(self, tasks: Collection[asyncio.Future[None]]) -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def final_callback(self) -> CallbackDue | None:
        """Return the callback to run before `leave`: all owned partitions are revoked, or were lost."""
        machine = self._machine
        if machine is None or not machine.owned:
            return None
        return CallbackDue("lost" if machine.generation == NO_GENERATION else "revoked", machine.owned)

    # -- listener callbacks ----------------------------------------------------------------------------------------

    def callback_due(self) -> CallbackDue | None:
        """Return the callback to run now, inside poll. It stays the same until `callback_done`.

        With enable.auto.commit the callback of a revocation is due only after the automatic commit.
        """
        if self._broken is not None:
            return None
        if self._running_callback is not None:
            return self._running_callback
        due = None if self._machine is None else self._machine.due
        if due is None or not self._is_committed(due):
            return None
        self._running_callback = due
        self._step(CallbackStarted())
        return due

    def callback_done(self, due: CallbackDue, error: BaseException | None = None) -> None:
        """Continue after a callback. The consumer raises an error of the listener; the assignment still changes."""
        if due is not self._running_callback:
            return  # it belongs to a membership that has ended
        self._running_callback = None
        if error is not None:
            log.warning(
                "rebalance listener failed", extra={"group": self.group_id, "kind": due.kind, "reason": repr(error)}
            )
        self._step(CallbackDone())

    def _is_committed(self, due: CallbackDue) -> bool:
        if due.kind != "revoked" or self.auto_commit is None or self._committed_for is due:
            return True
        if self._committing is None:
            commit = self.auto_commit.before_revocation()
            if commit is None:
                return True
            # The task is the commit itself, without a wrapper. If the consumer closes at once, a wrapper would be
            # cancelled before its first step, and the coroutine of the commit would never be awaited.
            self._committing = asyncio.ensure_future(commit)
            self._committing.add_done_callback(partial(self._commit_done, due))
        return False

    def _commit_done(self, due: CallbackDue, commit: asyncio.Future[None]) -> None:
        self._committing = None
        if commit.cancelled():
            return
        try:
            commit.result()
        except MoldauError as error:
            log.warning("commit before revocation failed", extra={"group": self.group_id, "reason": str(error)})
        self._committed_for = due
        self.on_change()

    # -- steps -----------------------------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        machine = self._machine
        assert machine is not None
        if self._broken is not None:
            return
        due, failure, generation = machine.due, machine.failure, machine.generation
        try:
            actions = machine.step(asyncio.get_running_loop().time(), event)
        except Exception as error:  # noqa: BLE001 - poll raises it; here it would only be logged by the loop
            self._fail(error)
            return
        for action in actions:
            match action:
                case Send():
                    self._begin(self._call(machine, action))
                case SetAssignment(partitions):
                    self._subscription.take_assignment(partitions)
                    self.on_change()
                case BeginRevocation(partitions):
                    self._subscription.begin_revocation(partitions)
                case CoordinatorGone():
                    self._network.coordinator_gone(CoordinatorKind.GROUP, self.group_id)
                case LookUpTopics():
                    self._begin(self._look_up(machine, action))
                case RefreshMetadata():
                    self._network.refresh_soon()
        self._set_timer(machine)
        self._stepped.set()
        if machine.due is not due or machine.failure is not failure or machine.generation != generation:
            self.on_change()

    def _fail(self, error: Exception) -> None:
        """Stop the state machine after an error in it, or in an assignor of the application; every poll raises it."""
        self._broken = IllegalStateError(
            f"the membership of group {self.group_id!r} failed with {error!r}; close this consumer, and create another"
        )
        self._broken.__cause__ = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.on_change()

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call(self, machine: MemberStateMachine, action: Send) -> None:
        deadline = asyncio.get_running_loop().time() + action.timeout_s
        request = action.request
        what = f"being a member of group {self.group_id!r}"
        event: Event
        try:
            node = await self._network.coordinator(CoordinatorKind.GROUP, self.group_id, deadline)
            response = await self._network.call(
                node,
                request,
                deadline=deadline,
                timeout_s=action.timeout_s,
                min_version=self._min_version(request),
                what=what,
            )
        except MoldauError as error:
            event = RequestFailed(action.ticket, error)
        else:
            event = Answered(action.ticket, response)
        if self._machine is machine:
            self._step(event)

    def _min_version(self, request: Any) -> int:
        if self._new_protocol:
            return PATTERN_FROM if request.subscribed_topic_regex else 0
        return STATIC_FROM.get(request.API_KEY, 0) if self._settings["group.instance.id"] is not None else 0

    def _set_timer(self, machine: MemberStateMachine) -> None:
        """Set the timer, unless an earlier one is set: when that fires too early, it is set again.

        So a poll, which moves `wake_at` to a later time, does not have to change the timer.
        """
        at = machine.wake_at
        if at is None or (self._timer is not None and self._timer_at <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._on_timer)
        self._timer_at = at

    def _on_timer(self) -> None:
        self._timer = None
        if self._machine is not None:
            self._step(Tick())

    # -- topics ----------------------------------------------------------------------------------------------------

    def _apply_subscription(self) -> None:
        """Apply the current subscription: follow its topics, and pass it to the state machine."""
        self._revision = self._subscription.revision
        pattern = self._subscription.pattern
        self._network.follow_all(pattern is not None)
        if pattern is not None:
            self._match(self._network.metadata)
        if pattern is not None and self._new_protocol:
            self._step(Subscribed((), as_text(pattern)))
        else:
            self._follow(frozenset(self._subscription.topics))
            self._step(Subscribed(self._subscription.topics))

    def _match(self, metadata: ClusterMetadata) -> None:
        """Update the topics that match the pattern, once the first metadata has arrived."""
        if metadata.version == 0:
            return
        internal_too = not self._settings["exclude.internal.topics"]
        names = [name for name, one in metadata.topics.items() if not one.error and (internal_too or not one.internal)]
        self._subscription.match(names)

    def _on_metadata(self, metadata: ClusterMetadata) -> None:
        if self._machine is None:
            return
        known = {}
        for name, topic in metadata.topics.items():
            if topic.error is ErrorCode.NONE:
                known[name] = TopicInfo(topic.id, len(topic.partitions))
            elif topic.error not in GONE and name in self._known:
                known[name] = self._known[name]  # a temporary error: the topic still has its partitions
        self._known = known
        self._step(MetadataChanged(known))
        if self._subscription.pattern is not None:
            self._match(metadata)
            if self._subscription.revision != self._revision:
                self._apply_subscription()

    def _follow(self, topics: frozenset[str]) -> None:
        self._network.follow(topics - self._followed)
        self._network.unfollow(self._followed - topics)
        self._followed = topics

    async def _look_up(self, machine: MemberStateMachine, action: LookUpTopics) -> None:
        """Follow the topics of all members, which the leader of the group needs, and report their metadata."""
        deadline = asyncio.get_running_loop().time() + self._settings.seconds("request.timeout.ms")
        self._follow(frozenset(action.topics) | frozenset(self._subscription.topics))
        event: Event
        try:
            await self._network.refreshed(deadline)
        except MoldauError as error:
            event = RequestFailed(action.ticket, error)
        else:
            event = TopicsLookedUp(action.ticket, self._known)
        if self._machine is machine:
            self._step(event)


def as_text(pattern: re.Pattern[str]) -> str:
    """Return a pattern in the syntax of RE2, for the broker: with its flags in front."""
    flags = "".join(
        letter for letter, flag in (("i", re.IGNORECASE), ("m", re.MULTILINE), ("s", re.DOTALL)) if pattern.flags & flag
    )
    return f"(?{flags}){pattern.pattern}" if flags else pattern.pattern
