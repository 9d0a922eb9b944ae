"""Nodes of the metadata tree: one class per kind, with its path and its JSON encoding.

    /cluster/id                      the cluster's id, created once
    /brokers/incarnations/N          owner of this broker id; its version counts the incarnations and is the epoch
    /brokers/ids/N                   a live broker: endpoints, rack, epoch; deleted with its session
    /topics/NAME                     a topic: its id and the state of all its partitions
    /config/topics/NAME              settings of a topic that differ from the defaults; missing if there are none
    /config/brokers/N, …/default     dynamic settings of one broker, or of all
    /config/groups/ID                settings of a group that differ from the broker's; its id percent-encoded
    /security/…                      rules, credentials, tokens and quotas: see `security_nodes`
    /controller                      the broker that is the controller; deleted with its session
    /controller_epoch                the number of controllers so far; every commit of a controller checks its version
    /import                          the cluster id of a broker whose import is not finished; no broker may start

Every value is a JSON object with a `version`. A version that is not known here is refused.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from moldau.cluster.image import (
    ALL_BROKERS,
    EMPTY,
    BrokerImage,
    Endpoint,
    PartitionState,
    PartitionStates,
    TopicImage,
)
from moldau.cluster.node_encoding import (
    decode_fields,
    decode_name,
    encode_fields,
    encode_name,
    number_field,
    numbers_field,
    text_field,
)
from moldau.wire.number_types import BrokerEpoch, LeaderEpoch, PartitionEpoch

# Nodes without a value, which only hold children. Parents come first.
FOLDERS: Final = (
    "/cluster",
    "/brokers",
    "/brokers/ids",
    "/brokers/incarnations",
    "/topics",
    "/config",
    "/config/topics",
    "/config/brokers",
    "/config/groups",
    "/security",
    "/security/acls",
    "/security/users",
    "/security/tokens",
    "/security/quotas",
)


def id_text(identity: bytes) -> str:
    """A 16-byte id as Kafka prints it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(identity).decode().rstrip("=")


def id_bytes(text: str) -> bytes:
    """The 16 bytes of an id as Kafka prints it; `ValueError` for anything else."""
    identity = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(identity) != 16 or id_text(identity) != text:
        raise ValueError(f"not an id: {text!r}")
    return identity


class ClusterIdNode:
    """The cluster's id."""

    path = "/cluster/id"

    @staticmethod
    def encode(cluster_id: str) -> bytes:
        return encode_fields({"id": cluster_id})

    @staticmethod
    def decode(value: bytes) -> str:
        return decode_fields(ClusterIdNode.path, value, lambda fields: text_field(fields["id"]))


class ImportNode:
    """An unfinished import into this store: the id of the future cluster. See `transfer`."""

    path = "/import"
    encode = ClusterIdNode.encode

    @staticmethod
    def decode(value: bytes) -> str:
        return decode_fields(ImportNode.path, value, lambda fields: text_field(fields["id"]))


class IncarnationNode:
    """The data directory and the process that own a broker id. Each incarnation of the broker writes it again, so its
    version is the broker epoch."""

    folder = "/brokers/incarnations"

    @staticmethod
    def path(broker_id: int) -> str:
        return f"{IncarnationNode.folder}/{broker_id}"

    @staticmethod
    def encode(directory_id: str, process_id: str) -> bytes:
        return encode_fields({"directory_id": directory_id, "process_id": process_id})

    @staticmethod
    def process_id(broker_id: int, value: bytes) -> str:
        return decode_fields(IncarnationNode.path(broker_id), value, lambda fields: text_field(fields["process_id"]))


class BrokerNode:
    """A live broker. The directory id distinguishes a broker that returned from another broker with the same id."""

    folder = "/brokers/ids"

    @staticmethod
    def path(broker_id: int) -> str:
        return f"{BrokerNode.folder}/{broker_id}"

    @staticmethod
    def encode(broker: BrokerImage) -> bytes:
        endpoints = [
            {
                "listener": endpoint.listener,
                "host": endpoint.host,
                "port": endpoint.port,
                "security_protocol": endpoint.security_protocol,
            }
            for endpoint in broker.endpoints
        ]
        return encode_fields(
            {
                "epoch": broker.epoch,
                "directory_id": broker.directory_id,
                "endpoints": endpoints,
                "rack": broker.rack,
            }
        )

    @staticmethod
    def decode(name: str, value: bytes) -> BrokerImage:
        def build(fields: Mapping[str, Any]) -> BrokerImage:
            endpoints = tuple(
                Endpoint(
                    text_field(endpoint["listener"]),
                    text_field(endpoint["host"]),
                    number_field(endpoint["port"]),
                    text_field(endpoint["security_protocol"]),
                )
                for endpoint in fields["endpoints"]
            )
            rack = None if fields["rack"] is None else text_field(fields["rack"])
            return BrokerImage(
                int(name),
                endpoints,
                rack,
                BrokerEpoch(number_field(fields["epoch"])),
                directory_id=text_field(fields["directory_id"]),
            )

        return decode_fields(f"{BrokerNode.folder}/{name}", value, build)


class TopicNode:
    """A topic and all its partitions.

    Most partitions share their state with many others, so each state is written once, and a partition is the index of
    its state. Ten thousand partitions of one broker take 20 KB. A state is a list of five elements. Fields that are
    nearly always empty are in an optional sixth element, an object:

        [replicas, isr, leader, leader epoch, partition epoch]
        [..., {"elr": […], "last_known_elr": […], "adding": […], "removing": […]}]
    """

    rare = ("elr", "last_known_elr", "adding", "removing")

    folder = "/topics"

    @staticmethod
    def path(name: str) -> str:
        return f"{TopicNode.folder}/{name}"

    @staticmethod
    def encode(topic: TopicImage) -> bytes:
        numbers: dict[PartitionState, int] = {}
        partitions = [numbers.setdefault(state, len(numbers)) for state in topic.partitions]
        states = []
        for state in numbers:
            row: list[Any] = [state.replicas, state.isr, state.leader, state.leader_epoch, state.partition_epoch]
            if rare := {name: ids for name in TopicNode.rare if (ids := getattr(state, name))}:
                row.append(rare)
            states.append(row)
        return encode_fields({"topic_id": id_text(topic.id), "states": states, "partitions": partitions})

    @staticmethod
    def decode(name: str, value: bytes, configs: Mapping[str, str], known: PartitionStates) -> TopicImage:
        def build(fields: Mapping[str, Any]) -> TopicImage:
            states = [
                known.one(
                    PartitionState(
                        numbers_field(replicas),
                        numbers_field(isr),
                        number_field(leader),
                        LeaderEpoch(number_field(leader_epoch)),
                        PartitionEpoch(number_field(partition_epoch)),
                        **{name: numbers_field(rare[0][name]) for name in TopicNode.rare if rare and name in rare[0]},
                    )
                )
                for replicas, isr, leader, leader_epoch, partition_epoch, *rare in fields["states"]
            ]
            partitions = fields["partitions"]
            if not partitions or min(partitions) < 0:
                raise ValueError("a topic without partitions, or with a partition in no state")
            topic_id = id_bytes(text_field(fields["topic_id"]))
            return TopicImage(name, topic_id, tuple(map(states.__getitem__, partitions)), configs)

        return decode_fields(TopicNode.path(name), value, build)


class ConfigNode:
    """Settings, as strings by name. Empty settings have no node."""

    @staticmethod
    def encode(configs: Mapping[str, str]) -> bytes:
        return encode_fields({"config": dict(sorted(configs.items()))})

    @staticmethod
    def decode(path: str, value: bytes) -> Mapping[str, str]:
        def build(fields: Mapping[str, Any]) -> Mapping[str, str]:
            return {text_field(name): text_field(text) for name, text in fields["config"].items()} or EMPTY

        return decode_fields(path, value, build)


class TopicConfigNode(ConfigNode):
    """Settings of a topic."""

    folder = "/config/topics"

    @staticmethod
    def path(topic: str) -> str:
        return f"{TopicConfigNode.folder}/{topic}"


class BrokerConfigNode(ConfigNode):
    """Dynamic settings of one broker, or of all. The resource named "" on the wire is the node `default`."""

    folder = "/config/brokers"
    default = "default"

    @staticmethod
    def path(resource_name: str) -> str:
        name = BrokerConfigNode.default if resource_name == ALL_BROKERS else resource_name
        return f"{BrokerConfigNode.folder}/{name}"

    @staticmethod
    def resource_name(node_name: str) -> str:
        return ALL_BROKERS if node_name == BrokerConfigNode.default else node_name


class GroupConfigNode(ConfigNode):
    """Settings of a group. An id may be any text; encoded it is a legal name of a node in every store."""

    folder = "/config/groups"

    @staticmethod
    def path(group_id: str) -> str:
        return f"{GroupConfigNode.folder}/{encode_name(group_id)}"

    @staticmethod
    def group_id(node_name: str) -> str:
        return decode_name(node_name)


class ControllerNode:
    """Which broker is the controller."""

    name = "controller"
    path = "/controller"

    @staticmethod
    def encode(broker_id: int) -> bytes:
        return encode_fields({"broker_id": broker_id})

    @staticmethod
    def decode(value: bytes) -> int:
        return decode_fields(ControllerNode.path, value, lambda fields: number_field(fields["broker_id"]))


class ControllerEpochNode:
    """The number of controllers so far."""

    path = "/controller_epoch"

    @staticmethod
    def encode(epoch: int) -> bytes:
        return encode_fields({"epoch": epoch})

    @staticmethod
    def decode(value: bytes) -> int:
        return decode_fields(ControllerEpochNode.path, value, lambda fields: BrokerEpoch(number_field(fields["epoch"])))
