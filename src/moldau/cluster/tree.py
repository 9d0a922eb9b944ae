"""The tree: the image's place in the store. Reads all of it, and turns changes into operations with expected versions.

It remembers the version of every node it read or wrote, and that of the controller epoch, which every commit checks:
a controller that was replaced cannot change anything any more, however late it notices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from moldau.cluster.changes import (
    BrokerConfigsChanged,
    Change,
    PartitionsChanged,
    TopicConfigsChanged,
    TopicCreated,
)
from moldau.cluster.image import EMPTY, NO_CONTROLLER, BrokerImage, ClusterImage, PartitionStates
from moldau.cluster.nodes import (
    FOLDERS,
    BrokerConfigNode,
    BrokerNode,
    ClusterIdNode,
    ConfigNode,
    ControllerEpochNode,
    ControllerNode,
    TopicConfigNode,
    TopicNode,
)
from moldau.cluster.store import (
    MAX_VALUE_BYTES,
    Check,
    Conflict,
    Create,
    Delete,
    Node,
    Operation,
    Set,
    Store,
    StoreError,
)

MAX_CLAIM_ATTEMPTS: Final = 10


class NotController(StoreError):
    """Another broker is the controller."""


class TooLarge(Exception):
    """A change whose value would be larger than a node may be."""


class Claim(NamedTuple):
    """The right to change topics: of one broker, until there is another controller."""

    broker_id: int
    epoch: int
    epoch_version: int


class Tree:
    """The metadata of one cluster in one store, as one controller sees it. Its methods run one at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._versions: dict[str, int] = {}
        self._claim: Claim | None = None
        self.states: Final = PartitionStates()

    async def prepare(self, new_cluster_id: str) -> str:
        """Makes the folders that are missing, and the cluster's id if it has none yet. Returns the id it has."""
        await self._store.ensure(FOLDERS)
        if await self._store.get(ClusterIdNode.path) is None:
            try:
                await self._store.commit([Create(ClusterIdNode.path, ClusterIdNode.encode(new_cluster_id))])
            except Conflict:
                pass  # another broker of a new cluster was faster: its id it is
        node = await self._store.get(ClusterIdNode.path)
        assert node is not None
        return ClusterIdNode.decode(node.value)

    async def register(self, broker: BrokerImage) -> BrokerImage:
        """Makes the broker known as alive while this session lasts, and returns it with its epoch.

        Registering again gives new endpoints and a new epoch. Another session's registration is a StoreError.
        """
        path = BrokerNode.path(broker.id)
        creation = Create(path, BrokerNode.encode(broker), ephemeral=True)
        again: list[Operation] = [Delete(path)] if path in self._versions else []
        try:
            await self._store.commit([*again, creation])
        except Conflict as conflict:
            raise StoreError(f"broker {broker.id} cannot be registered: another broker has this id") from conflict
        self._versions[path] = 0
        node = await self._store.get(path)
        assert node is not None
        return replace(broker, epoch=node.created)

    async def claim(self, broker_id: int) -> Claim:
        """Makes the broker the controller. `NotController` where another one is."""
        for _ in range(MAX_CLAIM_ATTEMPTS):
            node = await self._store.get(ControllerEpochNode.path)
            epoch = 1 if node is None else ControllerEpochNode.decode(node.value) + 1
            value = ControllerEpochNode.encode(epoch)
            counted: Operation
            if node is None:
                counted = Create(ControllerEpochNode.path, value)
            else:
                counted = Set(ControllerEpochNode.path, value, node.version)
            taken = Create(ControllerNode.path, ControllerNode.encode(broker_id), ephemeral=True)
            try:
                await self._store.commit([taken, counted])
            except Conflict as conflict:
                if conflict.path == ControllerNode.path:
                    raise NotController(f"broker {broker_id} cannot be controller: another one is") from conflict
                continue
            self._claim = Claim(broker_id, epoch, 0 if node is None else node.version + 1)
            return self._claim
        raise StoreError(f"broker {broker_id} cannot be controller: the controller epoch changes all the time")

    async def load(self) -> ClusterImage:
        """Reads everything. Damaged nodes are a StoreError that names them."""
        versions: dict[str, int] = {}
        topic_configs = _configs(await self._store.read_children(TopicConfigNode.folder), TopicConfigNode, versions)
        broker_configs = _configs(await self._store.read_children(BrokerConfigNode.folder), BrokerConfigNode, versions)
        topics = []
        for name, node in (await self._store.read_children(TopicNode.folder)).items():
            topics.append(TopicNode.decode(name, node.value, topic_configs.get(name, EMPTY), self.states))
            versions[TopicNode.path(name)] = node.version
        brokers = []
        for name, node in (await self._store.read_children(BrokerNode.folder)).items():
            brokers.append(BrokerNode.decode(name, node.value, node.created))
            versions[BrokerNode.path(int(name))] = node.version
        cluster_id, controller = await self._store.get(ClusterIdNode.path), await self._store.get(ControllerNode.path)
        if cluster_id is None:
            raise StoreError(f"the metadata store: {ClusterIdNode.path} is missing")
        self._versions = versions
        image = ClusterImage(
            ClusterIdNode.decode(cluster_id.value),
            NO_CONTROLLER if controller is None else ControllerNode.decode(controller.value),
            broker_configs={BrokerConfigNode.resource_name(name): configs for name, configs in broker_configs.items()},
        )
        return image.with_brokers(brokers).with_topics(topics)

    def operations(self, change: Change) -> list[Operation]:
        """What stores a change. `TooLarge` where it does not fit."""
        if isinstance(change, TopicCreated):
            return [
                Create(TopicNode.path(change.topic.name), _fitting(TopicNode.encode(change.topic))),
                *self._store_configs(TopicConfigNode.path(change.topic.name), change.topic.configs),
            ]
        if isinstance(change, PartitionsChanged):
            path = TopicNode.path(change.topic.name)
            return [Set(path, _fitting(TopicNode.encode(change.topic)), self._versions[path])]
        if isinstance(change, TopicConfigsChanged):
            # The check keeps the settings of a topic from outliving it.
            path = TopicNode.path(change.topic.name)
            return [
                Check(path, self._versions[path]),
                *self._store_configs(TopicConfigNode.path(change.topic.name), change.topic.configs),
            ]
        if isinstance(change, BrokerConfigsChanged):
            return self._store_configs(BrokerConfigNode.path(change.resource_name), change.configs)
        paths = (TopicNode.path(change.topic.name), TopicConfigNode.path(change.topic.name))
        return [Delete(path, self._versions[path]) for path in paths if path in self._versions]

    async def commit(self, operations: Sequence[Operation]) -> None:
        """Stores what `operations` gave, all or nothing, if this is still the controller and nothing else changed."""
        if self._claim is None:
            raise NotController("this broker is not the controller")
        try:
            await self._store.commit([Check(ControllerEpochNode.path, self._claim.epoch_version), *operations])
        except Conflict as conflict:
            if conflict.path == ControllerEpochNode.path:
                self._claim = None
                raise NotController("this broker is no longer the controller") from conflict
            raise
        for operation in operations:
            if isinstance(operation, Create):
                self._versions[operation.path] = 0
            elif isinstance(operation, Set):
                self._versions[operation.path] = operation.version + 1
            elif isinstance(operation, Delete):
                del self._versions[operation.path]

    def _store_configs(self, path: str, configs: Mapping[str, str]) -> list[Operation]:
        version = self._versions.get(path)
        if version is None:
            return [Create(path, _fitting(ConfigNode.encode(configs)))] if configs else []
        if not configs:
            return [Delete(path, version)]
        return [Set(path, _fitting(ConfigNode.encode(configs)), version)]


def _configs(
    nodes: Mapping[str, Node], kind: type[TopicConfigNode] | type[BrokerConfigNode], versions: dict[str, int]
) -> dict[str, Mapping[str, str]]:
    configs: dict[str, Mapping[str, str]] = {}
    for name, node in nodes.items():
        path = f"{kind.folder}/{name}"
        configs[name] = kind.decode(path, node.value)
        versions[path] = node.version
    return configs


def _fitting(value: bytes) -> bytes:
    if len(value) > MAX_VALUE_BYTES:
        raise TooLarge(f"it takes {len(value)} bytes to store, {MAX_VALUE_BYTES} are allowed")
    return value
