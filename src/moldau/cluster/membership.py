"""A broker's membership: its session with the store, its registration, its claim to be the controller.

A broker is in good standing from its registration until its session is lost: expired, or out of touch for as long as
it takes until the others take it for dead. That is counted from its last request that was answered, and not from when
it noticed: so it stops leading before others begin. Whoever listens is told at once. It opens another session, begins a
new life (a new epoch, no leadership of the old one) and is in good standing again.

A new life begins in three steps, and the order is what makes it safe:

1. Its incarnation counts up. From here on nobody can take the broker into an ISR on the strength of what its former
   life had: that commit expects the former epoch.
2. It resigns whatever it is still recorded to lead, and leaves ISR and ELR where it may have lost the end of its log.
   Nobody can bring it back in between 1 and 3, so what it leaves it has left.
3. It registers, in place of its former life if the session of that is not over. Now it is alive, and may be elected
   where it is in sync or eligible.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import replace
from enum import Enum
from typing import Any, Final, Literal

from moldau.cluster.drafts import Drafts
from moldau.cluster.elections import reborn
from moldau.cluster.image import NO_CONTROLLER, BrokerImage, ClusterImage, TopicImage
from moldau.cluster.nodes import ClusterIdNode, ControllerNode, ImportNode, id_text
from moldau.cluster.store import OpenStore, SessionEvent, Store, StoreError
from moldau.cluster.tree import IdTaken, NotController, Tree
from moldau.cluster.view import Verdict, View
from moldau.host.clock import Randomness

log = logging.getLogger(__name__)

FIRST_RETRY_S: Final = 0.1
MAX_RETRY_S: Final = 5.0
CLOSE_TIMEOUT_S: Final = 5.0
"""How long the end of a session that is of no more use is waited for."""

SESSIONS_END_WITHIN: Final = 1.5
"""Session time-outs after which the session of a broker that is gone is over: servers look for such now and then."""
LOOKS_A_SESSION: Final = 10

StandingListener = Callable[[bool], None]


class Everything(Enum):
    """Stands for all partitions that a broker has."""

    EVERYTHING = "everything"


EVERYTHING: Final = Everything.EVERYTHING
Partitions = Collection[tuple[str, int]] | Literal[Everything.EVERYTHING]


class Membership:
    """This broker among the others, session after session."""

    def __init__(
        self,
        node_id: int,
        open_store: OpenStore,
        randomness: Randomness,
        view: View,
        min_insync_replicas: Callable[[TopicImage], int],
    ) -> None:
        self.node_id: Final = node_id
        self.store: Store | None = None
        self.broker_epoch = -1
        self.in_good_standing = False
        self._open_store = open_store
        self._randomness = randomness
        self._view = view
        self._view.listen(self._image_changed)
        self._min_insync_replicas = min_insync_replicas
        self._cluster_id: str | None = None
        self._process_id = id_text(randomness.uuid())
        self._broker: BrokerImage | None = None
        self._listeners: list[StandingListener] = []
        self._session_lost = False
        self._behind = False
        self._lease: asyncio.TimerHandle | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}  # what is being repaired, once each
        self._closed = False

    def on_standing(self, listener: StandingListener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # -- joining ---------------------------------------------------------------------------------------------------

    async def open(self, cluster_id: str | None) -> None:
        """Opens a session and reads everything; this broker is not registered yet."""
        self._cluster_id = cluster_id
        await self._open_session()

    async def _open_session(self) -> None:
        self.store = store = await self._open_store()
        self._session_lost = False
        store.on_session(lambda event: self._session_changed(store, event))
        if store.shared:
            self._watch_lease(store)
        tree = Tree(store)
        if store.shared and self._cluster_id is not None:
            await self._require_a_cluster(store, self._cluster_id)
        stored = await tree.prepare(self._cluster_id or id_text(self._randomness.uuid()))
        if self._cluster_id is not None and self._cluster_id != stored:
            raise StoreError(
                f"the metadata store belongs to cluster {stored}, but the log directories to cluster "
                f"{self._cluster_id}; check zookeeper.connect, also the chroot at its end, and log.dirs"
            )
        self._cluster_id = stored
        await self._view.attach(tree)
        await self._view.reload()

    @staticmethod
    async def _require_a_cluster(store: Store, cluster_id: str) -> None:
        """Who was in a cluster does not found another one where there is none: it is the wrong place, and clients would
        find every topic gone."""

        async def founded() -> bool:
            """Or about to be, by a broker that is being imported."""
            return await store.get(ClusterIdNode.path) is not None or await store.get(ImportNode.path) is not None

        if await founded():
            return
        await store.sync()  # the server that was asked may be behind
        if not await founded():
            raise StoreError(
                f"there is no cluster in the metadata store, but the log directories belong to cluster "
                f"{cluster_id}; check zookeeper.connect, also the chroot at its end"
            )

    async def register(self, broker: BrokerImage, lost: Partitions) -> None:
        """Begins a life of this broker. A session that is lost meanwhile is replaced by another one; whatever else goes
        wrong is a StoreError."""
        self.in_good_standing = False  # until the new life has begun, if there was one before
        while True:
            returning = self._tasks.get("return")
            if returning is not None:
                await asyncio.shield(returning)
            try:
                await self._join(broker, lost)
            except StoreError:
                if not self._session_lost or self._closed:
                    raise
            if not self._session_lost:
                break
        self._broker = broker
        self._stand(in_good_standing=True)

    async def _join(self, broker: BrokerImage, lost: Partitions) -> None:
        tree = self._view.tree
        shared = tree.store.shared  # else there is nobody who could lead instead
        born = await self._begin_life(tree, broker)
        if shared:
            await tree.store.sync()
            await self._view.reload()
            await self._view.decide((), lambda image, _: self._reborn(image, lost), {})
        await self._view.exclusively(self._enter, tree, born)

    async def _begin_life(self, tree: Tree, broker: BrokerImage) -> BrokerImage:
        """Counts the new life.

        A broker that begins with empty directories may have the id of one that has just died, with its disk: that one
        is registered until its session ends. So long it is waited for; who is registered after that is alive.
        """
        store, loop = tree.store, asyncio.get_running_loop()
        until = loop.time() + (SESSIONS_END_WITHIN * store.session_timeout_s if store.shared else 0.0)
        waiting = False
        while True:
            try:
                return await self._view.exclusively(
                    tree.begin_life, broker, self._process_id, registered=not store.shared
                )
            except IdTaken as taken:
                if loop.time() >= until:
                    raise
                if not waiting:
                    log.warning("waiting for the end of its session: %s", taken, extra={"node": self.node_id})
                waiting = True
            await asyncio.sleep(store.session_timeout_s / LOOKS_A_SESSION)

    def _reborn(self, image: ClusterImage, lost: Partitions) -> Verdict[None]:
        others = {broker: None for broker in image.brokers if broker != self.node_id}
        gone = lost if lost is EVERYTHING else frozenset(lost)
        drafts = Drafts(image)
        for topic in image.topics.values():
            min_isr = self._min_insync_replicas(topic)
            for index, state in enumerate(topic.partitions):
                if self.node_id not in state.replicas:
                    continue
                has_lost = gone is EVERYTHING or (topic.name, index) in gone
                after = reborn(state, self.node_id, others, min_isr, lost=has_lost)
                if after is not state:
                    drafts.put(topic.name, index, after)
        return Verdict([], drafts.steps())

    async def _enter(self, tree: Tree, broker: BrokerImage) -> None:
        if tree.store.shared:
            await tree.register(broker)
        self.broker_epoch = broker.epoch
        image = self._view.image.with_brokers({**self._view.image.brokers, broker.id: broker}.values())
        try:
            await tree.become_controller(broker.id)
            image = replace(image, controller_id=broker.id)
        except NotController:
            pass  # another one is
        self._view.publish(image)

    # -- the session -----------------------------------------------------------------------------------------------

    def _session_changed(self, store: Store, event: SessionEvent) -> None:
        if store is not self.store or self._closed:
            return
        if event is SessionEvent.EXPIRED:
            self._lose_session("it expired")
        elif event is SessionEvent.RESUMED:
            log.info("in touch with the metadata store again", extra={"node": self.node_id})
            self._behind = True
            self._start("catch up", self._catch_up)
        else:
            log.warning("out of touch with the metadata store", extra={"node": self.node_id})

    @property
    def in_touch(self) -> bool:
        """Whether nobody can have taken this broker for dead. One that was stopped for long finds requests before it
        gets to its timers: whose answer must not be outdated asks here."""
        return self.store is not None and (not self.store.shared or _lease_left_s(self.store) > 0)

    def _watch_lease(self, store: Store) -> None:
        if store is not self.store:
            return
        left_s = _lease_left_s(store)
        if left_s <= 0:
            self._lose_session("out of touch for longer than its time-out")
        else:
            self._lease = asyncio.get_running_loop().call_later(left_s, self._watch_lease, store)

    def _end_lease(self) -> None:
        if self._lease is not None:
            self._lease.cancel()
            self._lease = None

    def _lose_session(self, why: str) -> None:
        """Stop leading now; the others may have elected somebody else by now."""
        self._end_lease()
        self._session_lost = True
        if self._closed:
            return
        log.error("the session with the metadata store is lost: %s", why, extra={"node": self.node_id})
        self._stand(in_good_standing=False)
        self._start("return", self._return)

    def _stand(self, *, in_good_standing: bool) -> None:
        if self.in_good_standing == in_good_standing:
            return
        self.in_good_standing = in_good_standing
        for listener in list(self._listeners):
            try:
                listener(in_good_standing)
            except Exception:
                # A bug of ours. The others must hear of it: one that does not goes on leading.
                log.exception("a listener failed on the broker's standing")
        self._image_changed(self._view.image, self._view.image)  # it may have changed before this broker could care

    async def _return(self) -> None:
        """Another session, another life: tried until it succeeds, or until another process has become this broker (from
        a copy of the data directory): the later one stays."""
        for wait_s in self._waits():
            if self._closed:
                return
            try:
                await self._close_session()
                await self._open_session()
                if self._broker is not None:
                    if not await self._view.tree.is_ours(self.node_id, self._process_id):
                        log.error("another process has become this broker: this one leads nothing any more")
                        return
                    await self._join(self._broker, ())
                if not self._session_lost:
                    break
            except StoreError as error:
                log.warning("no new session with the metadata store yet: %s", error, extra={"node": self.node_id})
            await asyncio.sleep(wait_s)
        if self._broker is not None:
            log.info("registered again", extra={"node": self.node_id, "epoch": self.broker_epoch})
            self._stand(in_good_standing=True)

    async def _catch_up(self) -> None:
        """What happened while out of touch was not told: read everything, past any server that lags behind.

        Again, where touch was lost and found while it was being read: what was read before that may be outdated, and
        nobody will tell.
        """
        for wait_s in self._waits():
            while self._behind and not self._closed and not self._session_lost:
                self._behind = False
                try:
                    await self._view.tree.store.sync()
                    await self._view.reload()
                except StoreError as error:
                    self._behind = True
                    log.warning("the metadata could not be read again yet: %s", error, extra={"node": self.node_id})
                    break
            else:
                return
            await asyncio.sleep(wait_s)

    def _waits(self) -> Iterator[float]:
        """Longer and longer, and never quite the same, so that brokers that failed together do not return together."""
        wait_s = FIRST_RETRY_S
        while True:
            yield wait_s * (0.5 + self._randomness.random())
            wait_s = min(wait_s * 2, MAX_RETRY_S)

    # -- being the controller --------------------------------------------------------------------------------------

    def _image_changed(self, _old: ClusterImage, new: ClusterImage) -> None:
        if not self.in_good_standing:
            return
        me = new.brokers.get(self.node_id)
        if me is None or me.epoch != self.broker_epoch:
            self._lose_session("this broker's registration is gone")
        elif new.controller_id == NO_CONTROLLER:
            self._start("claim", self._claim)

    async def _claim(self) -> None:
        """There is no controller: be it, unless another one is faster."""
        for wait_s in self._waits():
            if self._view.image.controller_id != NO_CONTROLLER or not self.in_good_standing:
                return
            try:
                await self._view.exclusively(self._become_controller)
            except StoreError as error:
                log.warning("this broker could not become controller yet: %s", error, extra={"node": self.node_id})
            if self._view.image.controller_id == NO_CONTROLLER:
                await asyncio.sleep(wait_s)

    async def _become_controller(self) -> None:
        try:
            await self._view.tree.become_controller(self.node_id)
        except NotController:
            await self._view.read_again([ControllerNode.path])
        else:
            log.info("this broker is the controller", extra={"node": self.node_id})
            self._view.publish(replace(self._view.image, controller_id=self.node_id))

    # -- the end ---------------------------------------------------------------------------------------------------

    def _start(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs the work, unless it is under way."""
        under_way = self._tasks.get(name)
        if not self._closed and (under_way is None or under_way.done()):
            self._tasks[name] = asyncio.ensure_future(work())

    async def close(self) -> None:
        """Ends the session, and with it this broker's registration."""
        self._closed = True
        self.in_good_standing = False
        self._end_lease()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._close_session()

    async def _close_session(self) -> None:
        """Also where it is out of touch: whoever waits for an answer from it waits no longer."""
        if self.store is not None:
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self.store.close()
            except (StoreError, TimeoutError) as error:
                log.warning("the session with the metadata store could not be ended: %r", error)


def _lease_left_s(store: Store) -> float:
    return store.last_contact + store.session_timeout_s - asyncio.get_running_loop().time()
