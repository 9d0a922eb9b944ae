"""Metadata tree: the image in the store. Reads it, and turns changes into operations with expected versions.

A tree can read everything or only some paths. It remembers the version of every node that it read or wrote, so that an
image and its versions match. One tree belongs to one session; its methods run one at a time.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from moldau.cluster.changes import (
    SECURITY_PARTS,
    BrokerConfigsChanged,
    Change,
    GroupConfigsChanged,
    PartitionsChanged,
    SecurityChange,
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
from moldau.cluster.node_encoding import BadNode
from moldau.cluster.nodes import (
    FOLDERS,
    BrokerConfigNode,
    BrokerNode,
    ClusterIdNode,
    ConfigNode,
    ControllerEpochNode,
    ControllerNode,
    GroupConfigNode,
    ImportNode,
    IncarnationNode,
    TopicConfigNode,
    TopicNode,
)
from moldau.cluster.security_image import NO_SECURITY, SecurityImage
from moldau.cluster.security_nodes import SECURITY_NODES, SecurityNode
from moldau.cluster.store import (
    MAX_PATH_CHARACTERS,
    MAX_VALUE_BYTES,
    Check,
    Conflict,
    Create,
    Delete,
    Operation,
    Set,
    Store,
    StoredNode,
    StoreError,
    split,
)
from moldau.host.event_log import event_logger
from moldau.wire.number_types import BrokerEpoch

log = event_logger(__name__)

MAX_CLAIM_ATTEMPTS: Final = 10

SECURITY_NODES_BY_PART: Final = {kind.part: kind for kind in SECURITY_NODES}

ConfigNodeKind = type[TopicConfigNode] | type[BrokerConfigNode] | type[GroupConfigNode]


class FencedController(StoreError):
    """Another broker is the controller."""


class IdTaken(StoreError):
    """Another broker is registered under this id: a live one, or one whose session has not ended yet."""


class TooLarge(Exception):
    """A change whose value would exceed the size limit of a node."""


class Claim(NamedTuple):
    """The right to act as controller, held by one broker until another broker becomes controller."""

    broker_id: int
    epoch: int
    epoch_version: int


class _Known(NamedTuple):
    """The version of a node that the image has. `created` is None after this session's own commit, until the next
    read."""

    version: int
    created: int | None


class Tree:
    """The metadata of one cluster, as one session sees it."""

    def __init__(self, store: Store) -> None:
        self.store: Final = store
        self.states: Final = PartitionStates()
        self.claim: Claim | None = None
        self._known: dict[str, _Known] = {}
        self._registered: int | None = None  # the epoch of the broker that this session has registered

    async def prepare(self, new_cluster_id: str) -> str:
        """Create the missing folders, and the cluster id if there is none. Returns the cluster id."""
        if await self.store.get(ImportNode.path) is not None:
            raise StoreError("an import into this cluster is not finished; run moldau cluster import again")
        await self.store.ensure(FOLDERS)
        if await self.store.get(ClusterIdNode.path) is None:
            try:
                await self.store.commit([Create(ClusterIdNode.path, ClusterIdNode.encode(new_cluster_id))])
            except Conflict:
                await self.store.sync()  # another broker of a new cluster was faster: use its id
        node = await self.store.get(ClusterIdNode.path)
        assert node is not None
        return ClusterIdNode.decode(node.value)

    # -- registration and controller claim -------------------------------------------------------------------------

    async def is_ours(self, broker_id: int, process_id: str) -> bool:
        """Whether the latest incarnation of the broker belongs to this process, or there is none yet."""
        await self.store.sync()  # in a new session, a server that lags behind may not know our own last incarnation
        node = await self.store.get(IncarnationNode.path(broker_id))
        return node is None or IncarnationNode.process_id(broker_id, node.value) == process_id

    async def begin_incarnation(self, broker: BrokerImage, process_id: str, *, registered: bool = False) -> BrokerImage:
        """Begin a new incarnation of the broker, and return the broker with its new epoch. It is alive once it is
        registered: in the same commit with `registered`, or later by `register`.

        Raises IdTaken if a broker with another data directory is registered under the id.
        """
        path = IncarnationNode.path(broker.id)
        value = IncarnationNode.encode(broker.directory_id, process_id)
        for _ in range(MAX_CLAIM_ATTEMPTS):
            incarnation, there = await self.store.get_each([path, BrokerNode.path(broker.id)])
            started = replace(broker, epoch=BrokerEpoch(0 if incarnation is None else incarnation.version + 1))
            registration = self._registration(started, there)
            counted: Operation = Create(path, value) if incarnation is None else Set(path, value, incarnation.version)
            try:
                await self.store.commit([counted, *registration] if registered else [counted])
            except Conflict:
                await self.store.sync()
                continue
            self._registered = started.epoch if registered else self._registered
            return started
        raise StoreError(f"broker {broker.id} cannot be registered: other processes keep registering the same id")

    async def register(self, broker: BrokerImage) -> None:
        """Register the broker as alive for the duration of this session, unless a later incarnation of it has begun.

        The registration of an earlier incarnation is replaced, so there is no need to wait for the end of its session.
        """
        incarnation = IncarnationNode.path(broker.id)
        for _ in range(MAX_CLAIM_ATTEMPTS):
            registration = self._registration(broker, await self.store.get(BrokerNode.path(broker.id)))
            try:
                await self.store.commit([Check(incarnation, broker.epoch), *registration])
            except Conflict as conflict:
                if conflict.path == incarnation:
                    raise _taken(broker) from conflict
                await self.store.sync()
                continue
            self._registered = broker.epoch
            return
        raise StoreError(f"broker {broker.id} cannot be registered: other processes keep registering the same id")

    def _registration(self, broker: BrokerImage, there: StoredNode | None) -> list[Operation]:
        path = BrokerNode.path(broker.id)
        creation = Create(path, BrokerNode.encode(broker), ephemeral=True)
        if there is None:
            return [creation]
        self._check_the_same(broker, there)
        return [Delete(path, there.version), creation]

    def _check_the_same(self, broker: BrokerImage, node: StoredNode) -> None:
        there = BrokerNode.decode(str(broker.id), node.value)
        if there.epoch != self._registered and not broker.shares_directory(there):
            raise _taken(broker, there)

    async def become_controller(self, broker_id: int) -> None:
        """Make the broker the controller. Raises `FencedController` if another broker is.

        The claim of a former incarnation of the same broker is replaced. Otherwise there would be no controller until
        the end of its session.
        """
        for _ in range(MAX_CLAIM_ATTEMPTS):
            count, there = await self.store.get_each([ControllerEpochNode.path, ControllerNode.path])
            operations: list[Operation] = []
            if there is not None:
                if ControllerNode.decode(there.value) != broker_id:
                    raise FencedController(f"broker {broker_id} cannot be controller: another broker is")
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
        raise StoreError(f"broker {broker_id} cannot be controller: the controller epoch keeps changing")

    # -- reading ---------------------------------------------------------------------------------------------------

    async def load(self) -> ClusterImage:
        """Read everything. A damaged node raises a StoreError that names it."""
        known: dict[str, _Known] = {}
        # Read settings after topics: then a topic never appears without the settings that it was created with.
        topic_nodes = await self.store.read_children(TopicNode.folder)
        topic_configs = _configs(await self.store.read_children(TopicConfigNode.folder), TopicConfigNode, known)
        broker_configs = _configs(await self.store.read_children(BrokerConfigNode.folder), BrokerConfigNode, known)
        group_configs = _configs(await self.store.read_children(GroupConfigNode.folder), GroupConfigNode, known)
        topics = []
        for name, node in topic_nodes.items():
            topics.append(TopicNode.decode(name, node.value, topic_configs.get(name, EMPTY), self.states))
            known[TopicNode.path(name)] = _Known(node.version, node.created)
        brokers = []
        for name, node in (await self.store.read_children(BrokerNode.folder)).items():
            brokers.append(BrokerNode.decode(name, node.value))
            known[BrokerNode.path(int(name))] = _Known(node.version, node.created)
        security = NO_SECURITY
        for kind in SECURITY_NODES:
            security = security.changed(kind.part, _security(await self.store.read_children(kind.folder), kind, known))
        cluster_id, controller = await self.store.get_each([ClusterIdNode.path, ControllerNode.path])
        if cluster_id is None:
            raise StoreError(f"the metadata store: {ClusterIdNode.path} is missing")
        self._known = known
        image = ClusterImage(
            ClusterIdNode.decode(cluster_id.value),
            NO_CONTROLLER if controller is None else ControllerNode.decode(controller.value),
            broker_configs={BrokerConfigNode.resource_name(name): configs for name, configs in broker_configs.items()},
            group_configs={GroupConfigNode.group_id(name): configs for name, configs in group_configs.items()},
            security=security,
        )
        return image.with_brokers(brokers).with_topics(topics)

    async def reread(self, image: ClusterImage, paths: Iterable[str]) -> ClusterImage:
        """The image with the current content of these paths. A damaged node keeps its old content and is logged."""
        by_folder: dict[str, dict[str, None]] = {}
        for path in paths:
            folder, name = split(path)
            by_folder.setdefault(folder, {})[name] = None
        topic_names, config_names = by_folder.get(TopicNode.folder, {}), by_folder.get(TopicConfigNode.folder, {})
        if topic_names or config_names:
            image = await self._reread_topics(image, topic_names, config_names)
        # A new incarnation changes the broker epoch, which is stored in the broker's own node.
        broker_names = {**by_folder.get(BrokerNode.folder, {}), **by_folder.get(IncarnationNode.folder, {})}
        if broker_names:
            image = await self._reread_brokers(image, broker_names)
        if names := by_folder.get(BrokerConfigNode.folder):
            changed = await self._reread_configs(BrokerConfigNode, names)
            image = image.with_broker_configs(
                {BrokerConfigNode.resource_name(name): configs for name, configs in changed.items()}
            )
        if names := by_folder.get(GroupConfigNode.folder):
            changed = await self._reread_configs(GroupConfigNode, names)
            image = image.with_group_configs(
                {GroupConfigNode.group_id(name): configs for name, configs in changed.items()}
            )
        security = image.security
        for kind in SECURITY_NODES:
            if names := by_folder.get(kind.folder):
                security = await self._reread_security(security, kind, names)
        if security is not image.security:
            image = replace(image, security=security)
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
                log.error("metadata node cannot be read, its old content stays in use", extra={"reason": str(error)})
                continue
            if before is None or before.id != topic.id:
                new[name] = None
            if topic != before:
                changed[name] = topic
        # Read settings after topics: then a topic never appears without the settings that it was created with.
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
                log.error("metadata node cannot be read, its old content stays in use", extra={"reason": str(error)})
        return image if brokers == image.brokers else image.with_brokers(brokers.values())

    async def _reread_configs(
        self,
        kind: ConfigNodeKind,
        names: Mapping[str, None],
        always: Container[str] = (),
    ) -> dict[str, Mapping[str, str]]:
        """The settings that differ from the image, and those of the names in `always`; empty if a node does not
        exist."""
        changed: dict[str, Mapping[str, str]] = {}
        paths = {name: f"{kind.folder}/{name}" for name in names}
        nodes = await self.store.get_each(list(paths.values()))
        for (name, path), node in zip(paths.items(), nodes, strict=True):
            if self._differs(path, node) or name in always:
                try:
                    changed[name] = EMPTY if node is None else ConfigNode.decode(path, node.value)
                except BadNode as error:
                    log.error(
                        "metadata node cannot be read, its old content stays in use", extra={"reason": str(error)}
                    )
        return changed

    async def _reread_security(
        self, security: SecurityImage, kind: type[SecurityNode[Any, Any]], names: Iterable[str]
    ) -> SecurityImage:
        current: Mapping[Any, Any] = getattr(security, kind.part)
        changed: dict[Any, Any] = {}
        paths = {name: f"{kind.folder}/{name}" for name in names}
        nodes = await self.store.get_each(list(paths.values()))
        for (name, path), node in zip(paths.items(), nodes, strict=True):
            if self._differs(path, node):
                try:
                    key, value = kind.key_of(name), None if node is None else kind.value_of(name, node.value)
                except BadNode as error:
                    log.error(
                        "metadata node cannot be read, its old content stays in use", extra={"reason": str(error)}
                    )
                else:
                    if current.get(key) != value:  # equal after our own commit: listeners see no change
                        changed[key] = value
        return security.changed(kind.part, changed) if changed else security

    def _differs(self, path: str, node: StoredNode | None) -> bool:
        """Whether the node differs from the version that the image has; remembers its version."""
        before = self._known.get(path)
        if node is None:
            self._known.pop(path, None)
            return before is not None
        self._known[path] = now = _Known(node.version, node.created)
        return now != before

    # -- writing ---------------------------------------------------------------------------------------------------

    def operations(self, change: Change) -> list[Operation]:
        """The operations that store a change. Raises `TooLarge` if a value exceeds the limit."""
        if isinstance(change, GroupConfigsChanged):
            return self._store_configs(GroupConfigNode.path(change.group_id), change.configs)
        if isinstance(change, BrokerConfigsChanged):
            return self._store_configs(BrokerConfigNode.path(change.resource_name), change.configs)
        if isinstance(change, SecurityChange):
            key, value = change
            kind = SECURITY_NODES_BY_PART[SECURITY_PARTS[type(change)]]
            return self._store(_short(kind.path(key)), kind.encode(value) if value else None)
        path, config_path = TopicNode.path(change.topic.name), TopicConfigNode.path(change.topic.name)
        if isinstance(change, TopicCreated):
            return [
                Create(path, _fitting(TopicNode.encode(change.topic))),
                *self._store_configs(config_path, change.topic.configs),
            ]
        if isinstance(change, PartitionsChanged):
            return [Set(path, _fitting(TopicNode.encode(change.topic)), self._known[path].version)]
        if isinstance(change, TopicConfigsChanged):
            # The check prevents settings of a topic that is deleted at the same time.
            return [
                Check(path, self._known[path].version),
                *self._store_configs(config_path, change.topic.configs),
            ]
        return [Delete(one, self._known[one].version) for one in (path, config_path) if one in self._known]

    def _store_configs(self, path: str, configs: Mapping[str, str]) -> list[Operation]:
        return self._store(path, ConfigNode.encode(configs) if configs else None)

    def _store(self, path: str, value: bytes | None) -> list[Operation]:
        """Create, set or delete a node, so that it has this value; None: no node."""
        known = self._known.get(path)
        if value is None:
            return [] if known is None else [Delete(path, known.version)]
        return [Create(path, _fitting(value)) if known is None else Set(path, _fitting(value), known.version)]

    async def commit(self, operations: Sequence[Operation], *, as_controller: bool = False) -> None:
        """Store operations, all or nothing, if none of the nodes has changed. With `as_controller`, also only if this
        broker is still the controller."""
        if not as_controller:
            await self.store.commit(operations)
        elif self.claim is None:
            raise FencedController("this broker is not the controller")
        else:
            try:
                await self.store.commit([Check(ControllerEpochNode.path, self.claim.epoch_version), *operations])
            except Conflict as conflict:
                if conflict.path == ControllerEpochNode.path:
                    self.claim = None
                    raise FencedController("this broker is no longer the controller") from conflict
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
    nodes: Mapping[str, StoredNode], kind: ConfigNodeKind, known: dict[str, _Known]
) -> dict[str, Mapping[str, str]]:
    configs: dict[str, Mapping[str, str]] = {}
    for name, node in nodes.items():
        path = f"{kind.folder}/{name}"
        configs[name] = kind.decode(path, node.value)
        known[path] = _Known(node.version, node.created)
    return configs


def _security(
    nodes: Mapping[str, StoredNode], kind: type[SecurityNode[Any, Any]], known: dict[str, _Known]
) -> dict[Any, Any]:
    values: dict[Any, Any] = {}
    for name, node in nodes.items():
        values[kind.key_of(name)] = kind.value_of(name, node.value)
        known[f"{kind.folder}/{name}"] = _Known(node.version, node.created)
    return values


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


def _short(path: str) -> str:
    if len(path) > MAX_PATH_CHARACTERS:
        raise TooLarge(f"its name takes {len(path)} characters to store, {MAX_PATH_CHARACTERS} are allowed")
    return path
