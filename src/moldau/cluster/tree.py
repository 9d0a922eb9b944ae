"""The tree: the image's place in the store. Reads all of it or a part, and turns changes into operations with expected
versions.

It remembers the version of every node it read or wrote: an image and the versions it was read at go together. One
tree is one session; its methods run one at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from moldau.cluster.changes import (
    BrokerConfigsChanged,
    Change,
    PartitionsChanged,
    TopicConfigsChanged,
    TopicCreated,
)
from moldau.cluster.image import (
    EMPTY,
    NO_CONTROLLER,
    BrokerImage,
    ClusterImage,
    PartitionStates,
    TopicImage,
)
from moldau.cluster.nodes import (
    FOLDERS,
    BadNode,
    BrokerConfigNode,
    BrokerNode,
    ClusterIdNode,
    ConfigNode,
    ControllerEpochNode,
    ControllerNode,
    ImportNode,
    IncarnationNode,
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
    split,
)

log = logging.getLogger(__name__)

MAX_CLAIM_ATTEMPTS: Final = 10


class NotController(StoreError):
    """Another broker is the controller."""


class IdTaken(StoreError):
    """Another broker is registered under this id: one that lives, or one whose session is not over yet."""


class TooLarge(Exception):
    """A change whose value would be larger than a node may be."""


class Claim(NamedTuple):
    """The right to elect leaders: of one broker, until there is another controller."""

    broker_id: int
    epoch: int
    epoch_version: int


class _Known(NamedTuple):
    """Which state of a node the image has. `created` is None while only this session's own commit tells of it."""

    version: int
    created: int | None


class Tree:
    """The metadata of one cluster, as one session sees it."""

    def __init__(self, store: Store) -> None:
        self.store: Final = store
        self.states: Final = PartitionStates()
        self.claim: Claim | None = None
        self._known: dict[str, _Known] = {}
        self._registered: int | None = None  # the epoch with which this session has a broker registered

    async def prepare(self, new_cluster_id: str) -> str:
        """Makes the folders that are missing, and the cluster's id if it has none yet. Returns the id it has."""
        if await self.store.get(ImportNode.path) is not None:
            raise StoreError("an import into this cluster is not finished; run moldau cluster import again")
        await self.store.ensure(FOLDERS)
        if await self.store.get(ClusterIdNode.path) is None:
            try:
                await self.store.commit([Create(ClusterIdNode.path, ClusterIdNode.encode(new_cluster_id))])
            except Conflict:
                await self.store.sync()  # another broker of a new cluster was faster: its id it is
        node = await self.store.get(ClusterIdNode.path)
        assert node is not None
        return ClusterIdNode.decode(node.value)

    # -- joining ---------------------------------------------------------------------------------------------------

    async def is_ours(self, broker_id: int, process_id: str) -> bool:
        """Whether the last life of the broker that has begun is one of this process, or none has begun yet."""
        await self.store.sync()  # a server that is behind, asked in a new session, may not know our own last life yet
        node = await self.store.get(IncarnationNode.path(broker_id))
        return node is None or IncarnationNode.process_id(broker_id, node.value) == process_id

    async def begin_life(self, broker: BrokerImage, process_id: str, *, registered: bool = False) -> BrokerImage:
        """Counts a new life of the broker, and returns it with its epoch. It is alive once it is registered: in the
        same commit, or by `register`.

        IdTaken where a broker with another data directory is registered under the id.
        """
        path = IncarnationNode.path(broker.id)
        value = IncarnationNode.encode(broker.directory_id, process_id)
        for _ in range(MAX_CLAIM_ATTEMPTS):
            life, there = await self.store.get_each([path, BrokerNode.path(broker.id)])
            born = replace(broker, epoch=0 if life is None else life.version + 1)
            registration = self._registration(born, there)
            counted: Operation = Create(path, value) if life is None else Set(path, value, life.version)
            try:
                await self.store.commit([counted, *registration] if registered else [counted])
            except Conflict:
                await self.store.sync()
                continue
            self._registered = born.epoch if registered else self._registered
            return born
        raise StoreError(f"broker {broker.id} cannot be registered: its id changes hands all the time")

    async def register(self, broker: BrokerImage) -> None:
        """Makes the broker known as alive while this session lasts, if no later life of it has begun.

        What an earlier life left registered is replaced: the end of its session need not be waited for.
        """
        lives = IncarnationNode.path(broker.id)
        for _ in range(MAX_CLAIM_ATTEMPTS):
            registration = self._registration(broker, await self.store.get(BrokerNode.path(broker.id)))
            try:
                await self.store.commit([Check(lives, broker.epoch), *registration])
            except Conflict as conflict:
                if conflict.path == lives:
                    raise _taken(broker) from conflict
                await self.store.sync()
                continue
            self._registered = broker.epoch
            return
        raise StoreError(f"broker {broker.id} cannot be registered: its id changes hands all the time")

    def _registration(self, broker: BrokerImage, there: Node | None) -> list[Operation]:
        path = BrokerNode.path(broker.id)
        creation = Create(path, BrokerNode.encode(broker), ephemeral=True)
        if there is None:
            return [creation]
        self._check_the_same(broker, there)
        return [Delete(path, there.version), creation]

    def _check_the_same(self, broker: BrokerImage, node: Node) -> None:
        there = BrokerNode.decode(str(broker.id), node.value)
        if there.epoch != self._registered and not broker.shares_directory(there):
            raise _taken(broker, there)

    async def become_controller(self, broker_id: int) -> None:
        """Makes the broker the controller. `NotController` where another one is.

        What a former life of the same broker left is replaced, as its registration is: without that nobody would be
        controller until the end of its session.
        """
        for _ in range(MAX_CLAIM_ATTEMPTS):
            count, there = await self.store.get_each([ControllerEpochNode.path, ControllerNode.path])
            operations: list[Operation] = []
            if there is not None:
                if ControllerNode.decode(there.value) != broker_id:
                    raise NotController(f"broker {broker_id} cannot be controller: another one is")
                operations.append(Delete(ControllerNode.path, there.version))
            epoch = 1 if count is None else ControllerEpochNode.decode(count.value) + 1
            value = ControllerEpochNode.encode(epoch)
            operations += [
                Create(ControllerNode.path, ControllerNode.encode(broker_id), ephemeral=True),
                Create(ControllerEpochNode.path, value)
                if count is None
                else Set(ControllerEpochNode.path, value, count.version),
            ]
            try:
                await self.store.commit(operations)
            except Conflict:
                await self.store.sync()
                continue
            self.claim = Claim(broker_id, epoch, 0 if count is None else count.version + 1)
            return
        raise StoreError(f"broker {broker_id} cannot be controller: the controller epoch changes all the time")

    # -- reading ---------------------------------------------------------------------------------------------------

    async def load(self) -> ClusterImage:
        """Reads everything. Damaged nodes are a StoreError that names them."""
        known: dict[str, _Known] = {}
        # Settings after topics: a topic that is seen is seen with the settings that it was made with, or later ones.
        topic_nodes = await self.store.read_children(TopicNode.folder)
        topic_configs = _configs(await self.store.read_children(TopicConfigNode.folder), TopicConfigNode, known)
        broker_configs = _configs(await self.store.read_children(BrokerConfigNode.folder), BrokerConfigNode, known)
        topics = []
        for name, node in topic_nodes.items():
            topics.append(TopicNode.decode(name, node.value, topic_configs.get(name, EMPTY), self.states))
            known[TopicNode.path(name)] = _Known(node.version, node.created)
        brokers = []
        for name, node in (await self.store.read_children(BrokerNode.folder)).items():
            brokers.append(BrokerNode.decode(name, node.value))
            known[BrokerNode.path(int(name))] = _Known(node.version, node.created)
        cluster_id, controller = await self.store.get_each([ClusterIdNode.path, ControllerNode.path])
        if cluster_id is None:
            raise StoreError(f"the metadata store: {ClusterIdNode.path} is missing")
        self._known = known
        image = ClusterImage(
            ClusterIdNode.decode(cluster_id.value),
            NO_CONTROLLER if controller is None else ControllerNode.decode(controller.value),
            broker_configs={BrokerConfigNode.resource_name(name): configs for name, configs in broker_configs.items()},
        )
        return image.with_brokers(brokers).with_topics(topics)

    async def reread(self, image: ClusterImage, paths: Iterable[str]) -> ClusterImage:
        """The image with what is at these paths now. A node that is damaged is left as it was, and named in the log."""
        by_folder: dict[str, dict[str, None]] = {}
        for path in paths:
            folder, name = split(path)
            by_folder.setdefault(folder, {})[name] = None
        topic_names, config_names = by_folder.get(TopicNode.folder, {}), by_folder.get(TopicConfigNode.folder, {})
        if topic_names or config_names:
            image = await self._reread_topics(image, topic_names, config_names)
        # A broker's epoch is in its own node: it is what a new incarnation changes.
        broker_names = {**by_folder.get(BrokerNode.folder, {}), **by_folder.get(IncarnationNode.folder, {})}
        if broker_names:
            image = await self._reread_brokers(image, broker_names)
        if names := by_folder.get(BrokerConfigNode.folder):
            changed = await self._reread_configs(BrokerConfigNode, names)
            image = image.with_broker_configs(
                {BrokerConfigNode.resource_name(name): configs for name, configs in changed.items()}
            )
        if ControllerNode.name in by_folder.get("", {}):
            node = await self.store.get(ControllerNode.path)
            controller = NO_CONTROLLER if node is None else ControllerNode.decode(node.value)
            image = replace(image, controller_id=controller)
        return image

    async def _reread_topics(
        self, image: ClusterImage, names: Mapping[str, None], config_names: Mapping[str, None]
    ) -> ClusterImage:
        changed: dict[str, TopicImage] = {}
        deleted: list[str] = []
        new: dict[str, None] = {}
        nodes = await self.store.get_each([TopicNode.path(name) for name in names])
        for name, node in zip(names, nodes, strict=True):
            if not self._differs(TopicNode.path(name), node):
                continue
            before = image.topics.get(name)
            if node is None:
                if before is not None:
                    deleted.append(name)
                continue
            configs = EMPTY if before is None else before.configs
            try:
                topic = TopicNode.decode(name, node.value, configs, self.states)
            except BadNode as error:
                log.error("%s: it is left as it was", error)
                continue
            if before is None or before.id != topic.id:
                new[name] = None
            if topic != before:
                changed[name] = topic
        # A topic is never seen without the settings that it was made with: they are read after it.
        for name, configs in (await self._reread_configs(TopicConfigNode, {**config_names, **new}, always=new)).items():
            known = changed.get(name) or image.topics.get(name)
            if known is not None and known.configs != configs and name not in deleted:
                changed[name] = replace(known, configs=configs)
        return image.with_topics(changed.values(), deleted) if changed or deleted else image

    async def _reread_brokers(self, image: ClusterImage, names: Mapping[str, None]) -> ClusterImage:
        brokers = dict(image.brokers)
        nodes = await self.store.get_each([f"{BrokerNode.folder}/{name}" for name in names])
        for name, node in zip(names, nodes, strict=True):
            try:
                if node is None:
                    brokers.pop(int(name), None)
                else:
                    brokers[int(name)] = BrokerNode.decode(name, node.value)
            except BadNode as error:
                log.error("%s: it is left as it was", error)
        return image if brokers == image.brokers else image.with_brokers(brokers.values())

    async def _reread_configs(
        self,
        kind: type[TopicConfigNode] | type[BrokerConfigNode],
        names: Mapping[str, None],
        always: Container[str] = (),
    ) -> dict[str, Mapping[str, str]]:
        """The settings that are others now than the image has, and those of `always`; empty where there are none."""
        changed: dict[str, Mapping[str, str]] = {}
        paths = {name: f"{kind.folder}/{name}" for name in names}
        nodes = await self.store.get_each(list(paths.values()))
        for (name, path), node in zip(paths.items(), nodes, strict=True):
            if self._differs(path, node) or name in always:
                try:
                    changed[name] = EMPTY if node is None else ConfigNode.decode(path, node.value)
                except BadNode as error:
                    log.error("%s: it is left as it was", error)
        return changed

    def _differs(self, path: str, node: Node | None) -> bool:
        """Whether this is another state of the node than the image has; remembers it."""
        before = self._known.get(path)
        if node is None:
            self._known.pop(path, None)
            return before is not None
        self._known[path] = now = _Known(node.version, node.created)
        return now != before

    # -- writing ---------------------------------------------------------------------------------------------------

    def operations(self, change: Change) -> list[Operation]:
        """What stores a change. `TooLarge` where it does not fit."""
        if isinstance(change, BrokerConfigsChanged):
            return self._store_configs(BrokerConfigNode.path(change.resource_name), change.configs)
        path, config_path = TopicNode.path(change.topic.name), TopicConfigNode.path(change.topic.name)
        if isinstance(change, TopicCreated):
            return [
                Create(path, _fitting(TopicNode.encode(change.topic))),
                *self._store_configs(config_path, change.topic.configs),
            ]
        if isinstance(change, PartitionsChanged):
            return [Set(path, _fitting(TopicNode.encode(change.topic)), self._known[path].version)]
        if isinstance(change, TopicConfigsChanged):
            # The check keeps the settings of a topic from outliving it.
            return [
                Check(path, self._known[path].version),
                *self._store_configs(config_path, change.topic.configs),
            ]
        return [Delete(one, self._known[one].version) for one in (path, config_path) if one in self._known]

    def _store_configs(self, path: str, configs: Mapping[str, str]) -> list[Operation]:
        known = self._known.get(path)
        if known is None:
            return [Create(path, _fitting(ConfigNode.encode(configs)))] if configs else []
        if not configs:
            return [Delete(path, known.version)]
        return [Set(path, _fitting(ConfigNode.encode(configs)), known.version)]

    async def commit(self, operations: Sequence[Operation], *, as_controller: bool = False) -> None:
        """Stores what `operations` gave, all or nothing, if nothing of it changed meanwhile; and, for what only the
        controller may do, if this is the controller still."""
        if not as_controller:
            await self.store.commit(operations)
        elif self.claim is None:
            raise NotController("this broker is not the controller")
        else:
            try:
                await self.store.commit([Check(ControllerEpochNode.path, self.claim.epoch_version), *operations])
            except Conflict as conflict:
                if conflict.path == ControllerEpochNode.path:
                    self.claim = None
                    raise NotController("this broker is no longer the controller") from conflict
                raise
        for operation in operations:
            if isinstance(operation, Create):
                self._known[operation.path] = _Known(0, None)
            elif isinstance(operation, Set):
                before = self._known.get(operation.path)
                created = None if before is None else before.created
                self._known[operation.path] = _Known(operation.version + 1, created)
            elif isinstance(operation, Delete):
                self._known.pop(operation.path, None)


def _configs(
    nodes: Mapping[str, Node], kind: type[TopicConfigNode] | type[BrokerConfigNode], known: dict[str, _Known]
) -> dict[str, Mapping[str, str]]:
    configs: dict[str, Mapping[str, str]] = {}
    for name, node in nodes.items():
        path = f"{kind.folder}/{name}"
        configs[name] = kind.decode(path, node.value)
        known[path] = _Known(node.version, node.created)
    return configs


def _taken(broker: BrokerImage, there: BrokerImage | None = None) -> IdTaken:
    where = "" if there is None else "".join(f", at {one.host}:{one.port}" for one in there.endpoints[:1])
    return IdTaken(
        f"broker {broker.id} cannot be registered: another broker has this id{where}; "
        "choose another node.id, and an empty data directory"
    )


def _fitting(value: bytes) -> bytes:
    if len(value) > MAX_VALUE_BYTES:
        raise TooLarge(f"it takes {len(value)} bytes to store, {MAX_VALUE_BYTES} are allowed")
    return value
