"""The controller: what the cluster needs and nobody asks for. It runs on every broker, and acts on the one that has the
claim.

Brokers die: whoever is in sync leads what they led, and they leave the ISRs. They come back: partitions without a
leader get one. Replicas that were to be added are in sync: those that were to go, go. Leaders have ended up elsewhere
than on their preferred brokers: they move home, at intervals, and soon after a broker has returned in sync.

It looks at what changed in the image, decides over all of it at once, and commits one write a topic, many topics a
commit. Every commit expects the controller epoch of its claim: a controller that was replaced changes nothing any
more, however late it notices. What it could not commit it looks at again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, NamedTuple, ParamSpec

from moldau.cluster.drafts import Drafts
from moldau.cluster.elections import preferred, settled
from moldau.cluster.image import ClusterImage, PartitionState, TopicImage, topics_delta
from moldau.cluster.reassignments import completed, is_under_way
from moldau.cluster.store import StoreError
from moldau.cluster.tree import Claim, NotController
from moldau.cluster.view import Verdict, View

log = logging.getLogger(__name__)

P = ParamSpec("P")

RETRY_S: Final = 0.5
"""After a decision that the store did not take."""
RETURN_SETTLE_S: Final = 2.0
"""How long a preferred leader that is in sync again waits for others to be, so that they move home together."""


class Rebalance(NamedTuple):
    """How leaders move home: `auto.leader.rebalance.enable`, `leader.imbalance.check.interval.seconds`,
    `leader.imbalance.per.broker.percentage`."""

    enabled: bool = True
    check_interval_s: float = 300.0
    max_imbalance_percent: int = 10


class ControllerRules(NamedTuple):
    """What the decisions take from the broker's settings, asked each time."""

    min_insync_replicas: Callable[[TopicImage], int]
    unclean_election: Callable[[TopicImage], bool]
    rebalance: Callable[[], Rebalance]


class Controller:
    """The duties of the controller, on one broker."""

    def __init__(self, view: View, rules: ControllerRules) -> None:
        self._view = view
        self._rules = rules
        self._claim: Claim | None = None
        self._everything = False
        self._topics: dict[str, None] = {}
        """What has to be looked at."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._going_home: asyncio.TimerHandle | None = None
        self._closed = False
        view.listen(self._image_changed)

    # -- what happens ----------------------------------------------------------------------------------------------

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
            if any(_may_go_home(state) for state in _changed(before, after)):
                self._go_home_soon()
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
        if self._going_home is not None:
            self._going_home.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- elections and reassignments -------------------------------------------------------------------------------

    async def _decide(self) -> None:
        """Until there is nothing left to look at, or another broker is the controller."""
        await asyncio.sleep(0)  # what else changes in this turn is looked at together
        while (self._everything or self._topics) and self._claim is not None and not self._closed:
            everything, self._everything = self._everything, False
            topics, self._topics = self._topics, {}
            names = None if everything else topics
            try:
                await self._act(lambda image, _: self._verdict(image, names))  # noqa: B023 - done before the next turn
            except NotController:
                log.warning("this broker is no longer the controller")
                self._claim = None
                return
            except StoreError as error:
                log.warning("a decision of the controller was not stored, deciding again: %s", error)
                self._everything = self._everything or everything
                self._topics.update(topics)
                await asyncio.sleep(RETRY_S)

    async def _act(self, decide: Callable[[ClusterImage, Sequence[None]], Verdict[None]]) -> None:
        await self._view.decide((), decide, {}, as_controller=True)

    def _verdict(self, image: ClusterImage, names: Iterable[str] | None) -> Verdict[None]:
        if names is None:
            topics: Iterable[TopicImage] = image.topics.values()
        else:
            topics = [image.topics[name] for name in names if name in image.topics]
        drafts = decided(image, topics, self._rules)
        steps = drafts.steps()
        if steps:
            log.info("partitions change as brokers come and go", extra={"topics": len(steps)})
        return Verdict([], steps)

    # -- preferred leaders -----------------------------------------------------------------------------------------

    def _go_home_soon(self) -> None:
        if self._going_home is None and self._rules.rebalance().enabled:
            self._going_home = asyncio.get_running_loop().call_later(RETURN_SETTLE_S, self._go_home)

    def _go_home(self) -> None:
        self._going_home = None
        if self._claim is not None and not self._closed:
            self._start("go home", self._elect_preferred, imbalance_percent=0)

    async def _check_balance(self, claim: Claim) -> None:
        while self._claim is claim and not self._closed:
            rebalance = self._rules.rebalance()
            await asyncio.sleep(rebalance.check_interval_s)
            if rebalance.enabled and self._claim is claim:
                await self._elect_preferred(rebalance.max_imbalance_percent)

    async def _elect_preferred(self, imbalance_percent: int) -> None:
        try:
            await self._act(lambda image, _: Verdict([], going_home(image, imbalance_percent).steps()))
        except StoreError as error:
            log.warning("leaders could not move to their preferred brokers: %s", error)


def decided(image: ClusterImage, topics: Iterable[TopicImage], rules: ControllerRules) -> Drafts:
    """What has to change in these topics now that it is known who is alive. Pure."""
    drafts = Drafts(image)
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


def going_home(image: ClusterImage, max_imbalance_percent: int) -> Drafts:
    """Elections of preferred leaders, for brokers that lead too few of the partitions that prefer them. Pure."""
    homes: dict[int, int] = {}
    away: dict[int, list[tuple[str, int, PartitionState]]] = {}
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            home = state.replicas[0]
            homes[home] = homes.get(home, 0) + 1
            if state.leader != home:
                away.setdefault(home, []).append((topic.name, index, state))
    drafts = Drafts(image)
    for home, partitions in away.items():
        if home not in image.brokers or len(partitions) * 100 <= max_imbalance_percent * homes[home]:
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


def _may_go_home(state: PartitionState) -> bool:
    return state.leader != state.replicas[0] and state.replicas[0] in state.isr
