"""The controller: the one place where topics and stored settings change.

A request is decided over the current image by the pure functions, committed to the store, and only then published:
listeners get `(old image, new image)` on the loop, before the request is answered. So what a client was told exists
is on disk, and whatever the broker does about it (making and deleting logs) comes after and can be done again:

- A topic is stored before any log of it exists. A crash between leaves partitions without a log; the broker makes
  what is missing when it starts.
- A deletion is stored before any log goes. A crash between leaves logs whose topic id is unknown; the broker reports
  them and leaves them alone.

Requests run one at a time. One that found the store changed under it (`Conflict`) reads again and decides again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from moldau.cluster import topics as topic_decisions
from moldau.cluster.changes import Change, PartitionsChanged, TopicCreated, TopicDeleted, applied
from moldau.cluster.configs import Alteration, ConfigRules, ConfigsChanged, alter_configs
from moldau.cluster.image import BrokerImage, ClusterImage, TopicImage
from moldau.cluster.nodes import id_text
from moldau.cluster.refusal import Refusal
from moldau.cluster.store import Conflict, Operation, Store, StoreError
from moldau.cluster.topics import MorePartitions, NewTopic, TopicDefaults, TopicRef
from moldau.cluster.tree import NotController, TooLarge, Tree
from moldau.host.clock import Randomness
from moldau.wire.errors import ErrorCode

log = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 10
MAX_WAITING_REQUESTS: Final = 1_000
# A commit travels in one message of about 1 MB where the store is a service.
MAX_CHANGES_PER_COMMIT: Final = 500
MAX_BYTES_PER_COMMIT: Final = 800_000

Listener = Callable[[ClusterImage, ClusterImage], None]
R = TypeVar("R")
C = TypeVar("C", bound=Change)
T = TypeVar("T")


class ControllerRules(NamedTuple):
    """What the decisions take from the broker's settings."""

    defaults: TopicDefaults
    topic_configs: ConfigRules
    broker_configs: ConfigRules


class Controller:
    """Changes the cluster's metadata, one request at a time, and tells listeners of each new image."""

    def __init__(self, store: Store, randomness: Randomness, rules: ControllerRules) -> None:
        self._tree = Tree(store)
        self._randomness = randomness
        self._rules = rules
        self._image = ClusterImage("")
        # After a failed commit nobody knows whether it happened: the next request reads first.
        self._stale = False
        self._listeners: list[Listener] = []
        self._one_at_a_time = asyncio.Lock()
        self._requests: dict[asyncio.Task[Any], None] = {}
        self._stopped = False
        # Where placement goes on; from a random place, so that restarts do not favour the first brokers.
        self._cursor = int(randomness.random() * 1_000_000)

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self._image

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Has `listener(old, new)` called for each new image, in the order of joining; returns the end of it.

        A listener must not raise; if it does, the others are still called, and the fault is logged.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def start(self, broker: BrokerImage, cluster_id: str | None = None) -> ClusterImage:
        """Registers the broker, becomes controller, loads everything and returns the first image.

        `cluster_id` is the one that the log directories remember, if they do: a new store takes it over, another
        cluster's store is a StoreError.
        """
        stored = await self._tree.prepare(cluster_id or id_text(self._randomness.uuid()))
        if cluster_id is not None and cluster_id != stored:
            raise StoreError(
                f"the metadata store belongs to cluster {stored}, but the log directories to cluster {cluster_id}"
            )
        await self._tree.register(broker)
        await self._tree.claim(broker.id)
        self._publish(await self._tree.load())
        return self._image

    async def stop(self) -> None:
        """Refuses new requests and lets those under way finish. The store is the caller's to close."""
        self._stopped = True
        while self._requests:
            await asyncio.wait(list(self._requests))

    async def register(self, broker: BrokerImage) -> None:
        """Registers this broker again, with other endpoints."""

        async def run() -> None:
            registered = await self._tree.register(broker)
            self._publish(self._image.with_brokers({**self._image.brokers, broker.id: registered}.values()))

        await self._exclusively(run())

    async def refresh(self) -> None:
        """Reads everything again and publishes it if it differs."""
        await self._exclusively(self._reload())

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicImage | Refusal]:
        """Creates each topic that may be; answers in the order of the request, the topic or why not."""

        def decide(image: ClusterImage, wanted: Sequence[NewTopic]) -> list[TopicCreated | Refusal]:
            return topic_decisions.create_topics(
                image,
                wanted,
                ids=[self._randomness.uuid() for _ in wanted],
                cursor=self._cursor,
                defaults=self._rules.defaults,
                rules=self._rules.topic_configs,
                known=self._tree.states,
            )

        answers = await self._change(topics, decide, validate_only)
        return [answer if isinstance(answer, Refusal) else answer.topic for answer in answers]

    async def delete_topics(self, refs: Sequence[TopicRef]) -> list[TopicImage | Refusal]:
        """Deletes each topic that is there; answers with what was deleted, or why not."""

        def decide(image: ClusterImage, wanted: Sequence[TopicRef]) -> list[TopicDeleted | Refusal]:
            return topic_decisions.delete_topics(image, wanted)

        answers = await self._change(refs, decide, validate_only=False)
        return [answer if isinstance(answer, Refusal) else answer.topic for answer in answers]

    async def create_partitions(
        self, requests: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> list[TopicImage | Refusal]:
        """Adds partitions to each topic that may have more; answers with the grown topic, or why not."""

        def decide(image: ClusterImage, wanted: Sequence[MorePartitions]) -> list[PartitionsChanged | Refusal]:
            return topic_decisions.create_partitions(image, wanted, cursor=self._cursor, known=self._tree.states)

        answers = await self._change(requests, decide, validate_only)
        return [answer if isinstance(answer, Refusal) else answer.topic for answer in answers]

    async def alter_configs(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        """Alters stored settings; answers None where it was done, or why not."""

        def decide(image: ClusterImage, wanted: Sequence[Alteration]) -> list[ConfigsChanged | Refusal]:
            rules = self._rules
            return alter_configs(image, wanted, topic_rules=rules.topic_configs, broker_rules=rules.broker_configs)

        answers = await self._change(alterations, decide, validate_only)
        return [answer if isinstance(answer, Refusal) else None for answer in answers]

    # ------------------------------------------------------------------------------------------- one request at a time

    async def _change(
        self,
        requests: Sequence[R],
        decide: Callable[[ClusterImage, Sequence[R]], Sequence[C | Refusal]],
        validate_only: bool,
    ) -> list[C | Refusal]:
        if self._stopped:
            return [Refusal(ErrorCode.NOT_CONTROLLER, "The controller is shutting down.")] * len(requests)
        if len(self._requests) >= MAX_WAITING_REQUESTS:
            message = f"{MAX_WAITING_REQUESTS} requests wait for the controller already."
            return [Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)] * len(requests)
        return await self._exclusively(self._decide_and_commit(requests, decide, validate_only))

    async def _exclusively(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs the work when its turn comes, to its end.

        The caller may be cancelled (its connection closed) between commit and publication; without the shield the
        store would have a topic that no image shows.
        """

        async def run() -> T:
            async with self._one_at_a_time:
                return await work

        task = asyncio.ensure_future(run())
        self._requests[task] = None
        task.add_done_callback(self._requests.pop)
        return await asyncio.shield(task)

    async def _decide_and_commit(
        self,
        requests: Sequence[R],
        decide: Callable[[ClusterImage, Sequence[R]], Sequence[C | Refusal]],
        validate_only: bool,
    ) -> list[C | Refusal]:
        """Answers each request. Refusals are final; what was accepted but met a conflict is decided again."""
        answers: dict[int, C | Refusal] = {}
        try:
            for _ in range(MAX_ATTEMPTS):
                if self._stale:
                    await self._reload()
                undecided = [index for index in range(len(requests)) if index not in answers]
                decided = decide(self._image, [requests[index] for index in undecided])
                accepted: list[tuple[int, C, list[Operation]]] = []
                for index, answer in zip(undecided, decided, strict=True):
                    if isinstance(answer, Refusal):
                        answers[index] = answer
                        continue
                    try:
                        accepted.append((index, answer, self._tree.operations(answer)))
                    except TooLarge as error:
                        answers[index] = Refusal(ErrorCode.POLICY_VIOLATION, f"The change is too large: {error}.")
                if validate_only:
                    answers.update({index: change for index, change, _ in accepted})
                elif not await self._commit(accepted, answers):
                    continue
                break
            refused = Refusal(ErrorCode.REQUEST_TIMED_OUT, "The metadata store changes too fast; try again.")
        except NotController as error:
            refused = Refusal(ErrorCode.NOT_CONTROLLER, f"Nothing was changed: {error}.")
        except StoreError as error:
            log.error("a metadata change failed: %s", error)
            refused = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata could not be changed: {error}.")
        return [answers.get(index, refused) for index in range(len(requests))]

    async def _commit(
        self, accepted: Sequence[tuple[int, C, list[Operation]]], answers: dict[int, C | Refusal]
    ) -> bool:
        """Stores and publishes, a group at a time, and answers those that were. False: a conflict, decide again."""
        for group in _groups(accepted):
            self._stale = True
            try:
                await self._tree.commit([operation for _, _, operations in group for operation in operations])
            except Conflict as conflict:
                log.info("the metadata store changed meanwhile, deciding again: %s", conflict)
                return False
            self._stale = False
            self._cursor += sum(_placed(change) for _, change, _ in group)
            answers.update({index: change for index, change, _ in group})
            self._publish(applied(self._image, [change for _, change, _ in group]))
        return True

    async def _reload(self) -> None:
        self._publish(await self._tree.load())
        self._stale = False

    def _publish(self, image: ClusterImage) -> None:
        if image == self._image:
            return  # the one that listeners know stays
        old, self._image = self._image, image
        for listener in list(self._listeners):
            try:
                listener(old, image)
            except Exception:
                log.exception("a listener failed on a new cluster image")


def _placed(change: Change) -> int:
    return len(change.topic.partitions) if isinstance(change, TopicCreated) else 0


def _groups(
    accepted: Sequence[tuple[int, C, list[Operation]]],
) -> Iterator[list[tuple[int, C, list[Operation]]]]:
    """The changes in order, as many at a time as one commit can carry."""
    group: list[tuple[int, C, list[Operation]]] = []
    size = 0
    for entry in accepted:
        entry_size = sum(len(operation.path) + len(getattr(operation, "value", b"")) for operation in entry[2])
        if group and (len(group) == MAX_CHANGES_PER_COMMIT or size + entry_size > MAX_BYTES_PER_COMMIT):
            yield group
            group, size = [], 0
        group.append(entry)
        size += entry_size
    if group:
        yield group
