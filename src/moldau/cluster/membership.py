"""Cluster membership of a broker: its store session, its registration, and its claim to be the controller.

A broker counts as registered from its registration until its session is lost. A session is lost when it expires, or
when the store has not answered for the whole session timeout, after which other brokers may consider this broker dead.
The timeout counts from the last request that was answered, not from the time when the broker notices the problem. So
the broker stops leading before others begin. Listeners are called at once. The broker then opens another session and
registers as a new incarnation, with a new epoch and without its former leadership. Then it is registered again.

A new incarnation begins in three steps. Their order makes it safe:

1. The broker increments its incarnation. From now on no leader can add it to an ISR because of the log of its former
   incarnation: that commit expects the former epoch.
2. It resigns all partitions that it is still recorded to lead, and leaves ISR and ELR where it may have lost the end of
   its log. No leader can add it again between steps 1 and 3, so these changes are final.
3. It registers, and replaces the registration of its former incarnation if that session has not ended. Now it is alive,
   and may be elected where it is in sync or eligible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import replace
from enum import Enum
from typing import Any, Final, Literal

from moldau.cluster.elections import restarted
from moldau.cluster.image import NO_CONTROLLER, BrokerImage, ClusterImage, TopicImage
from moldau.cluster.image_publisher import ImagePublisher, MetadataDecision
from moldau.cluster.nodes import ClusterIdNode, ControllerNode, ImportNode, id_text
from moldau.cluster.partition_updates import PartitionUpdates
from moldau.cluster.store import OpenStore, SessionEvent, Store, StoreError
from moldau.cluster.tree import FencedController, IdTaken, Tree
from moldau.host.clock import Randomness
from moldau.host.event_log import event_logger
from moldau.wire.topic_partition import TopicPartition

log = event_logger(__name__)

FIRST_RETRY_S: Final = 0.1
MAX_RETRY_S: Final = 5.0
CLOSE_TIMEOUT_S: Final = 5.0
"""How long to wait until an unusable session is closed."""

SESSIONS_END_WITHIN: Final = 1.5
"""The session of a dead broker has ended after this many session timeouts. ZooKeeper servers look for expired sessions
at intervals only."""
LOOKS_A_SESSION: Final = 10

RegistrationListener = Callable[[bool], None]


class Everything(Enum):
    """Means all partitions of a broker."""

    EVERYTHING = "everything"


EVERYTHING: Final = Everything.EVERYTHING
Partitions = Collection[TopicPartition] | Literal[Everything.EVERYTHING]


class BrokerMembership:
    """This broker's membership in the cluster, over any number of sessions."""

    def __init__(
        self,
        node_id: int,
        open_store: OpenStore,
        randomness: Randomness,
        view: ImagePublisher,
        min_insync_replicas: Callable[[TopicImage], int],
    ) -> None:
        self.node_id: Final = node_id
        self.store: Store | None = None
        self.broker_epoch = -1
        self.registered = False
        self._open_store = open_store
        self._randomness = randomness
        self._view = view
        self._view.listen(self._image_changed)
        self._min_insync_replicas = min_insync_replicas
        self._cluster_id: str | None = None
        self._process_id = id_text(randomness.uuid())
        self._broker: BrokerImage | None = None
        self._listeners: list[RegistrationListener] = []
        self._session_lost = False
        self._events_missed = False
        self._lease: asyncio.TimerHandle | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}  # running repairs, at most one of each kind
        self._closed = False

    def on_registration(self, listener: RegistrationListener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # -- joining ---------------------------------------------------------------------------------------------------

    async def open(self, cluster_id: str | None) -> None:
        """Open a session and read all metadata. This does not register the broker."""
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
        """Raise StoreError if the store has no cluster although this broker belongs to one.

        The broker must not create a second cluster: zookeeper.connect is probably wrong, and clients would find no
        topics.
        """

        async def founded() -> bool:
            """Also true if a broker that is being imported is about to create the cluster."""
            return await store.get(ClusterIdNode.path) is not None or await store.get(ImportNode.path) is not None

        if await founded():
            return
        await store.sync()  # the server that answered may lag behind the ensemble
        if not await founded():
            raise StoreError(
                f"there is no cluster in the metadata store, but the log directories belong to cluster "
                f"{cluster_id}; check zookeeper.connect, also the chroot at its end"
            )

    async def register(self, broker: BrokerImage, lost: Partitions) -> None:
        """Register a new incarnation of this broker. A session that is lost during registration is replaced by a new
        one; other failures raise StoreError."""
        self.registered = False  # until the new incarnation is registered
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
        self._set_registered(registered=True)

    async def _join(self, broker: BrokerImage, lost: Partitions) -> None:
        tree = self._view.tree
        shared = tree.store.shared  # otherwise no other broker could lead instead
        started = await self._begin_incarnation(tree, broker)
        if shared:
            await tree.store.sync()
            await self._view.reload()
            await self._view.decide((), lambda image, _: self._after_restart(image, lost), {})
        await self._view.exclusively(self._enter, tree, started)

    async def _begin_incarnation(self, tree: Tree, broker: BrokerImage) -> BrokerImage:
        """Increment the broker's incarnation.

        A broker with empty directories may have the id of a broker that has just died together with its disk. That
        broker stays registered until its session ends. So this method waits that long; a broker that is still
        registered then is alive.
        """
        store, loop = tree.store, asyncio.get_running_loop()
        until = loop.time() + (SESSIONS_END_WITHIN * store.session_timeout_s if store.shared else 0.0)
        waiting = False
        while True:
            try:
                return await self._view.exclusively(
                    tree.begin_incarnation, broker, self._process_id, registered=not store.shared
                )
            except IdTaken as taken:
                if loop.time() >= until:
                    raise
                if not waiting:
                    log.warning(
                        "waiting for the end of an earlier session", extra={"node": self.node_id, "reason": str(taken)}
                    )
                waiting = True
            await asyncio.sleep(store.session_timeout_s / LOOKS_A_SESSION)

    def _after_restart(self, image: ClusterImage, lost: Partitions) -> MetadataDecision[None]:
        others = {broker: None for broker in image.brokers if broker != self.node_id}
        gone = lost if lost is EVERYTHING else frozenset(lost)
        drafts = PartitionUpdates(image)
        for topic in image.topics.values():
            min_isr = self._min_insync_replicas(topic)
            for index, state in enumerate(topic.partitions):
                if self.node_id not in state.replicas:
                    continue
                has_lost = gone is EVERYTHING or (topic.name, index) in gone
                after = restarted(state, self.node_id, others, min_isr, lost=has_lost)
                if after is not state:
                    drafts.put(topic.name, index, after)
        return MetadataDecision([], drafts.steps())

    async def _enter(self, tree: Tree, broker: BrokerImage) -> None:
        if tree.store.shared:
            await tree.register(broker)
        self.broker_epoch = broker.epoch
        image = self._view.image.with_brokers({**self._view.image.brokers, broker.id: broker}.values())
        try:
            await tree.become_controller(broker.id)
            image = replace(image, controller_id=broker.id)
        except FencedController:
            pass  # another broker is
        self._view.publish(image)

    # -- session ---------------------------------------------------------------------------------------------------

    def _session_changed(self, store: Store, event: SessionEvent) -> None:
        if store is not self.store or self._closed:
            return
        if event is SessionEvent.EXPIRED:
            self._lose_session("it expired")
        elif event is SessionEvent.RESUMED:
            log.info("connected to the metadata store again", extra={"node": self.node_id})
            self._events_missed = True
            self._start("catch up", self._catch_up)
        else:
            log.warning("disconnected from the metadata store", extra={"node": self.node_id})

    @property
    def in_touch(self) -> bool:
        """Whether no other broker can consider this broker dead yet.

        A process that was suspended for long handles requests before its timers run, so `registered` may be
        outdated. Handlers whose answer must not be outdated check this property.
        """
        return self.store is not None and (not self.store.shared or _lease_left_s(self.store) > 0)

    def _watch_lease(self, store: Store) -> None:
        if store is not self.store:
            return
        left_s = _lease_left_s(store)
        if left_s <= 0:
            self._lose_session("no answer for longer than its timeout")
        else:
            self._lease = asyncio.get_running_loop().call_later(left_s, self._watch_lease, store)

    def _end_lease(self) -> None:
        if self._lease is not None:
            self._lease.cancel()
            self._lease = None

    def _lose_session(self, why: str) -> None:
        """Stop leading now: other brokers may already have elected another leader."""
        self._end_lease()
        self._session_lost = True
        if self._closed:
            return
        log.error("session with the metadata store is lost", extra={"node": self.node_id, "reason": str(why)})
        self._set_registered(registered=False)
        self._start("return", self._return)

    def _set_registered(self, *, registered: bool) -> None:
        if self.registered == registered:
            return
        self.registered = registered
        for listener in list(self._listeners):
            try:
                listener(registered)
            except Exception:
                # A bug in the listener. The other listeners must still be called: a partition that is not notified
                # would keep leading.
                log.exception("a listener failed when the broker's registration changed")
        self._image_changed(self._view.image, self._view.image)  # images were ignored until now

    async def _return(self) -> None:
        """Open a new session and register a new incarnation; retry until it succeeds.

        Stops if another process has registered as this broker (from a copy of the data directory): the later process
        wins.
        """
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
                log.warning(
                    "no new session with the metadata store yet", extra={"node": self.node_id, "reason": str(error)}
                )
            await asyncio.sleep(wait_s)
        if self._broker is not None:
            log.info("registered again", extra={"node": self.node_id, "epoch": self.broker_epoch})
            self._set_registered(registered=True)

    async def _catch_up(self) -> None:
        """Read all metadata again after the connection was lost, because events may have been missed.

        `sync` comes first, because the server may lag behind. If the connection is lost and restored while reading,
        everything is read once more: the earlier reads may be outdated, and no event would report it.
        """
        for wait_s in self._waits():
            while self._events_missed and not self._closed and not self._session_lost:
                self._events_missed = False
                try:
                    await self._view.tree.store.sync()
                    await self._view.reload()
                except StoreError as error:
                    self._events_missed = True
                    log.warning(
                        "metadata could not be read again yet", extra={"node": self.node_id, "reason": str(error)}
                    )
                    break
            else:
                return
            await asyncio.sleep(wait_s)

    def _waits(self) -> Iterator[float]:
        """Increasing delays with jitter, so that brokers that failed together do not reconnect at the same time."""
        wait_s = FIRST_RETRY_S
        while True:
            yield wait_s * (0.5 + self._randomness.random())
            wait_s = min(wait_s * 2, MAX_RETRY_S)

    # -- controller claim ------------------------------------------------------------------------------------------

    def _image_changed(self, _old: ClusterImage, new: ClusterImage) -> None:
        if not self.registered:
            return
        me = new.brokers.get(self.node_id)
        if me is None or me.epoch != self.broker_epoch:
            self._lose_session("this broker's registration is gone")
        elif new.controller_id == NO_CONTROLLER:
            self._start("claim", self._claim)

    async def _claim(self) -> None:
        """Claim the controller role, unless another broker claims it first."""
        for wait_s in self._waits():
            if self._view.image.controller_id != NO_CONTROLLER or not self.registered:
                return
            try:
                await self._view.exclusively(self._become_controller)
            except StoreError as error:
                log.warning(
                    "broker could not become controller yet", extra={"node": self.node_id, "reason": str(error)}
                )
            if self._view.image.controller_id == NO_CONTROLLER:
                await asyncio.sleep(wait_s)

    async def _become_controller(self) -> None:
        try:
            await self._view.tree.become_controller(self.node_id)
        except FencedController:
            await self._view.read_again([ControllerNode.path])
        else:
            log.info("this broker is the controller", extra={"node": self.node_id})
            self._view.publish(replace(self._view.image, controller_id=self.node_id))

    # -- tasks and closing -----------------------------------------------------------------------------------------

    def _start(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the work in a task, unless that task is already running."""
        under_way = self._tasks.get(name)
        if not self._closed and (under_way is None or under_way.done()):
            self._tasks[name] = asyncio.ensure_future(work())

    async def close(self) -> None:
        """End the session. This also removes the broker's registration."""
        self._closed = True
        self.registered = False
        self._end_lease()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._close_session()

    async def _close_session(self) -> None:
        """Close the session, also while it is disconnected, so that all calls that wait for an answer end."""
        if self.store is not None:
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self.store.close()
            except (StoreError, TimeoutError) as error:
                log.warning("session with the metadata store could not be ended", extra={"reason": repr(error)})


def _lease_left_s(store: Store) -> float:
    return store.last_contact + store.session_timeout_s - asyncio.get_running_loop().time()
