"""Controller: elects leaders, completes reassignments and restores preferred leaders without a client request.

It runs on every broker, but acts only on the broker that holds the claim. Its duties:

- When a broker dies, it removes the broker from the ISRs and elects new leaders from the in-sync replicas.
- When a broker returns, it elects leaders for partitions that have none.
- When all added replicas of a reassignment are in sync, it removes the replicas that were to be removed.
- At intervals, and soon after a broker is in sync again, it moves leadership back to the preferred replicas.

It reads the changes of the image, decides about all of them at once, and commits one write per topic, with many topics
per commit. Every commit checks the controller epoch of the claim, so a controller that was replaced cannot change
anything, however late it notices. A decision that could not be committed is made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, NamedTuple, ParamSpec

from moldau.cluster.elections import preferred, settled
from moldau.cluster.image import ClusterImage, PartitionState, TopicImage, topics_delta
from moldau.cluster.image_publisher import ImagePublisher, MetadataDecision
from moldau.cluster.partition_updates import PartitionUpdates
from moldau.cluster.reassignments import completed, is_under_way
from moldau.cluster.store import StoreError
from moldau.cluster.tree import Claim, FencedController
from moldau.host.event_log import event_logger

log = event_logger(__name__)

P = ParamSpec("P")

RETRY_S: Final = 0.5
"""Delay after the store rejected a decision."""
RETURN_SETTLE_S: Final = 2.0
"""How long to wait for more replicas after a preferred leader is in sync again, so that all of them move together."""


class Rebalance(NamedTuple):
    """Settings for preferred leader elections: `auto.leader.rebalance.enable`,
    `leader.imbalance.check.interval.seconds`, `leader.imbalance.per.broker.percentage`."""

    enabled: bool = True
    check_interval_s: float = 300.0
    max_imbalance_percent: int = 10


class ControllerRules(NamedTuple):
    """The broker settings that decisions depend on. They are read again for each decision."""

    min_insync_replicas: Callable[[TopicImage], int]
    unclean_election: Callable[[TopicImage], bool]
    rebalance: Callable[[], Rebalance]


class Controller:
    """The duties of the controller, on one broker."""

    def __init__(self, view: ImagePublisher, rules: ControllerRules) -> None:
        self._view = view
        self._rules = rules
        self._claim: Claim | None = None
        self._everything = False
        self._topics: dict[str, None] = {}
        """Topics to look at. `_everything` stands for all topics."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._preferred_election: asyncio.TimerHandle | None = None
        self._closed = False
        view.listen(self._image_changed)

    # -- reacting to new images ------------------------------------------------------------------------------------

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        claim = self._view.tree.claim
        if self._closed or claim is not self._claim:
            self._claim = None if self._closed else claim
            self._stop("check balance")
            self._stop("decide")
            if self._claim is not None:
                self._everything = True
                self._start("check balance", self._check_balance, self._claim)
        if self._claim is None:
            return
        if old.brokers != new.brokers or old.broker_configs != new.broker_configs:
            self._everything = True
        delta = topics_delta(old, new)
        self._topics.update(dict.fromkeys(topic.name for topic in delta.created))
        for before, after in delta.altered:
            self._topics[after.name] = None
            if any(_may_elect_preferred(state) for state in _changed(before, after)):
                self._elect_preferred_soon()
        if self._everything or self._topics:
            self._start("decide", self._decide)

    def _stop(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()

    def _start(
        self, name: str, work: Callable[P, Coroutine[Any, Any, None]], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        under_way = self._tasks.get(name)
        if under_way is None or under_way.done():
            self._tasks[name] = asyncio.ensure_future(work(*args, **kwargs))

    async def close(self) -> None:
        self._closed = True
        if self._preferred_election is not None:
            self._preferred_election.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- elections and reassignments -------------------------------------------------------------------------------

    async def _decide(self) -> None:
        """Decide until nothing is left to look at, or another broker is the controller."""
        await asyncio.sleep(0)  # one pass for all changes of this turn of the loop
        while (self._everything or self._topics) and self._claim is not None and not self._closed:
            everything, self._everything = self._everything, False
            topics, self._topics = self._topics, {}
            names = None if everything else topics
            try:
                await self._act(lambda image, _: self._verdict(image, names))  # noqa: B023 - done before the next turn
            except FencedController:
                log.warning("this broker is no longer the controller")
                self._claim = None
                return
            except StoreError as error:
                log.warning("decision of the controller was not stored, deciding again", extra={"reason": str(error)})
                self._everything = self._everything or everything
                self._topics.update(topics)
                await asyncio.sleep(RETRY_S)

    async def _act(self, decide: Callable[[ClusterImage, Sequence[None]], MetadataDecision[None]]) -> None:
        await self._view.decide((), decide, {}, as_controller=True)

    def _verdict(self, image: ClusterImage, names: Iterable[str] | None) -> MetadataDecision[None]:
        if names is None:
            topics: Iterable[TopicImage] = image.topics.values()
        else:
            topics = [image.topics[name] for name in names if name in image.topics]
        drafts = decided(image, topics, self._rules)
        steps = drafts.steps()
        if steps:
            log.info("partition states change after brokers joined or left", extra={"topics": len(steps)})
        return MetadataDecision([], steps)

    # -- preferred leaders -----------------------------------------------------------------------------------------

    def _elect_preferred_soon(self) -> None:
        if self._preferred_election is None and self._rules.rebalance().enabled:
            self._preferred_election = asyncio.get_running_loop().call_later(RETURN_SETTLE_S, self._elect_preferred_now)

    def _elect_preferred_now(self) -> None:
        self._preferred_election = None
        if self._claim is not None and not self._closed:
            self._start("elect preferred leaders", self._elect_preferred, imbalance_percent=0)

    async def _check_balance(self, claim: Claim) -> None:
        while self._claim is claim and not self._closed:
            rebalance = self._rules.rebalance()
            await asyncio.sleep(rebalance.check_interval_s)
            if rebalance.enabled and self._claim is claim:
                await self._elect_preferred(rebalance.max_imbalance_percent)

    async def _elect_preferred(self, imbalance_percent: int) -> None:
        try:
            await self._act(
                lambda image, _: MetadataDecision([], towards_preferred_leaders(image, imbalance_percent).steps())
            )
        except StoreError as error:
            log.warning("leaders could not move to their preferred brokers", extra={"reason": str(error)})


def decided(image: ClusterImage, topics: Iterable[TopicImage], rules: ControllerRules) -> PartitionUpdates:
    """The changes that these topics need, given the brokers that are alive. Pure."""
    drafts = PartitionUpdates(image)
    alive = image.brokers
    for topic in topics:
        min_isr, unclean = rules.min_insync_replicas(topic), rules.unclean_election(topic)
        for index, state in enumerate(topic.partitions):
            after = settled(state, alive, min_isr, unclean=unclean)
            if is_under_way(after):
                after = completed(after, alive, min_isr)
            if after is not state:
                drafts.put(topic.name, index, after)
    return drafts


def towards_preferred_leaders(image: ClusterImage, max_imbalance_percent: int) -> PartitionUpdates:
    """Preferred leader elections for brokers that lead too few of the partitions that prefer them. Pure."""
    preferring: dict[int, int] = {}
    away: dict[int, list[tuple[str, int, PartitionState]]] = {}
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            first = state.replicas[0]
            preferring[first] = preferring.get(first, 0) + 1
            if state.leader != first:
                away.setdefault(first, []).append((topic.name, index, state))
    drafts = PartitionUpdates(image)
    for first, partitions in away.items():
        if first not in image.brokers or len(partitions) * 100 <= max_imbalance_percent * preferring[first]:
            continue
        for name, index, state in partitions:
            after = preferred(state, image.brokers)
            if after is not state:
                drafts.put(name, index, after)
    return drafts


def _changed(before: TopicImage, after: TopicImage) -> Iterable[PartitionState]:
    for index, state in enumerate(after.partitions):
        if index >= len(before.partitions) or before.partitions[index] is not state:
            yield state


def _may_elect_preferred(state: PartitionState) -> bool:
    return state.leader != state.replicas[0] and state.replicas[0] in state.isr
