"""A consumer's membership of its group, as the loop runs it: carries out what the machine of its protocol decides.

All of it happens in the loop, a step at a time; there is no task of its own, only requests under way and one timer, so
heartbeats go on whatever the application does. What the application has to hear waits for its next poll.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from moldau.client.backoff import Backoff
from moldau.client.consumer.assignors import assignors_of
from moldau.client.consumer.membership.classic import ClassicMachine
from moldau.client.consumer.membership.consumer import ConsumerMachine
from moldau.client.consumer.membership.machine import Machine
from moldau.client.consumer.membership.model import (
    NO_GENERATION,
    NO_MEMBER,
    Answered,
    CoordinatorGone,
    Event,
    Failed,
    LeaveWanted,
    LookUpTopics,
    MemberConfig,
    MetadataChanged,
    Polled,
    RefreshMetadata,
    Send,
    StandStill,
    Subscribed,
    Take,
    TellingBegun,
    Tick,
    Told,
    TopicInfo,
    TopicsLookedUp,
)
from moldau.client.consumer.model import CallbackDue
from moldau.client.consumer.subscription import Subscription
from moldau.client.errors import IllegalStateError, MoldauError
from moldau.client.metadata import ClusterMetadata
from moldau.client.network import CoordinatorKind, Network
from moldau.client.settings import ClientSettings
from moldau.host.clock import Randomness, SystemRandomness
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

POLL_GRAIN_S: Final = 0.05
"""Polls closer together than this are one sign of life: an application may poll a hundred thousand times a second."""

STATIC_FROM: Final[Mapping[int, int]] = {
    ApiKey.JOIN_GROUP: 5,
    ApiKey.SYNC_GROUP: 3,
    ApiKey.HEARTBEAT: 3,
    ApiKey.LEAVE_GROUP: 3,
}
"""The versions that know static members; an older broker must not take one for an ordinary member."""

PATTERN_FROM: Final = 1
"""The version of ConsumerGroupHeartbeat that has the broker match names."""

GONE: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_TOPIC_EXCEPTION}
)


class GroupMetadata(NamedTuple):
    """Who a consumer is in its group: what a transaction has to say to commit the consumer's offsets."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = NO_MEMBER
    group_instance_id: str | None = None


class AutoCommit(Protocol):
    """What is done before partitions are given up."""

    def before_revocation(self) -> Awaitable[None] | None:
        """Commits what the application has read; None where it does so itself."""


def member_config(settings: ClientSettings, randomness: Randomness) -> MemberConfig:
    """What a machine needs of the settings."""
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


class Membership:
    """See the module. `start` makes a member of the group, `leave` ends that; then it can be started again."""

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
        """Called whenever `callback_due`, `failure` or what is assigned may have changed."""
        self._randomness = randomness or SystemRandomness()
        self._new_protocol: bool = settings["group.protocol"] == "consumer"
        self._assignors = [] if self._new_protocol else assignors_of(settings["partition.assignment.strategy"])
        self._member_id = self._randomness.uuid().hex()
        self._machine: Machine | None = None
        self._broken: MoldauError | None = None
        self._revision = -1
        self._polled_at = -POLL_GRAIN_S
        self._handed: CallbackDue | None = None
        self._committed_for: CallbackDue | None = None
        self._committing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._followed: frozenset[str] = frozenset()
        self._known: dict[str, TopicInfo] = {}
        self._moved = asyncio.Event()
        network.on_metadata(self._on_metadata)

    # -- what the consumer asks ------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether this is, or wants to be, a member."""
        return self._machine is not None

    @property
    def failure(self) -> MoldauError | None:
        """Why this member cannot go on, for good: to be raised from every poll."""
        return None if self._machine is None else self._broken or self._machine.failure

    @property
    def settled(self) -> bool:
        """Whether it is in its group, and the application has heard of all that it was assigned."""
        return self._machine is not None and self._machine.settled

    @property
    def rebalancing(self) -> bool:
        """Whether the next generation comes without the application's help."""
        return self._machine is not None and self._machine.rebalancing

    @property
    def generation(self) -> int:
        return NO_GENERATION if self._machine is None else self._machine.generation

    @property
    def member_id(self) -> str:
        return NO_MEMBER if self._machine is None else self._machine.member_id

    @property
    def new_protocol(self) -> bool:
        """Whether it speaks the new group protocol."""
        return self._new_protocol

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group at this moment."""
        if self._machine is None:
            return GroupMetadata(self.group_id)
        return GroupMetadata(
            self.group_id, self._machine.generation, self._machine.member_id, self._settings["group.instance.id"]
        )

    async def moved(self, deadline: float) -> None:
        """Waits for the next thing that happens to this member, or for the deadline."""
        self._moved.clear()
        try:
            async with asyncio.timeout_at(deadline):
                await self._moved.wait()
        except TimeoutError:
            pass

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """From now on this wants to be a member; it joins with the next `polled`."""
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
        self._look_at_subscription()

    def polled(self, now: float) -> None:
        """The application polls, or is still inside of its poll: a long one says so again and again."""
        if self._machine is None:
            return
        if self._subscription.revision != self._revision:
            self._look_at_subscription()
        if now - self._polled_at >= POLL_GRAIN_S:
            self._polled_at = now
            self._step(Polled())

    async def leave(self, deadline: float) -> None:
        """Ends the membership, and says so to the coordinator. The application has heard of it: see `farewell`."""
        machine = self._machine
        if machine is None:
            return
        before = set(self._tasks)
        self._step(LeaveWanted())
        self._machine = None
        self._handed = self._committed_for = None
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._follow(frozenset())
        await self._end(before | ({self._committing} if self._committing is not None else set()))
        goodbyes = self._tasks - before
        if goodbyes:
            loop = asyncio.get_running_loop()
            try:
                await asyncio.wait(goodbyes, timeout=max(0.0, deadline - loop.time()))
            finally:
                await self._end(goodbyes)

    async def _end(self, tasks: set[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def farewell(self) -> CallbackDue | None:
        """What the application should hear before it leaves: that it gives up all it has."""
        machine = self._machine
        if machine is None or not machine.owned:
            return None
        return CallbackDue("lost" if machine.generation == NO_GENERATION else "revoked", machine.owned)

    # -- what the application hears --------------------------------------------------------------------------------

    def callback_due(self) -> CallbackDue | None:
        """What the application has to hear now, inside its poll. Stays the same until `callback_done`.

        Before partitions are revoked, what was read of them is committed where that is our business; until that is
        done nothing is due.
        """
        if self._broken is not None:
            return None
        if self._handed is not None:
            return self._handed
        due = None if self._machine is None else self._machine.due
        if due is None or not self._is_committed(due):
            return None
        self._handed = due
        self._step(TellingBegun())
        return due

    def callback_done(self, due: CallbackDue, error: BaseException | None = None) -> None:
        """The application has heard it. An error that it raised is the consumer's to raise: the change holds."""
        if due is not self._handed:
            return  # of a membership that is over
        self._handed = None
        if error is not None:
            logger.warning("the listener failed: group=%s kind=%s error=%r", self.group_id, due.kind, error)
        self._step(Told())

    def _is_committed(self, due: CallbackDue) -> bool:
        if due.kind != "revoked" or self.auto_commit is None or self._committed_for is due:
            return True
        if self._committing is None:
            commit = self.auto_commit.before_revocation()
            if commit is None:
                return True
            self._committing = asyncio.get_running_loop().create_task(self._commit(commit, due))
        return False

    async def _commit(self, commit: Awaitable[None], due: CallbackDue) -> None:
        try:
            await commit
        except MoldauError as error:
            logger.warning("not committed before partitions are given up: group=%s error=%s", self.group_id, error)
        finally:
            self._committing = None
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
        except Exception as error:  # noqa: BLE001 - raised from poll; in here nobody would hear of it
            self._break(error)
            return
        for action in actions:
            match action:
                case Send():
                    self._begin(self._call(machine, action))
                case Take(partitions):
                    self._subscription.take_assignment(partitions)
                    self.on_change()
                case StandStill(partitions):
                    self._subscription.begin_revocation(partitions)
                case CoordinatorGone():
                    self._network.coordinator_gone(CoordinatorKind.GROUP, self.group_id)
                case LookUpTopics():
                    self._begin(self._look_up(machine, action))
                case RefreshMetadata():
                    self._network.refresh_soon()
        self._set_alarm(machine)
        self._moved.set()
        if machine.due is not due or machine.failure is not failure or machine.generation != generation:
            self.on_change()

    def _break(self, error: Exception) -> None:
        """An assignor of the application's failed where it may not, or there is a mistake of ours: no more steps."""
        self._broken = IllegalStateError(
            f"being a member of group {self.group_id!r} failed with {error!r}; close this consumer, and make another"
        )
        self._broken.__cause__ = error
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self.on_change()

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call(self, machine: Machine, action: Send) -> None:
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
            event = Failed(action.ticket, error)
        else:
            event = Answered(action.ticket, response)
        if self._machine is machine:
            self._step(event)

    def _min_version(self, request: Any) -> int:
        if self._new_protocol:
            return PATTERN_FROM if request.subscribed_topic_regex else 0
        return STATIC_FROM.get(request.API_KEY, 0) if self._settings["group.instance.id"] is not None else 0

    def _set_alarm(self, machine: Machine) -> None:
        """One that rings too early does no harm: it is set again. So polls, which put it off, need not touch it."""
        at = machine.wake_at
        if at is None or (self._alarm is not None and self._alarm_at <= at):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_at(at, self._ring)
        self._alarm_at = at

    def _ring(self) -> None:
        self._alarm = None
        if self._machine is not None:
            self._step(Tick())

    # -- topics ----------------------------------------------------------------------------------------------------

    def _look_at_subscription(self) -> None:
        """The application may have subscribed to something else."""
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

    def _match(self, image: ClusterMetadata) -> None:
        """Which topics a pattern means now. Nothing is known before the first image, not even that there are none."""
        if image.version == 0:
            return
        internal_too = not self._settings["exclude.internal.topics"]
        names = [name for name, one in image.topics.items() if not one.error and (internal_too or not one.internal)]
        self._subscription.match(names)

    def _on_metadata(self, image: ClusterMetadata) -> None:
        if self._machine is None:
            return
        known = {}
        for name, topic in image.topics.items():
            if topic.error is ErrorCode.NONE:
                known[name] = TopicInfo(topic.id, len(topic.partitions))
            elif topic.error not in GONE and name in self._known:
                known[name] = self._known[name]  # a passing trouble; it has not lost its partitions
        self._known = known
        self._step(MetadataChanged(known))
        if self._subscription.pattern is not None:
            self._match(image)
            if self._subscription.revision != self._revision:
                self._look_at_subscription()

    def _follow(self, topics: frozenset[str]) -> None:
        self._network.follow(topics - self._followed)
        self._network.unfollow(self._followed - topics)
        self._followed = topics

    async def _look_up(self, machine: Machine, action: LookUpTopics) -> None:
        """A leader has to know the topics of all members; from now on it follows them."""
        deadline = asyncio.get_running_loop().time() + self._settings.seconds("request.timeout.ms")
        self._follow(frozenset(action.topics) | frozenset(self._subscription.topics))
        event: Event
        try:
            await self._network.refreshed(deadline)
        except MoldauError as error:
            event = Failed(action.ticket, error)
        else:
            event = TopicsLookedUp(action.ticket, self._known)
        if self._machine is machine:
            self._step(event)


def as_text(pattern: re.Pattern[str]) -> str:
    """A pattern as a broker takes it, in RE2's notation: flags stand in front."""
    flags = "".join(
        letter for letter, flag in (("i", re.IGNORECASE), ("m", re.MULTILINE), ("s", re.DOTALL)) if pattern.flags & flag
    )
    return f"(?{flags}){pattern.pattern}" if flags else pattern.pattern
