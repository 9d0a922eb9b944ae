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

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from moldau.cluster import elections, isr, reassignments
from moldau.cluster import topics as topic_decisions
from moldau.cluster.changes import TopicChange
from moldau.cluster.configs import Alteration, ConfigRules, alter_configs
from moldau.cluster.controller import Controller, ControllerRules, Rebalance
from moldau.cluster.drafts import Drafts
from moldau.cluster.elections import ElectionKind
from moldau.cluster.image import BrokerImage, ClusterImage, PartitionState, TopicImage
from moldau.cluster.isr import IsrProposal
from moldau.cluster.membership import EVERYTHING, Membership, Partitions, StandingListener
from moldau.cluster.nodes import BrokerNode, IncarnationNode
from moldau.cluster.reassignments import Reassignment
from moldau.cluster.refusal import Refusal
from moldau.cluster.store import Check, OpenStore, Store, StoreError
from moldau.cluster.topics import MorePartitions, NewTopic, TopicDefaults, TopicRef
from moldau.cluster.view import Decide, Listener, Step, TooBusy, Verdict, View
from moldau.host.clock import Randomness
from moldau.wire.errors import ErrorCode

log = logging.getLogger(__name__)

MAX_WAITING_REQUESTS: Final = 1_000

R = TypeVar("R")
A = TypeVar("A")


class MetadataRules(NamedTuple):
    """What the decisions take from the broker's settings."""

    defaults: TopicDefaults
    topic_configs: ConfigRules
    broker_configs: ConfigRules
    min_insync_replicas: Callable[[TopicImage], int] = lambda _topic: 1
    unclean_election: Callable[[TopicImage], bool] = lambda _topic: False
    rebalance: Callable[[], Rebalance] = Rebalance


class Metadata:
    """One broker's part in the cluster's metadata: its session, its image, its requests."""

    def __init__(self, node_id: int, open_store: OpenStore, randomness: Randomness, rules: MetadataRules) -> None:
        self.node_id: Final = node_id
        self._randomness = randomness
        self._rules = rules
        self._view = View(randomness)
        self._membership = Membership(node_id, open_store, randomness, self._view, rules.min_insync_replicas)
        duties = ControllerRules(rules.min_insync_replicas, rules.unclean_election, rules.rebalance)
        self._controller = Controller(self._view, duties)
        self._stopped = False
        self._waiting = 0

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self._view.image

    @property
    def store(self) -> Store:
        """The current session."""
        assert self._membership.store is not None
        return self._membership.store

    @property
    def broker_epoch(self) -> int:
        """Of this life of this broker; -1 until it is registered."""
        return self._membership.broker_epoch

    @property
    def in_good_standing(self) -> bool:
        """Whether this broker is registered, and its session not lost."""
        return self._membership.in_good_standing

    @property
    def in_touch(self) -> bool:
        """Whether nobody can have taken this broker for dead, as far as its last answer from the store says."""
        return self._membership.in_touch

    @property
    def leads_cluster(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._membership.in_good_standing and self._view.tree.claim is not None

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Has `listener(old, new)` called for each new image, in the order of joining; returns the end of it.

        A listener must not raise; if it does, the others are still called, and the fault is logged.
        """
        return self._view.listen(listener)

    def on_standing(self, listener: StandingListener) -> Callable[[], None]:
        """Has `listener(False)` called when this broker's session is lost, and it must stop leading at once, and
        `listener(True)` when it is registered, also again; returns the end of it."""
        return self._membership.on_standing(listener)

    # -- life ------------------------------------------------------------------------------------------------------

    async def open(self, cluster_id: str | None = None) -> ClusterImage:
        """Opens a session and reads everything; this broker is not registered yet.

        `cluster_id` is the one that the log directories remember, if they do: a new store takes it over, another
        cluster's store is a StoreError.
        """
        await self._membership.open(cluster_id)
        return self.image

    async def register(self, broker: BrokerImage, lost: Partitions = ()) -> None:
        """Makes this broker known as alive, with a new epoch; it is the controller if there is none.

        `lost` are the partitions of which the end may be lost: it leaves their ISR before it is alive again.
        """
        await self._membership.register(broker, lost)

    async def stop(self) -> None:
        """Refuses new requests and lets those under way finish. The session goes on until `close`."""
        self._stopped = True
        await self._view.drain()

    async def close(self) -> None:
        """Ends the session, and with it this broker's registration. Nothing is waited for."""
        self._stopped = True
        await self._controller.close()
        await self._view.close()
        await self._membership.close()

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
                cursor=_cursor(image),
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
            return _one_step_each(topic_decisions.create_partitions(image, wanted, cursor=_cursor(image), known=states))

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

    # -- partitions ------------------------------------------------------------------------------------------------

    async def change_isr(self, proposals: Sequence[IsrProposal]) -> list[PartitionState | Refusal]:
        """The states that came of what this broker, as leader, proposed; or why not.

        Raises StoreError where nobody knows what became of some: the image will tell.
        """

        def decide(image: ClusterImage, wanted: Sequence[IsrProposal]) -> Verdict[PartitionState]:
            drafts = Drafts(image)
            answers: list[PartitionState | Refusal] = []
            for place, proposal in enumerate(wanted):
                topic = image.topics.get(proposal.topic)
                min_isr = 1 if topic is None else self._rules.min_insync_replicas(topic)
                answer = isr.proposed(image, proposal, proposer=self.node_id, min_isr=min_isr)
                if (proposal.topic, proposal.index) in drafts:
                    answer = Refusal(ErrorCode.INVALID_REQUEST, "One proposal a partition at a time.")
                answers.append(answer)
                if topic is None or isinstance(answer, Refusal) or answer is topic.partitions[proposal.index]:
                    continue
                checks = [
                    check
                    for comer in isr.comers(topic, proposal)
                    for check in (
                        Check(IncarnationNode.path(comer), proposal.epochs[comer]),
                        Check(BrokerNode.path(comer)),
                    )
                ]
                drafts.put(proposal.topic, proposal.index, answer, place, checks)
            return Verdict(answers, drafts.steps())

        answers: dict[int, PartitionState | Refusal] = {}
        await self._view.decide(proposals, decide, answers)
        return [answers[place] for place in range(len(proposals))]

    async def resign(self, partitions: Partitions, *, leave_isr: bool = True) -> None:
        """Hands over what this broker leads of these partitions, and leaves their ISRs, wherever another one can take
        its place. Raises StoreError where that may not have happened."""
        wanted = partitions if partitions is EVERYTHING else frozenset(partitions)

        def decide(image: ClusterImage, _: Sequence[None]) -> Verdict[None]:
            drafts = Drafts(image)
            for topic in image.topics.values():
                min_isr = self._rules.min_insync_replicas(topic)
                for index, state in enumerate(topic.partitions):
                    if wanted is EVERYTHING or (topic.name, index) in wanted:
                        after = elections.resigned(state, self.node_id, image.brokers, min_isr, leave_isr=leave_isr)
                        if after is not state:
                            drafts.put(topic.name, index, after)
            return Verdict([], drafts.steps())

        await self._view.decide((), decide, {})

    async def elect_leaders(
        self, kind: ElectionKind, partitions: Sequence[tuple[str, int]] | None
    ) -> list[tuple[str, int, Refusal | None]]:
        """Elects as an operator asks; None stands for all partitions, and then those that need none are left out."""
        named = partitions if partitions is not None else self._all_partitions()

        def decide(image: ClusterImage, wanted: Sequence[tuple[str, int]]) -> Verdict[None]:
            def min_isr(topic: str) -> int:
                return self._rules.min_insync_replicas(image.topics[topic])

            return _partition_verdict(
                image, wanted, wanted, lambda one: elections.asked_for(image, one[0], one[1], kind, min_isr)
            )

        answers = await self._answers(named, decide)
        return [
            (topic, index, answer)
            for (topic, index), answer in zip(named, answers, strict=True)
            if partitions is not None or answer is None or answer.code != ErrorCode.ELECTION_NOT_NEEDED
        ]

    def _all_partitions(self) -> list[tuple[str, int]]:
        return [(topic.name, index) for topic in self.image.topics.values() for index in range(len(topic.partitions))]

    async def reassign(self, wanted: Sequence[Reassignment]) -> list[Refusal | None]:
        """Begins, changes or takes back reassignments; answers None where it was done, or why not."""

        def decide(image: ClusterImage, some: Sequence[Reassignment]) -> Verdict[None]:
            def one(reassignment: Reassignment) -> PartitionState | Refusal:
                topic = image.topics.get(reassignment.topic)
                min_isr = 1 if topic is None else self._rules.min_insync_replicas(topic)
                return reassignments.reassigned(image, reassignment, min_isr)

            return _partition_verdict(image, some, [(each.topic, each.index) for each in some], one)

        return await self._answers(wanted, decide)

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


def _cursor(image: ClusterImage) -> int:
    """Where placement goes on: the same place for all brokers that see the same, each time a topic further."""
    return sum(len(topic.partitions) for topic in image.topics.values())


def _one_step_each(decided: Sequence[TopicChange | Refusal]) -> Verdict[TopicImage]:
    """Each request is carried out by a change of its own, and answered with the topic."""
    return Verdict(
        [answer if isinstance(answer, Refusal) else answer.topic for answer in decided],
        [Step(answer, (at,)) for at, answer in enumerate(decided) if not isinstance(answer, Refusal)],
    )


def _partition_verdict(
    image: ClusterImage,
    wanted: Sequence[R],
    partitions: Sequence[tuple[str, int]],
    decide: Callable[[R], PartitionState | Refusal],
) -> Verdict[None]:
    """Requests that concern a partition each; one that names the same partition again is refused."""
    drafts = Drafts(image)
    answers: list[Refusal | None] = []
    for place, (request, (name, index)) in enumerate(zip(wanted, partitions, strict=True)):
        answer = decide(request)
        if isinstance(answer, Refusal):
            answers.append(answer)
        elif (name, index) in drafts:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, f"Partition {name}-{index} is named more than once."))
        else:
            answers.append(None)
            if answer is not image.partition(name, index):
                drafts.put(name, index, answer, place)
    return Verdict(answers, drafts.steps())
