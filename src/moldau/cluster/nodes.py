"""Nodes of the metadata tree: one class per kind, with its path and its JSON encoding.

    /cluster/id                      the cluster's id, created once
    /brokers/incarnations/N          owner of this broker id; its version counts the incarnations and is the epoch
    /brokers/ids/N                   a live broker: endpoints, rack, epoch; deleted with its session
    /topics/NAME                     a topic: its id and the state of all its partitions
    /config/topics/NAME              settings of a topic that differ from the defaults; missing if there are none
    /config/brokers/N, …/default     dynamic settings of one broker, or of all
    /config/groups/ID                settings of a group that differ from the broker's; its id percent-encoded
    /controller                      the broker that is the controller; deleted with its session
    /controller_epoch                the number of controllers so far; every commit of a controller checks its version
    /import                          the cluster id of a broker whose import is not finished; no broker may start

Every value is a JSON object with a `version`. A version that is not known here is refused.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from moldau.cluster.image import (
    ALL_BROKERS,
    EMPTY,
    BrokerImage,
    Endpoint,
    PartitionState,
    PartitionStates,
    TopicImage,
)
from moldau.cluster.store import StoreError
from moldau.wire.number_types import BrokerEpoch, LeaderEpoch, PartitionEpoch

VERSION: Final = 1

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
)

_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~")
"""Bytes of a group's id that stand for themselves in the name of its node; not the dot: `.` and `..` are no names."""

T = TypeVar("T")


class BadNode(StoreError):
    """The value of a node is not valid for its path."""


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
        return _encode({"id": cluster_id})

    @staticmethod
    def decode(value: bytes) -> str:
        return _decode(ClusterIdNode.path, value, lambda fields: _text(fields["id"]))


class ImportNode:
    """An unfinished import into this store: the id of the future cluster. See `transfer`."""

    path = "/import"
    encode = ClusterIdNode.encode

    @staticmethod
    def decode(value: bytes) -> str:
        return _decode(ImportNode.path, value, lambda fields: _text(fields["id"]))


class IncarnationNode:
    """The data directory and the process that own a broker id. Each incarnation of the broker writes it again, so its
    version is the broker epoch."""

    folder = "/brokers/incarnations"

    @staticmethod
    def path(broker_id: int) -> str:
        return f"{IncarnationNode.folder}/{broker_id}"

    @staticmethod
    def encode(directory_id: str, process_id: str) -> bytes:
        return _encode({"directory_id": directory_id, "process_id": process_id})

    @staticmethod
    def process_id(broker_id: int, value: bytes) -> str:
        return _decode(IncarnationNode.path(broker_id), value, lambda fields: _text(fields["process_id"]))


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
        return _encode(
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
                    _text(endpoint["listener"]),
                    _text(endpoint["host"]),
                    _number(endpoint["port"]),
                    _text(endpoint["security_protocol"]),
                )
                for endpoint in fields["endpoints"]
            )
            rack = None if fields["rack"] is None else _text(fields["rack"])
            return BrokerImage(
                int(name),
                endpoints,
                rack,
                BrokerEpoch(_number(fields["epoch"])),
                directory_id=_text(fields["directory_id"]),
            )

        return _decode(f"{BrokerNode.folder}/{name}", value, build)


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
        return _encode({"topic_id": id_text(topic.id), "states": states, "partitions": partitions})

    @staticmethod
    def decode(name: str, value: bytes, configs: Mapping[str, str], known: PartitionStates) -> TopicImage:
        def build(fields: Mapping[str, Any]) -> TopicImage:
            states = [
                known.one(
                    PartitionState(
                        _numbers(replicas),
                        _numbers(isr),
                        _number(leader),
                        LeaderEpoch(_number(leader_epoch)),
                        PartitionEpoch(_number(partition_epoch)),
                        **{name: _numbers(rare[0][name]) for name in TopicNode.rare if rare and name in rare[0]},
                    )
                )
                for replicas, isr, leader, leader_epoch, partition_epoch, *rare in fields["states"]
            ]
            partitions = fields["partitions"]
            if not partitions or min(partitions) < 0:
                raise ValueError("a topic without partitions, or with a partition in no state")
            topic_id = id_bytes(_text(fields["topic_id"]))
            return TopicImage(name, topic_id, tuple(map(states.__getitem__, partitions)), configs)

        return _decode(TopicNode.path(name), value, build)


class ConfigNode:
    """Settings, as strings by name. Empty settings have no node."""

    @staticmethod
    def encode(configs: Mapping[str, str]) -> bytes:
        return _encode({"config": dict(sorted(configs.items()))})

    @staticmethod
    def decode(path: str, value: bytes) -> Mapping[str, str]:
        def build(fields: Mapping[str, Any]) -> Mapping[str, str]:
            return {_text(name): _text(text) for name, text in fields["config"].items()} or EMPTY

        return _decode(path, value, build)


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
        name = "".join(chr(one) if one in _PLAIN else f"%{one:02X}" for one in group_id.encode())
        return f"{GroupConfigNode.folder}/{name}"

    @staticmethod
    def group_id(node_name: str) -> str:
        return re.sub(rb"%(..)", lambda match: bytes.fromhex(match[1].decode()), node_name.encode()).decode()


class ControllerNode:
    """Which broker is the controller."""

    name = "controller"
    path = "/controller"

    @staticmethod
    def encode(broker_id: int) -> bytes:
        return _encode({"broker_id": broker_id})

    @staticmethod
    def decode(value: bytes) -> int:
        return _decode(ControllerNode.path, value, lambda fields: _number(fields["broker_id"]))


class ControllerEpochNode:
    """The number of controllers so far."""

    path = "/controller_epoch"

    @staticmethod
    def encode(epoch: int) -> bytes:
        return _encode({"epoch": epoch})

    @staticmethod
    def decode(value: bytes) -> int:
        return _decode(ControllerEpochNode.path, value, lambda fields: BrokerEpoch(_number(fields["epoch"])))


def _encode(fields: Mapping[str, Any]) -> bytes:
    return json.dumps({"version": VERSION, **fields}, separators=(",", ":")).encode()


def _decode(path: str, value: bytes, build: Callable[[Mapping[str, Any]], T]) -> T:
    try:
        fields = json.loads(value.decode())
        version = fields["version"]
        if version == VERSION:
            return build(fields)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise BadNode(f"the metadata store: {path} cannot be understood ({error!r})") from error
    raise BadNode(f"the metadata store: {path} has version {version}, this program knows {VERSION}")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _numbers(values: object) -> tuple[int, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is not a list")
    return tuple(map(_number, values))
