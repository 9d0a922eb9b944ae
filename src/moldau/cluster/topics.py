"""Topic decisions: creation, deletion and growth of topics. Pure functions of an image.

Each request is answered by a change, or by a refusal with Kafka's error code for that case. A whole request is decided
at once, because some answers (the same name twice, too many partitions) depend on all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from moldau.cluster.changes import PartitionsChanged, TopicCreated, TopicDeleted
from moldau.cluster.configs import ConfigRules, creation_configs
from moldau.cluster.errors import Refusal
from moldau.cluster.image import EMPTY, BrokerImage, ClusterImage, PartitionState, PartitionStates, TopicImage
from moldau.cluster.nodes import id_text
from moldau.cluster.placement import continued, place, ring
from moldau.cluster.topic_names import CLUSTER_METADATA, collision_key, topic_name_error
from moldau.wire.errors import ErrorCode
from moldau.wire.number_types import LeaderEpoch, PartitionEpoch

# Kafka's own limit for one request.
MAX_PARTITIONS_PER_REQUEST: Final = 10_000

DEFAULT: Final = -1  # in a request: use the broker's setting
NO_ID: Final = bytes(16)

Assignment = tuple[int, ...]


class TopicCreation(NamedTuple):
    """A topic to create. `assignments` are (partition index, broker ids); with them, both numbers must be DEFAULT.

    `topic_id` is for topics whose data already exists; others get a new id.
    """

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: tuple[tuple[int, Assignment], ...] = ()
    configs: Mapping[str, str | None] = EMPTY
    topic_id: bytes | None = None


class TopicRef(NamedTuple):
    """A topic to delete, by name or by id."""

    name: str | None = None
    topic_id: bytes = NO_ID


class MorePartitions(NamedTuple):
    """A topic to grow to `total` partitions. `assignments` has the broker ids of each new partition; None: place
    them."""

    name: str
    total: int
    assignments: tuple[Assignment, ...] | None = None


class TopicDefaults(NamedTuple):
    """The values for -1 in a request (`num.partitions`, `default.replication.factor`)."""

    num_partitions: int = 1
    replication_factor: int = 1


# ----------------------------------------------------------------------------------------------------------- creation -


def create_topics(
    image: ClusterImage,
    topics: Sequence[TopicCreation],
    *,
    ids: Sequence[bytes],
    cursor: int,
    defaults: TopicDefaults,
    rules: ConfigRules,
    known: PartitionStates,
) -> list[TopicCreated | Refusal]:
    """Decide a CreateTopics request. `ids` has a new id per topic; `cursor` is the start of placement."""
    refusals = _refused_by_name(image, topics, defaults)
    brokers = ring(image.brokers.values())
    answers: list[TopicCreated | Refusal] = []
    for topic, refusal, new_id in zip(topics, refusals, ids, strict=True):
        answer = refusal or _create(image, brokers, topic, new_id, cursor, defaults, rules, known)
        if isinstance(answer, TopicCreated):
            cursor += len(answer.topic.partitions)
        answers.append(answer)
    return answers


def _refused_by_name(
    image: ClusterImage, topics: Sequence[TopicCreation], defaults: TopicDefaults
) -> list[Refusal | None]:
    """A refusal for each topic that follows from the names and sizes in the whole request, or None."""
    wanted = sum(_partition_count(topic, defaults) for topic in topics)
    if wanted > MAX_PARTITIONS_PER_REQUEST:
        return [_too_many_partitions(wanted)] * len(topics)
    named = Counter(topic.name for topic in topics)
    colliding = _CollidingNames(image.topics)
    refusals: list[Refusal | None] = []
    for topic in topics:
        refusal = _refused_name(image, topic, twice=named[topic.name] > 1) or colliding.refusal(topic.name)
        if refusal is None:
            colliding.add(topic.name)
        refusals.append(refusal)
    return refusals


def _refused_name(image: ClusterImage, topic: TopicCreation, twice: bool) -> Refusal | None:
    if twice:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Topic '{topic.name}' is in the request more than once.")
    if topic.name == CLUSTER_METADATA:
        return Refusal(ErrorCode.INVALID_REQUEST, f"The internal topic {CLUSTER_METADATA} cannot be created.")
    if topic.name in image.topics:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    if (error := topic_name_error(topic.name)) is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, error)
    if topic.topic_id is not None and (other := image.topic_names_by_id.get(topic.topic_id)) is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Topic id {id_text(topic.topic_id)} is that of topic '{other}'.")
    return None


class _CollidingNames:
    """Names that differ only in '.' and '_', which would share a metric. The index is built on first use."""

    def __init__(self, existing: Iterable[str]) -> None:
        self._existing = existing
        self._index: dict[str, str] | None = None

    def refusal(self, name: str) -> Refusal | None:
        key = collision_key(name)
        if key is None:
            return None
        other = self._indexed().get(key)
        if other is None:
            return None
        return Refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with topic '{other}': names must differ in more than '.' and '_'.",
        )

    def add(self, name: str) -> None:
        key = collision_key(name)
        if key is not None:
            self._indexed()[key] = name

    def _indexed(self) -> dict[str, str]:
        if self._index is None:
            self._index = {key: name for name in self._existing if (key := collision_key(name)) is not None}
        return self._index


def _partition_count(topic: TopicCreation, defaults: TopicDefaults) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return defaults.num_partitions if topic.num_partitions == DEFAULT else max(topic.num_partitions, 0)


def _create(
    image: ClusterImage,
    brokers: Sequence[BrokerImage],
    topic: TopicCreation,
    new_id: bytes,
    cursor: int,
    defaults: TopicDefaults,
    rules: ConfigRules,
    known: PartitionStates,
) -> TopicCreated | Refusal:
    configs = creation_configs(topic.configs, rules)
    if isinstance(configs, Refusal):
        return configs
    if topic.assignments:
        assignments = _explicit_assignments(image, topic)
    else:
        assignments = _placed(brokers, topic, cursor, defaults)
    if isinstance(assignments, Refusal):
        return assignments
    partitions = _new_partitions(assignments, known)
    return TopicCreated(TopicImage(topic.name, topic.topic_id or new_id, partitions, configs))


def _explicit_assignments(image: ClusterImage, topic: TopicCreation) -> list[Assignment] | Refusal:
    if (topic.num_partitions, topic.replication_factor) != (DEFAULT, DEFAULT):
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            "With an explicit replica assignment, number of partitions and replication factor must be -1.",
        )
    by_index: dict[int, Assignment] = {}
    factor: int | None = None
    for index, replicas in topic.assignments:
        if index in by_index:
            return _bad_assignment(f"Partition {index} is assigned more than once.")
        refusal = _refused_replicas(image, index, replicas, factor)
        if refusal is not None:
            return refusal
        factor = len(replicas)
        by_index[index] = replicas
    if sorted(by_index) != list(range(len(by_index))):
        return _bad_assignment("Partition indexes must be consecutive and begin at 0.")
    return [by_index[index] for index in range(len(by_index))]


def _placed(
    brokers: Sequence[BrokerImage], topic: TopicCreation, cursor: int, defaults: TopicDefaults
) -> list[Assignment] | Refusal:
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor must be larger than 0, or -1 for the default, not {topic.replication_factor}.",
        )
    if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The number of partitions must be larger than 0, or -1 for the default, not {topic.num_partitions}.",
        )
    factor = defaults.replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    if factor > len(brokers):
        return _too_few_brokers(factor, len(brokers))
    return place(brokers, _partition_count(topic, defaults), factor, cursor)


# ----------------------------------------------------------------------------------------------------------- deletion -


def delete_topics(image: ClusterImage, refs: Sequence[TopicRef]) -> list[TopicDeleted | Refusal]:
    """Decide a DeleteTopics request. The broker checks before whether deletion is enabled."""
    found = [_found(image, ref) for ref in refs]
    times = Counter(topic.name for topic in found if isinstance(topic, TopicImage))
    unknown_times = Counter(refs)
    answers: list[TopicDeleted | Refusal] = []
    for ref, topic in zip(refs, found, strict=True):
        twice = times[topic.name] > 1 if isinstance(topic, TopicImage) else unknown_times[ref] > 1
        if twice:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, f"{_described(ref)} is in the request more than once."))
        else:
            answers.append(TopicDeleted(topic) if isinstance(topic, TopicImage) else topic)
    return answers


def _found(image: ClusterImage, ref: TopicRef) -> TopicImage | Refusal:
    if ref.name is None and ref.topic_id == NO_ID:
        return Refusal(ErrorCode.INVALID_REQUEST, "Neither a topic name nor a topic id was given.")
    if ref.name is not None and ref.topic_id != NO_ID:
        return Refusal(ErrorCode.INVALID_REQUEST, "A topic name and a topic id were given; only one of them may be.")
    if ref.name is not None:
        topic = image.topics.get(ref.name)
        return topic or Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{_described(ref)} does not exist.")
    topic = image.topic_by_id(ref.topic_id)
    return topic or Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"{_described(ref)} does not exist.")


def _described(ref: TopicRef) -> str:
    return f"Topic '{ref.name}'" if ref.name is not None else f"Topic id {id_text(ref.topic_id)}"


# ------------------------------------------------------------------------------------------------------------- growth -


def create_partitions(
    image: ClusterImage, requests: Sequence[MorePartitions], *, cursor: int, known: PartitionStates
) -> list[PartitionsChanged | Refusal]:
    """Decide a CreatePartitions request."""
    wanted = sum(_additional(image, request) for request in requests)
    if wanted > MAX_PARTITIONS_PER_REQUEST:
        return [_too_many_partitions(wanted)] * len(requests)
    named = Counter(request.name for request in requests)
    brokers = ring(image.brokers.values())
    answers: list[PartitionsChanged | Refusal] = []
    for request in requests:
        if named[request.name] > 1:
            message = f"Topic '{request.name}' is in the request more than once."
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, message))
        else:
            answers.append(_grow(image, brokers, request, cursor, known))
            cursor += _additional(image, request)
    return answers


def _additional(image: ClusterImage, request: MorePartitions) -> int:
    topic = image.topics.get(request.name)
    return 0 if topic is None else max(request.total - len(topic.partitions), 0)


def _grow(
    image: ClusterImage, brokers: Sequence[BrokerImage], request: MorePartitions, cursor: int, known: PartitionStates
) -> PartitionsChanged | Refusal:
    topic = image.topics.get(request.name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{request.name}' does not exist.")
    count = len(topic.partitions)
    if request.total <= count:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic '{topic.name}' already has {_partitions(count)}; {request.total} is no increase.",
        )
    additional = request.total - count
    assignments: Sequence[Assignment] | Refusal
    if request.assignments is not None:
        assignments = _explicit_growth(image, topic, additional, request.assignments)
    elif topic.replication_factor > len(brokers):
        assignments = _too_few_brokers(topic.replication_factor, len(brokers))
    else:
        start = continued(brokers, topic.partitions[-1].replicas[0], cursor)
        assignments = place(brokers, additional, topic.replication_factor, start)
    if isinstance(assignments, Refusal):
        return assignments
    partitions = topic.partitions + _new_partitions(assignments, known)
    return PartitionsChanged(replace(topic, partitions=partitions))


def _explicit_growth(
    image: ClusterImage, topic: TopicImage, additional: int, assignments: Sequence[Assignment]
) -> Sequence[Assignment] | Refusal:
    if len(assignments) != additional:
        return _bad_assignment(
            f"{_partitions(additional)} would be added, but the replica assignment is for {len(assignments)}."
        )
    for index, replicas in enumerate(assignments, start=len(topic.partitions)):
        refusal = _refused_replicas(image, index, replicas, topic.replication_factor)
        if refusal is not None:
            return refusal
    return assignments


# ----------------------------------------------------------------------------------------------------- common helpers -


def _refused_replicas(image: ClusterImage, index: int, replicas: Assignment, factor: int | None) -> Refusal | None:
    if not replicas:
        return _bad_assignment(f"Partition {index} is assigned to no broker.")
    for broker_id, times in Counter(replicas).items():
        if broker_id not in image.brokers:
            return _bad_assignment(f"Partition {index} is assigned to broker {broker_id}, which is not registered.")
        if times > 1:
            return _bad_assignment(f"Partition {index} is assigned to broker {broker_id} more than once.")
    if factor is not None and len(replicas) != factor:
        return _bad_assignment(f"Partition {index} has {len(replicas)} replica(s), those before it have {factor}.")
    return None


def _new_partitions(assignments: Sequence[Assignment], known: PartitionStates) -> tuple[PartitionState, ...]:
    # Placement returns the same tuple for the same brokers, so one state per distinct assignment is enough.
    states = {
        replicas: known.one(PartitionState(replicas, replicas, replicas[0], LeaderEpoch(0), PartitionEpoch(0)))
        for replicas in dict.fromkeys(assignments)
    }
    return tuple([states[replicas] for replicas in assignments])


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def _bad_assignment(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _too_few_brokers(factor: int, registered: int) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"The replication factor of {factor} cannot be met: {registered} broker(s) are registered.",
    )


def _too_many_partitions(wanted: int) -> Refusal:
    return Refusal(
        ErrorCode.POLICY_VIOLATION,
        f"One request may create {MAX_PARTITIONS_PER_REQUEST} partitions at most; this one asks for {wanted}.",
    )
