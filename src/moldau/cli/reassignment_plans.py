"""Reassignment plans in Kafka's JSON, current and future replicas, and throttles.

Shared by our commands and kafka-reassign-partitions. Nothing here prints.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moldau.client.admin import ConfigChange, ConfigResource, OngoingReassignment, SomeFailed, TopicDescription
from moldau.client.data_types import TopicPartition
from moldau.client.errors import UnknownTopicOrPartition
from moldau.cluster.image import BrokerImage
from moldau.cluster.relocation import resized, spread

if TYPE_CHECKING:
    from moldau.client.blocking.admin import Admin
    from moldau.client.data_types import Node

Plan = dict[TopicPartition, tuple[int, ...]]
"""The future replicas of partitions, preferred leader first."""

ANY_DIRECTORY = "any"

BROKER_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS_SLOWED = "leader.replication.throttled.replicas"
FOLLOWERS_SLOWED = "follower.replication.throttled.replicas"


class BadPlanError(ValueError):
    """A file that is not a valid plan."""


def as_brokers(nodes: Iterable[Node], *, racks: bool = True) -> list[BrokerImage]:
    """Brokers in the form that replica placement needs."""
    return [BrokerImage(node.id, (), node.rack if racks else None) for node in nodes]


# Plans ----------------------------------------------------------------------------------------------------------------


def parse_plan(text: str) -> Plan:
    """Parse a plan in the format of kafka-reassign-partitions.

    Directories in the plan are ignored: brokers choose the directories of new replicas, and `alter_replica_log_dirs`
    moves a replica between directories.
    """
    plan: Plan = {}
    for one in _entries(text, "partitions"):
        try:
            partition = TopicPartition(str(one["topic"]), int(one["partition"]))
            replicas = tuple(int(node) for node in one["replicas"])
        except (KeyError, TypeError, ValueError):
            raise BadPlanError(f"an entry needs topic, partition and replicas: {json.dumps(one)}") from None
        directories = one.get("log_dirs", [ANY_DIRECTORY] * len(replicas))
        if len(directories) != len(replicas):
            raise BadPlanError(f"{partition} has {len(replicas)} replicas and {len(directories)} log_dirs")
        if not replicas:
            raise BadPlanError(f"Partition replica list cannot be empty: {partition}")
        twice = [node for node in dict.fromkeys(replicas) if replicas.count(node) > 1]
        if twice:
            raise BadPlanError(
                f"Partition replica lists may not contain duplicate entries: {partition} contains multiple entries "
                f"for {commas(twice)}"
            )
        if partition in plan:
            raise BadPlanError(f"Partition reassignment contains duplicate topic partitions: {partition}")
        plan[partition] = replicas
    if not plan:
        raise BadPlanError("Partition reassignment list cannot be empty")
    return plan


def parse_topics(text: str) -> list[str]:
    """Parse `{"topics": [{"topic": "orders"}], "version": 1}`, the topics to make a plan for."""
    try:
        names = [str(one["topic"]) for one in _entries(text, "topics")]
    except (KeyError, TypeError):
        raise BadPlanError('an entry must be {"topic": NAME}') from None
    if not names:
        raise BadPlanError("the list of topics is empty")
    return list(dict.fromkeys(names))


def _entries(text: str, field: str) -> list[Any]:
    try:
        content = json.loads(text)
    except ValueError as problem:
        raise BadPlanError(f"The input string is not a valid JSON: {problem}") from None
    if not isinstance(content, dict) or not isinstance(content.get(field), list):
        raise BadPlanError(f'the JSON must be {{"version": 1, "{field}": [...]}}')
    if content.get("version", 1) != 1:
        raise BadPlanError(f"version {content['version']} of the format is not supported; use version 1")
    entries: list[Any] = content[field]
    return entries


def plan_json(plan: Mapping[TopicPartition, tuple[int, ...]]) -> str:
    """A plan as one line of JSON, as Kafka's tool writes it."""
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "log_dirs": [ANY_DIRECTORY] * len(replicas),
        }
        for partition, replicas in sorted(plan.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def generated(topics: Iterable[TopicDescription], brokers: Iterable[BrokerImage], factor: int | None = None) -> Plan:
    """A plan that distributes topics over these brokers, or, with `factor`, one that only changes the number of
    replicas.

    Raises NoRoomError.
    """
    if factor is not None:
        return resized(current(topics), factor, brokers)
    sizes = {one.name: (len(one.partitions), one.replication_factor) for one in topics}
    return {TopicPartition(*partition): replicas for partition, replicas in spread(sizes, brokers).items()}


# Current replicas and progress ----------------------------------------------------------------------------------------


def current(
    topics: Iterable[TopicDescription], ongoing: Mapping[TopicPartition, OngoingReassignment] | None = None
) -> Plan:
    """The replicas of all partitions; the target replicas for those that are moving."""
    held: Plan = {}
    for topic in topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.index)
            moving = (ongoing or {}).get(partition)
            held[partition] = one.replicas if moving is None else moving.target
    return held


@dataclass(frozen=True)
class Progress:
    """The progress of one partition of a plan."""

    wanted: tuple[int, ...]
    replicas: tuple[int, ...] | None
    """The current replicas; None if the partition does not exist."""
    moving: bool

    @property
    def done(self) -> bool:
        return not self.moving and self.replicas == self.wanted


def progress_of(
    plan: Plan, topics: Mapping[str, TopicDescription], ongoing: Mapping[TopicPartition, OngoingReassignment]
) -> dict[TopicPartition, Progress]:
    held = current(topics.values())
    return {
        partition: Progress(wanted, held.get(partition), partition in ongoing) for partition, wanted in plan.items()
    }


def still_there(admin: Admin, names: Collection[str]) -> dict[str, TopicDescription]:
    """The existing ones of these topics: a topic may be deleted between two requests."""
    try:
        return admin.describe_topics(names)
    except UnknownTopicOrPartition:
        return {}
    except SomeFailed as some:
        if not all(isinstance(error, UnknownTopicOrPartition) for error in some.errors.values()):
            raise
        return dict(some.results)


# Throttles ------------------------------------------------------------------------------------------------------------


def throttled_replicas(before: Plan, after: Plan) -> dict[str, tuple[str, str]]:
    """For each topic, the values of its two settings: the replicas that send copies, and the replicas that receive
    them."""
    giving: dict[str, list[str]] = {}
    taking: dict[str, list[str]] = {}
    for partition, wanted in sorted(after.items()):
        has = before.get(partition, ())
        new = [node for node in wanted if node not in has]
        giving.setdefault(partition.topic, []).extend(f"{partition.partition}:{node}" for node in has)
        taking.setdefault(partition.topic, []).extend(f"{partition.partition}:{node}" for node in new)
    return {topic: (",".join(giving[topic]), ",".join(taking[topic])) for topic in giving}


def set_throttle(admin: Admin, rate: int, brokers: Iterable[int], before: Plan, after: Plan) -> None:
    """Limit the traffic from existing replicas and to the new replicas of a plan, in bytes per second."""
    changes: dict[ConfigResource, Mapping[str, ConfigChange]] = {
        ConfigResource.broker(node): dict.fromkeys(BROKER_RATES, str(rate)) for node in brokers
    }
    for topic, (giving, taking) in throttled_replicas(before, after).items():
        changes[ConfigResource.topic(topic)] = {LEADERS_SLOWED: giving, FOLLOWERS_SLOWED: taking}
    if changes:
        admin.alter_configs(changes)


def clear_throttle(admin: Admin, brokers: Iterable[int], topics: Iterable[str]) -> None:
    """Remove the settings of `set_throttle`."""
    changes: dict[ConfigResource, Mapping[str, ConfigChange]] = {
        ConfigResource.broker(node): dict.fromkeys(BROKER_RATES) for node in brokers
    }
    for topic in topics:
        changes[ConfigResource.topic(topic)] = {LEADERS_SLOWED: None, FOLLOWERS_SLOWED: None}
    if changes:
        admin.alter_configs(changes)


def commas(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))
