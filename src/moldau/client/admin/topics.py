"""Topic calls of the admin client: create, delete, list and describe topics, and add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moldau.client import arguments
from moldau.client.admin.calls import Calls, Fixed
from moldau.client.admin.outcome import Answers, judged, settled
from moldau.client.data_types import NO_LEADER
from moldau.client.errors import MoldauError, UnsupportedByBroker, error_for
from moldau.client.network import ANY_NODE, CONTROLLER
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestAssignment,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
)
from moldau.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from moldau.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
)
from moldau.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopic,
    DescribeTopicPartitionsResponse,
)
from moldau.wire.messages.metadata import MetadataResponse
from moldau.wire.primitives import ZERO_UUID

MAX_REPLICAS = (1 << 15) - 1
BROKERS_CHOICE = -1
"""As a number of partitions or replicas: the default of the brokers."""


@dataclass(frozen=True)
class NewTopic:
    """A topic to create: its partitions and replication factor, or an explicit assignment, and its settings."""

    name: str
    partitions: int = BROKERS_CHOICE
    replication_factor: int = BROKERS_CHOICE
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] = ()
    """The broker ids of each partition's replicas, preferred leader first. They replace `partitions` and
    `replication_factor`."""


@dataclass(frozen=True)
class CreatedTopic:
    """A created topic."""

    name: str
    id: bytes
    partitions: int
    replication_factor: int
    configs: Mapping[str, str | None]
    """All settings of the topic, including defaults; empty without the permission to read them."""


@dataclass(frozen=True)
class NewPartitions:
    """The new total number of partitions of a topic, and the brokers of the new partitions."""

    total: int
    assignments: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class TopicListing:
    """A topic in the result of `list_topics`."""

    name: str
    id: bytes
    internal: bool
    partitions: int


@dataclass(frozen=True)
class PartitionDescription:
    """One partition: its leader, replicas and in-sync replicas."""

    index: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    """Replicas outside the ISR that may become leader without losing records; None if the broker does not report it."""
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True)
class TopicDescription:
    """A topic and its partitions, in the order of their indexes."""

    name: str
    id: bytes
    internal: bool
    partitions: tuple[PartitionDescription, ...]

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the first partition."""
        return len(self.partitions[0].replicas) if self.partitions else 0


# -- requests and responses --------------------------------------------------------------------------------------------


def create_request(topics: Iterable[NewTopic], timeout_ms: int, validate_only: bool) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreateTopicsRequestTopic(
                name=topic.name,
                num_partitions=BROKERS_CHOICE if topic.assignments else topic.partitions,
                replication_factor=BROKERS_CHOICE if topic.assignments else topic.replication_factor,
                assignments=[
                    CreateTopicsRequestAssignment(partition_index=index, broker_ids=list(brokers))
                    for index, brokers in enumerate(topic.assignments)
                ],
                configs=[
                    CreateTopicsRequestConfig(name=name, value=str(value)) for name, value in topic.configs.items()
                ],
            )
            for topic in topics
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )


def read_created(response: CreateTopicsResponse) -> Answers[str, CreatedTopic]:
    return {
        topic.name: judged(topic.error_code, f"creating topic '{topic.name}'", topic.error_message)
        or CreatedTopic(
            topic.name,
            topic.topic_id,
            topic.num_partitions,
            topic.replication_factor,
            {config.name: config.value for config in topic.configs or ()},
        )
        for topic in response.topics
    }


def delete_request(names: Sequence[str], timeout_ms: int) -> DeleteTopicsRequest:
    # Versions before 6 have the names in another field.
    return DeleteTopicsRequest(
        topics=[DeleteTopicsRequestTopic(name=name) for name in names], topic_names=list(names), timeout_ms=timeout_ms
    )


def read_deleted(response: DeleteTopicsResponse) -> Answers[str, None]:
    return {
        topic.name: judged(topic.error_code, f"deleting topic '{topic.name}'", topic.error_message)
        for topic in response.responses
        if topic.name is not None
    }


def grow_request(topics: Mapping[str, NewPartitions], timeout_ms: int, validate_only: bool) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsRequestTopic(
                name=name,
                count=new.total,
                assignments=[CreatePartitionsRequestAssignment(broker_ids=list(ids)) for ids in new.assignments]
                if new.assignments
                else None,
            )
            for name, new in topics.items()
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )


def read_grown(response: CreatePartitionsResponse) -> Answers[str, None]:
    return {
        topic.name: judged(topic.error_code, f"adding partitions to topic '{topic.name}'", topic.error_message)
        for topic in response.results
    }


def read_listing(response: MetadataResponse, include_internal: bool) -> list[TopicListing]:
    return sorted(
        (
            TopicListing(topic.name, topic.topic_id, topic.is_internal, len(topic.partitions))
            for topic in response.topics
            if topic.name is not None and not topic.error_code and (include_internal or not topic.is_internal)
        ),
        key=lambda topic: topic.name,
    )


def read_metadata(response: MetadataResponse) -> Answers[str, TopicDescription]:
    """Read topics from a Metadata response, for brokers without DescribeTopicPartitions."""
    return {
        topic.name: judged(topic.error_code, f"describing topic '{topic.name}'")
        or TopicDescription(
            topic.name,
            topic.topic_id,
            topic.is_internal,
            tuple(_partition(one) for one in sorted(topic.partitions, key=lambda one: one.partition_index)),
        )
        for topic in response.topics
        if topic.name is not None
    }


def _partition(one: Any) -> PartitionDescription:
    """Read a partition of a Metadata or DescribeTopicPartitions response; the latter has more fields."""
    eligible, last_known = getattr(one, "eligible_leader_replicas", None), getattr(one, "last_known_elr", None)
    has_eligible = hasattr(one, "eligible_leader_replicas")
    return PartitionDescription(
        one.partition_index,
        None if one.leader_id == NO_LEADER else one.leader_id,
        one.leader_epoch,
        tuple(one.replica_nodes),
        tuple(one.isr_nodes),
        tuple(one.offline_replicas),
        tuple(eligible or ()) if has_eligible else None,
        tuple(last_known or ()) if has_eligible else None,
    )


class DescribedPages:
    """The combined pages of DescribeTopicPartitions: each page of a long result has a cursor to the next."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = sorted(names)  # brokers answer in this order, and cursors refer to it
        self._heads: dict[str, tuple[bytes, bool]] = {}
        self._partitions: dict[str, list[PartitionDescription]] = {}
        self._errors: dict[str, MoldauError] = {}
        self._cursor: DescribeTopicPartitionsRequestCursor | None = None
        self.complete = False

    def request(self) -> DescribeTopicPartitionsRequest:
        start = 0 if self._cursor is None else self._names.index(self._cursor.topic_name)
        return DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequestTopic(name=name) for name in self._names[start:]], cursor=self._cursor
        )

    def add(self, response: DescribeTopicPartitionsResponse) -> None:
        for topic in response.topics:
            if topic.name is None:
                continue
            error = judged(topic.error_code, f"describing topic '{topic.name}'")
            if error is not None:
                self._errors[topic.name] = error
                continue
            self._heads[topic.name] = (topic.topic_id, topic.is_internal)
            self._partitions.setdefault(topic.name, []).extend(_partition(one) for one in topic.partitions)
        following = response.next_cursor
        if following is None or following.topic_name not in self._names:
            self.complete = True
            return
        cursor = DescribeTopicPartitionsRequestCursor(
            topic_name=following.topic_name, partition_index=following.partition_index
        )
        if cursor == self._cursor:
            raise error_for(ErrorCode.UNKNOWN_SERVER_ERROR, "describing topics", "the broker repeats the same page")
        self._cursor = cursor

    def answers(self) -> Answers[str, TopicDescription]:
        found: Answers[str, TopicDescription] = dict(self._errors)
        for name, (topic_id, internal) in self._heads.items():
            partitions = sorted(self._partitions[name], key=lambda one: one.index)
            found[name] = TopicDescription(name, topic_id, internal, tuple(partitions))
        return found


# -- calls -------------------------------------------------------------------------------------------------------------


class TopicCalls(Calls):
    """Admin calls about topics."""

    async def create_topics(
        self,
        topics: str | NewTopic | Iterable[str | NewTopic],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, CreatedTopic]:
        """Create topics and return them as created.

        A name alone uses the defaults of the brokers. With `validate_only` the broker checks the request and creates
        nothing. Raises for example TopicAlreadyExists, InvalidTopic, InvalidReplicationFactor or InvalidConfig.
        """
        wanted = {topic.name: topic for topic in _new_topics(topics)}
        deadline = self._deadline(timeout)
        return settled(
            await self._each(
                wanted,
                Fixed[str](CONTROLLER),
                lambda names: create_request(
                    (wanted[name] for name in names), self._broker_timeout_ms(deadline), validate_only
                ),
                lambda response, _names: read_created(response),
                deadline=deadline,
                what="creating topic",
            )
        )

    async def delete_topics(self, topics: str | Iterable[str], *, timeout: float | None = None) -> None:
        """Delete topics with all their records. This cannot be undone.

        Raises UnknownTopicOrPartition if a topic does not exist.
        """
        deadline = self._deadline(timeout)
        settled(
            await self._each(
                arguments.texts("topics", topics),
                Fixed[str](CONTROLLER),
                lambda names: delete_request(names, self._broker_timeout_ms(deadline)),
                lambda response, _names: read_deleted(response),
                deadline=deadline,
                what="deleting topic",
            )
        )

    async def create_partitions(
        self,
        totals: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Add partitions to topics: `totals` has the new total number per topic.

        The partition of a key may change by this. With `validate_only` nothing is changed. Raises InvalidPartitions if
        the total is not larger than the current number.
        """
        wanted = arguments.mapping("totals", totals, arguments.text, _new_partitions)
        deadline = self._deadline(timeout)
        settled(
            await self._each(
                wanted,
                Fixed[str](CONTROLLER),
                lambda names: grow_request(
                    {name: wanted[name] for name in names}, self._broker_timeout_ms(deadline), validate_only
                ),
                lambda response, _names: read_grown(response),
                deadline=deadline,
                what="adding partitions to topic",
            )
        )

    async def list_topics(self, *, include_internal: bool = False, timeout: float | None = None) -> list[TopicListing]:
        """Return all topics that the client may see, sorted by name.

        Internal topics such as `__consumer_offsets` are left out, unless `include_internal` is set.
        """
        deadline = self._deadline(timeout)
        network = await self._ready()
        response = await network.retrying(
            lambda: self._metadata(None, deadline), deadline=deadline, what="listing topics"
        )
        return read_listing(response, include_internal)

    async def describe_topics(
        self, topics: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """Return topics with the leader, replicas and in-sync replicas of each partition."""
        names = arguments.texts("topics", topics)
        if not names:
            return {}
        deadline = self._deadline(timeout)
        network = await self._ready()

        async def attempt() -> Answers[str, TopicDescription]:
            pages = DescribedPages(names)
            while not pages.complete:
                pages.add(await network.call(ANY_NODE, pages.request(), deadline=deadline, what="describing topics"))
            return pages.answers()

        async def attempt_by_metadata() -> Answers[str, TopicDescription]:
            return read_metadata(await self._metadata(names, deadline))

        try:
            found = await network.retrying(attempt, deadline=deadline, what="describing topics")
        except UnsupportedByBroker:
            found = await network.retrying(attempt_by_metadata, deadline=deadline, what="describing topics")
        return settled({name: found.get(name) or _missing(name) for name in names})


def _new_topics(topics: str | NewTopic | Iterable[str | NewTopic]) -> list[NewTopic]:
    given = [topics] if isinstance(topics, str | NewTopic) else topics
    return arguments.several("topics", given, _new_topic, 'names or NewTopic objects, such as NewTopic("orders", 3)')


def _new_topic(name: str, given: str | NewTopic) -> NewTopic:
    new = NewTopic(given) if isinstance(given, str) else given
    arguments.instance(name, new, NewTopic, 'NewTopic("orders", partitions=3)')
    of = f"topic {new.name!r}"
    arguments.text(f"name of {of}", new.name)
    arguments.number(f"partitions of {of}", new.partitions, BROKERS_CHOICE, arguments.MAX_INT32)
    arguments.number(f"replication_factor of {of}", new.replication_factor, BROKERS_CHOICE, MAX_REPLICAS)
    arguments.mapping(f"configs of {of}", new.configs, arguments.text, lambda _name, value: value)
    _check_assignments(f"assignments of {of}", new.assignments)
    return new


def _new_partitions(name: str, given: int | NewPartitions) -> NewPartitions:
    new = given if isinstance(given, NewPartitions) else NewPartitions(arguments.number(name, given))
    arguments.number(name, new.total, 1, arguments.MAX_INT32)
    _check_assignments(f"assignments of {name}", new.assignments)
    return new


def _check_assignments(name: str, assignments: Sequence[Sequence[int]]) -> None:
    arguments.several(name, assignments, broker_ids, "for each partition a list of broker ids")


def broker_ids(name: str, given: Sequence[int]) -> list[int]:
    """Check the broker ids of a partition's replicas."""
    return arguments.several(name, given, broker_id, "a list of broker ids")


def broker_id(name: str, given: int) -> int:
    return arguments.number(name, given, -arguments.MAX_INT32, arguments.MAX_INT32)


def _missing(name: str) -> MoldauError:
    return error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"describing topic '{name}'")


def topic_id_text(topic_id: bytes) -> str:
    """Return a topic id as text, in the form that Kafka uses."""
    import base64

    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=") if topic_id != ZERO_UUID else "-"
