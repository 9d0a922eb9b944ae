"""Cluster metadata of one broker: reads the image, carries out requests, notifies listeners.

Every broker has one. Pure functions decide requests (topics, settings, partitions) from the broker's image, and the
broker commits the result itself, with the expected versions. No request is forwarded to another broker. Elections after
brokers join or leave need no request; the controller does them. The controller is the first broker that claims the
role.

A change is published only after it is stored. So everything that a client was told is on disk, and the work that
follows on the brokers (creating and deleting logs) can be repeated:

- A topic is stored before any of its logs exists. A crash in between leaves partitions without a log; the broker
  creates the missing logs when it starts.
- A deletion is stored before any log is deleted. A crash in between leaves logs whose topic id is unknown; the broker
  reports them and does not touch them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from moldau.cluster import elections, isr, reassignments
from moldau.cluster import topics as topic_decisions
from moldau.cluster.changes import TopicChange
from moldau.cluster.configs import Alteration, ConfigRules, alter_configs
from moldau.cluster.controller import Controller, ControllerRules, Rebalance
from moldau.cluster.elections import ElectionKind
from moldau.cluster.errors import Refusal
from moldau.cluster.image import NO_CONTROLLER, BrokerImage, ClusterImage, PartitionState, TopicImage
from moldau.cluster.image_publisher import Decide, ImagePublisher, Listener, MetadataDecision, Step, TooBusy
from moldau.cluster.isr import IsrProposal
from moldau.cluster.membership import EVERYTHING, BrokerMembership, Partitions, RegistrationListener
from moldau.cluster.nodes import BrokerNode, ControllerEpochNode, ControllerNode, IncarnationNode
from moldau.cluster.partition_updates import PartitionUpdates
from moldau.cluster.reassignments import Reassignment
from moldau.cluster.security_requests import SecurityRequests
from moldau.cluster.store import Check, OpenStore, Store, StoreError
from moldau.cluster.topics import MorePartitions, TopicCreation, TopicDefaults, TopicRef
from moldau.host.clock import Randomness
from moldau.host.event_log import event_logger
from moldau.wire.errors import ErrorCode
from moldau.wire.topic_partition import TopicPartition

log = event_logger(__name__)

MAX_WAITING_REQUESTS: Final = 1_000

R = TypeVar("R")
A = TypeVar("A")


class MetadataRules(NamedTuple):
    """The broker settings that decisions depend on."""

    defaults: TopicDefaults
    topic_configs: ConfigRules
    broker_configs: ConfigRules
    group_configs: ConfigRules
    min_insync_replicas: Callable[[TopicImage], int] = lambda _topic: 1
    unclean_election: Callable[[TopicImage], bool] = lambda _topic: False
    rebalance: Callable[[], Rebalance] = Rebalance


class Metadata:
    """One broker's access to the cluster metadata: its session, its image, its requests."""

    def __init__(self, node_id: int, open_store: OpenStore, randomness: Randomness, rules: MetadataRules) -> None:
        self.node_id: Final = node_id
        self._randomness = randomness
        self._rules = rules
        self._view = ImagePublisher(randomness)
        self._membership = BrokerMembership(node_id, open_store, randomness, self._view, rules.min_insync_replicas)
        duties = ControllerRules(rules.min_insync_replicas, rules.unclean_election, rules.rebalance)
        self._controller = Controller(self._view, duties)
        self.security: Final = SecurityRequests(self._current_answers, randomness)
        """Requests about rules, credentials, quotas and delegation tokens."""
        self._stopped = False
        self._waiting = 0

    @property
    def image(self) -> ClusterImage:
        """The current image of the cluster."""
        return self._view.image

    @property
    def store(self) -> Store:
        """The current session."""
        assert self._membership.store is not None
        return self._membership.store

    @property
    def broker_epoch(self) -> int:
        """The epoch of this incarnation of the broker; -1 until it is registered."""
        return self._membership.broker_epoch

    @property
    def registered(self) -> bool:
        """Whether this broker is registered and its session is not lost."""
        return self._membership.registered

    @property
    def in_touch(self) -> bool:
        """Whether no other broker can consider this broker dead yet, judged by the store's last answer."""
        return self._membership.in_touch

    @property
    def leads_cluster(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._membership.registered and self._view.tree.claim is not None

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(old, new)` for each new image, in the order of registration. Returns a function that removes
        it.

        A listener must not raise; if it does, the others are still called, and the error is logged.
        """
        return self._view.listen(listener)

    def on_registration(self, listener: RegistrationListener) -> Callable[[], None]:
        """Call `listener(False)` when this broker's session is lost and it must stop leading at once, and
        `listener(True)` after each registration. Returns a function that removes the listener."""
        return self._membership.on_registration(listener)

    # -- lifecycle -------------------------------------------------------------------------------------------------

    async def open(self, cluster_id: str | None = None) -> ClusterImage:
        """Open a session and read all metadata. This does not register the broker.

        `cluster_id` is the id in the log directories, if they have one. A new store adopts it; the store of another
        cluster raises StoreError.
        """
        await self._membership.open(cluster_id)
        return self.image

    async def register(self, broker: BrokerImage, lost: Partitions = ()) -> None:
        """Register this broker as alive, with a new epoch. It becomes the controller if there is none.

        `lost` are the partitions whose last records may be lost. The broker leaves their ISRs before it is registered.
        """
        await self._membership.register(broker, lost)

    async def stop(self) -> None:
        """Refuse new requests and wait for those in progress. The session stays open until `close`."""
        self._stopped = True
        await self._view.drain()

    async def close(self) -> None:
        """End the session, and with it this broker's registration. Requests in progress are cancelled."""
        self._stopped = True
        await self._controller.close()
        await self._view.close()
        await self._membership.close()

    async def refresh(self) -> None:
        """Read all metadata again and publish it if it differs."""
        await self._view.reload()

    # -- requests --------------------------------------------------------------------------------------------------

    async def create_topics(
        self, topics: Sequence[TopicCreation], *, validate_only: bool = False
    ) -> list[TopicImage | Refusal]:
        """Create the topics that are valid. The answers are in the order of the request: the topic or a refusal."""

        def decide(image: ClusterImage, wanted: Sequence[TopicCreation]) -> MetadataDecision[TopicImage]:
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
        """Delete the topics that exist. Each answer is the deleted topic or a refusal."""

        def decide(image: ClusterImage, wanted: Sequence[TopicRef]) -> MetadataDecision[TopicImage]:
            return _one_step_each(topic_decisions.delete_topics(image, wanted))

        return await self._answers(refs, decide)

    async def create_partitions(
        self, requests: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> list[TopicImage | Refusal]:
        """Add partitions to topics. Each answer is the topic with its new partitions or a refusal."""

        def decide(image: ClusterImage, wanted: Sequence[MorePartitions]) -> MetadataDecision[TopicImage]:
            states = self._view.tree.states
            return _one_step_each(topic_decisions.create_partitions(image, wanted, cursor=_cursor(image), known=states))

        return await self._answers(requests, decide, validate_only)

    async def alter_configs(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        """Alter stored settings. Each answer is None on success or a refusal."""

        def decide(image: ClusterImage, wanted: Sequence[Alteration]) -> MetadataDecision[None]:
            rules = self._rules
            decided = alter_configs(
                image,
                wanted,
                topic_rules=rules.topic_configs,
                broker_rules=rules.broker_configs,
                group_rules=rules.group_configs,
            )
            return MetadataDecision(
                [answer if isinstance(answer, Refusal) else None for answer in decided],
                [Step(answer, (at,)) for at, answer in enumerate(decided) if not isinstance(answer, Refusal)],
            )

        return await self._answers(alterations, decide, validate_only)

    # -- the controller ----------------------------------------------------------------------------------------------

    async def controller(self) -> tuple[int, int]:
        """The broker that is the controller, and how many controllers there have been: its epoch.

        (NO_CONTROLLER, -1) while there is none, or the store does not answer.
        """
        try:
            who, epoch = await self._view.tree.store.get_each([ControllerNode.path, ControllerEpochNode.path])
        except StoreError:
            return NO_CONTROLLER, -1
        if who is None or epoch is None:
            return NO_CONTROLLER, -1
        return ControllerNode.decode(who.value), ControllerEpochNode.decode(epoch.value)

    # -- partitions ------------------------------------------------------------------------------------------------

    async def change_isr(self, proposals: Sequence[IsrProposal]) -> list[PartitionState | Refusal]:
        """Commit the ISRs that this broker proposes as leader. Each answer is the new state or a refusal.

        Raises StoreError if it is unknown whether some were stored; the next image will show it.
        """

        def decide(image: ClusterImage, wanted: Sequence[IsrProposal]) -> MetadataDecision[PartitionState]:
            drafts = PartitionUpdates(image)
            answers: list[PartitionState | Refusal] = []
            for place, proposal in enumerate(wanted):
                topic = image.topics.get(proposal.topic)
                min_isr = 1 if topic is None else self._rules.min_insync_replicas(topic)
                answer = isr.proposed(image, proposal, proposer=self.node_id, min_isr=min_isr)
                if TopicPartition(proposal.topic, proposal.index) in drafts:
                    answer = Refusal(ErrorCode.INVALID_REQUEST, "Only one ISR proposal per partition and request.")
                answers.append(answer)
                if topic is None or isinstance(answer, Refusal) or answer is topic.partitions[proposal.index]:
                    continue
                checks = [
                    check
                    for replica in isr.added_replicas(topic, proposal)
                    for check in (
                        Check(IncarnationNode.path(replica), proposal.epochs[replica]),
                        Check(BrokerNode.path(replica)),
                    )
                ]
                drafts.put(proposal.topic, proposal.index, answer, place, checks)
            return MetadataDecision(answers, drafts.steps())

        answers: dict[int, PartitionState | Refusal] = {}
        await self._view.decide(proposals, decide, answers)
        return [answers[place] for place in range(len(proposals))]

    async def resign(self, partitions: Partitions, *, leave_isr: bool = True) -> None:
        """Hand over the leadership of these partitions and leave their ISRs, wherever another broker can take over.
        Raises StoreError if that may not have happened."""
        wanted = partitions if partitions is EVERYTHING else frozenset(partitions)

        def decide(image: ClusterImage, _: Sequence[None]) -> MetadataDecision[None]:
            drafts = PartitionUpdates(image)
            for topic in image.topics.values():
                min_isr = self._rules.min_insync_replicas(topic)
                for index, state in enumerate(topic.partitions):
                    if wanted is EVERYTHING or (topic.name, index) in wanted:
                        after = elections.resigned(state, self.node_id, image.brokers, min_isr, leave_isr=leave_isr)
                        if after is not state:
                            drafts.put(topic.name, index, after)
            return MetadataDecision([], drafts.steps())

        await self._view.decide((), decide, {})

    async def elect_leaders(
        self, kind: ElectionKind, partitions: Sequence[TopicPartition] | None
    ) -> list[tuple[str, int, Refusal | None]]:
        """Elect leaders for an operator. None means all partitions; then those that need no election are left out."""
        named = partitions if partitions is not None else self._all_partitions()

        def decide(image: ClusterImage, wanted: Sequence[TopicPartition]) -> MetadataDecision[None]:
            def min_isr(topic: str) -> int:
                return self._rules.min_insync_replicas(image.topics[topic])

            return _partition_verdict(
                image, wanted, wanted, lambda one: elections.requested(image, one[0], one[1], kind, min_isr)
            )

        answers = await self._answers(named, decide)
        return [
            (topic, index, answer)
            for (topic, index), answer in zip(named, answers, strict=True)
            if partitions is not None or answer is None or answer.code != ErrorCode.ELECTION_NOT_NEEDED
        ]

    def _all_partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic.name, index)
            for topic in self.image.topics.values()
            for index in range(len(topic.partitions))
        ]

    async def reassign(self, wanted: Sequence[Reassignment]) -> list[Refusal | None]:
        """Begin, change or cancel reassignments. Each answer is None on success or a refusal."""

        def decide(image: ClusterImage, some: Sequence[Reassignment]) -> MetadataDecision[None]:
            def one(reassignment: Reassignment) -> PartitionState | Refusal:
                topic = image.topics.get(reassignment.topic)
                min_isr = 1 if topic is None else self._rules.min_insync_replicas(topic)
                return reassignments.reassigned(image, reassignment, min_isr)

            return _partition_verdict(image, some, [TopicPartition(each.topic, each.index) for each in some], one)

        return await self._answers(wanted, decide)

    async def _current_answers(
        self, requests: Sequence[R], decide: Decide[R, A], validate_only: bool = False
    ) -> list[A | Refusal]:
        """Decide by an image that has every commit that was acknowledged before.

        A client removes a rule at one broker and adds it again at another, whose image still has it. Without this, the
        second broker would answer that the rule exists, and nobody would have the right.
        """
        return await self._answers(requests, decide, validate_only, current=True)

    async def _answers(
        self, requests: Sequence[R], decide: Decide[R, A], validate_only: bool = False, *, current: bool = False
    ) -> list[A | Refusal]:
        """Decide and commit, and turn every failure into a refusal."""
        if self._stopped:
            return [Refusal(ErrorCode.NOT_CONTROLLER, "The broker is shutting down.")] * len(requests)
        if self._waiting >= MAX_WAITING_REQUESTS:
            message = f"{MAX_WAITING_REQUESTS} requests already wait for the metadata; try again later."
            return [Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)] * len(requests)
        answers: dict[int, A | Refusal] = {}
        refused = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "The request was not decided.")
        self._waiting += 1
        try:
            await self._view.decide(requests, decide, answers, validate_only=validate_only, current=current)
        except TooBusy as error:
            refused = Refusal(ErrorCode.REQUEST_TIMED_OUT, f"Nothing was changed: {error}.")
        except StoreError as error:
            log.error("metadata change failed", extra={"reason": str(error)})
            refused = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata could not be changed: {error}.")
        finally:
            self._waiting -= 1
        return [answers.get(place, refused) for place in range(len(requests))]


def _cursor(image: ClusterImage) -> int:
    """The start of placement: the number of existing partitions, so brokers with the same image agree, and it advances
    with each topic."""
    return sum(len(topic.partitions) for topic in image.topics.values())


def _one_step_each(decided: Sequence[TopicChange | Refusal]) -> MetadataDecision[TopicImage]:
    """One change per request, answered with the topic."""
    return MetadataDecision(
        [answer if isinstance(answer, Refusal) else answer.topic for answer in decided],
        [Step(answer, (at,)) for at, answer in enumerate(decided) if not isinstance(answer, Refusal)],
    )


def _partition_verdict(
    image: ClusterImage,
    wanted: Sequence[R],
    partitions: Sequence[TopicPartition],
    decide: Callable[[R], PartitionState | Refusal],
) -> MetadataDecision[None]:
    """Decide requests for one partition each. A request that names the same partition again is refused."""
    drafts = PartitionUpdates(image)
    answers: list[Refusal | None] = []
    for place, (request, partition) in enumerate(zip(wanted, partitions, strict=True)):
        name, index = partition
        answer = decide(request)
        if isinstance(answer, Refusal):
            answers.append(answer)
        elif partition in drafts:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, f"Partition {partition} is named more than once."))
        else:
            answers.append(None)
            if answer is not image.partition(name, index):
                drafts.put(name, index, answer, place)
    return MetadataDecision(answers, drafts.steps())
