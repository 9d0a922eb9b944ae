"""The cluster's metadata as a broker has it: what it may read, ask for, and be told.

Every broker has one. Whatever is asked of it (topics, settings, partitions) is decided over its image by the pure
functions and committed by itself, with the versions that it expects; no request travels on to another broker. What
nobody asks for (elections when brokers come and go) is the controller's, and the controller is whichever broker was
first to claim it.

A change is published only when it is stored. So what a client was told exists is on disk, and whatever brokers do
about it (making and deleting logs) comes after and can be done again:

- A topic is stored before any log of it exists. A crash between leaves partitions without a log; the broker makes
  what is missing when it starts.
- A deletion is stored before any log goes. A crash between leaves logs whose topic id is unknown; the broker reports
  them and leaves them alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeVar

from moldau.cluster import topics as topic_decisions
from moldau.cluster.changes import TopicChange
from moldau.cluster.configs import Alteration, ConfigRules, alter_configs
from moldau.cluster.image import NO_CONTROLLER, BrokerImage, ClusterImage, TopicImage, topics_delta
from moldau.cluster.nodes import id_text
from moldau.cluster.refusal import Refusal
from moldau.cluster.store import OpenStore, Store, StoreError
from moldau.cluster.topics import MorePartitions, NewTopic, TopicDefaults, TopicRef
from moldau.cluster.tree import NotController, Tree
from moldau.cluster.view import Decide, Listener, Step, TooBusy, Verdict, View
from moldau.host.clock import Randomness
from moldau.wire.errors import ErrorCode

log = logging.getLogger(__name__)

MAX_WAITING_REQUESTS: Final = 1_000
CLAIM_RETRY_S: Final = 1.0

StandingListener = Callable[[bool], None]
PartitionKey = tuple[str, int]
R = TypeVar("R")
A = TypeVar("A")


class Everything(Enum):
    """Stands for all partitions that a broker has."""

    EVERYTHING = "everything"


EVERYTHING: Final = Everything.EVERYTHING
Partitions = Collection[PartitionKey] | Literal[Everything.EVERYTHING]


class MetadataRules(NamedTuple):
    """What the decisions take from the broker's settings."""

    defaults: TopicDefaults
    topic_configs: ConfigRules
    broker_configs: ConfigRules
    min_insync_replicas: Callable[[TopicImage], int] = lambda _topic: 1
    unclean_election: Callable[[TopicImage], bool] = lambda _topic: False


class Metadata:
    """One broker's part in the cluster's metadata: its session, its image, its requests."""

    def __init__(self, node_id: int, open_store: OpenStore, randomness: Randomness, rules: MetadataRules) -> None:
        self.node_id: Final = node_id
        self.broker_epoch = -1
        """Of this life of this broker; -1 until it is registered."""
        self._open_store = open_store
        self._randomness = randomness
        self._rules = rules
        self._view = View(randomness)
        self._view.listen(self._image_changed)
        self._store: Store | None = None
        self._broker: BrokerImage | None = None
        self._claiming: asyncio.Task[None] | None = None
        self._standing_listeners: list[StandingListener] = []
        self._stopped = False
        self._waiting = 0
        # Where placement goes on; from a random place, so that restarts do not favour the first brokers.
        self._cursor = int(randomness.random() * 1_000_000)

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self._view.image

    @property
    def store(self) -> Store:
        """The current session."""
        assert self._store is not None
        return self._store

    @property
    def leads_cluster(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._store is not None and self._view.tree.claim is not None

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Has `listener(old, new)` called for each new image, in the order of joining; returns the end of it.

        A listener must not raise; if it does, the others are still called, and the fault is logged.
        """
        return self._view.listen(listener)

    def on_standing(self, listener: StandingListener) -> Callable[[], None]:
        """Has `listener(False)` called when this broker's session is lost, and it must stop leading at once, and
        `listener(True)` when it is registered again; returns the end of it."""
        self._standing_listeners.append(listener)
        return lambda: self._standing_listeners.remove(listener)

    # -- life ------------------------------------------------------------------------------------------------------

    async def open(self, cluster_id: str | None = None) -> ClusterImage:
        """Opens a session and reads everything; this broker is not registered yet.

        `cluster_id` is the one that the log directories remember, if they do: a new store takes it over, another
        cluster's store is a StoreError.
        """
        self._store = store = await self._open_store()
        tree = Tree(store)
        stored = await tree.prepare(cluster_id or id_text(self._randomness.uuid()))
        if cluster_id is not None and cluster_id != stored:
            raise StoreError(
                f"the metadata store belongs to cluster {stored}, but the log directories to cluster {cluster_id}"
            )
        await self._view.attach(tree)
        await self._view.reload()
        return self.image

    async def register(self, broker: BrokerImage, lost: Partitions = ()) -> None:
        """Makes this broker known as alive, with a new epoch; it is the controller if there is none.

        `lost` are the partitions of which the end may be lost: it leaves their ISR before it is alive again.
        """
        self._broker = broker
        await self._view.exclusively(self._join(broker))

    async def _join(self, broker: BrokerImage) -> None:
        registered = await self._view.tree.register(broker)
        self.broker_epoch = registered.epoch
        image = self.image.with_brokers({**self.image.brokers, broker.id: registered}.values())
        try:
            await self._view.tree.become_controller(broker.id)
            image = replace(image, controller_id=broker.id)
        except NotController:
            pass  # another one is there already
        self._view.publish(image)

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        self._cursor += sum(len(topic.partitions) for topic in topics_delta(old, new).created)
        if new.controller_id == NO_CONTROLLER and self.broker_epoch >= 0 and self._claiming is None:
            self._claiming = asyncio.ensure_future(self._claim())

    async def _claim(self) -> None:
        """There is no controller: be it, unless another one is faster."""
        try:
            while self.image.controller_id == NO_CONTROLLER and not self._stopped:
                try:
                    await self._view.exclusively(self._become_controller())
                except StoreError as error:
                    log.warning("this broker could not become controller, trying again: %s", error)
                    await asyncio.sleep(CLAIM_RETRY_S)
        finally:
            self._claiming = None

    async def _become_controller(self) -> None:
        try:
            await self._view.tree.become_controller(self.node_id)
        except NotController:
            await self._view.read_again(["/controller"])
        else:
            self._view.publish(replace(self.image, controller_id=self.node_id))

    async def stop(self) -> None:
        """Refuses new requests and lets those under way finish. The session goes on until `close`."""
        self._stopped = True
        await self._view.drain()

    async def close(self) -> None:
        """Ends the session, and with it this broker's registration. Nothing is waited for."""
        self._stopped = True
        tasks = [task for task in (self._claiming,) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._view.close()
        if self._store is not None:
            await self._store.close()

    async def refresh(self) -> None:
        """Reads everything again and publishes it if it differs."""
        await self._view.reload()

    # -- requests --------------------------------------------------------------------------------------------------

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicImage | Refusal]:
        """Creates each topic that may be; answers in the order of the request, the topic or why not."""

        def decide(image: ClusterImage, wanted: Sequence[NewTopic]) -> Verdict[TopicImage]:
            decided = topic_decisions.create_topics(
                image,
                wanted,
                ids=[self._randomness.uuid() for _ in wanted],
                cursor=self._cursor,
                defaults=self._rules.defaults,
                rules=self._rules.topic_configs,
                known=self._view.tree.states,
            )
            return _one_step_each(decided)

        return await self._answers(topics, decide, validate_only)

    async def delete_topics(self, refs: Sequence[TopicRef]) -> list[TopicImage | Refusal]:
        """Deletes each topic that is there; answers with what was deleted, or why not."""

        def decide(image: ClusterImage, wanted: Sequence[TopicRef]) -> Verdict[TopicImage]:
            return _one_step_each(topic_decisions.delete_topics(image, wanted))

        return await self._answers(refs, decide)

    async def create_partitions(
        self, requests: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> list[TopicImage | Refusal]:
        """Adds partitions to each topic that may have more; answers with the grown topic, or why not."""

        def decide(image: ClusterImage, wanted: Sequence[MorePartitions]) -> Verdict[TopicImage]:
            states = self._view.tree.states
            return _one_step_each(topic_decisions.create_partitions(image, wanted, cursor=self._cursor, known=states))

        return await self._answers(requests, decide, validate_only)

    async def alter_configs(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        """Alters stored settings; answers None where it was done, or why not."""

        def decide(image: ClusterImage, wanted: Sequence[Alteration]) -> Verdict[None]:
            rules = self._rules
            decided = alter_configs(image, wanted, topic_rules=rules.topic_configs, broker_rules=rules.broker_configs)
            return Verdict(
                [answer if isinstance(answer, Refusal) else None for answer in decided],
                [Step(answer, (at,)) for at, answer in enumerate(decided) if not isinstance(answer, Refusal)],
            )

        return await self._answers(alterations, decide, validate_only)

    async def _answers(
        self, requests: Sequence[R], decide: Decide[R, A], validate_only: bool = False
    ) -> list[A | Refusal]:
        """Decides, commits, and makes a refusal of whatever goes wrong."""
        if self._stopped:
            return [Refusal(ErrorCode.NOT_CONTROLLER, "The broker is shutting down.")] * len(requests)
        if self._waiting >= MAX_WAITING_REQUESTS:
            message = f"{MAX_WAITING_REQUESTS} requests wait for the metadata already."
            return [Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)] * len(requests)
        answers: dict[int, A | Refusal] = {}
        refused = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "The request was not decided.")
        self._waiting += 1
        try:
            await self._view.decide(requests, decide, answers, validate_only=validate_only)
        except TooBusy as error:
            refused = Refusal(ErrorCode.REQUEST_TIMED_OUT, f"Nothing was changed: {error}.")
        except StoreError as error:
            log.error("a metadata change failed: %s", error)
            refused = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata could not be changed: {error}.")
        finally:
            self._waiting -= 1
        return [answers.get(place, refused) for place in range(len(requests))]


def _one_step_each(decided: Sequence[TopicChange | Refusal]) -> Verdict[TopicImage]:
    """Each request is carried out by a change of its own, and answered with the topic."""
    return Verdict(
        [answer if isinstance(answer, Refusal) else answer.topic for answer in decided],
        [Step(answer, (at,)) for at, answer in enumerate(decided) if not isinstance(answer, Refusal)],
    )
