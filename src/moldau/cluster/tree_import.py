"""Transfer of a metadata tree into another, empty store: makes a single broker the first broker of a cluster.

A large tree is copied in several commits. The last commit writes the cluster id, which makes the target a cluster.
Until then, a mark names the broker whose transfer is unfinished: that broker can continue it, and all others are
refused. If the transfer is repeated after its end, it finds the cluster id and does nothing.

Values are copied unchanged. Versions begin again at 0: they count changes within one store, and nothing that has seen a
version survives the transfer. Ephemeral nodes are not copied, because their sessions end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from moldau.cluster.nodes import ClusterIdNode, ImportNode, TopicNode
from moldau.cluster.store import Conflict, Create, Delete, Operation, Set, Store, StoredNode, StoreError, in_commits


class TreeImportRefused(StoreError):
    """The target cannot be used and was not changed. The message is for the operator."""


class ImportedTree(NamedTuple):
    """The content of the target after the call."""

    cluster_id: str
    topics: int
    already: bool
    """Whether the transfer had been completed before this call."""


async def import_tree(source: Store, target: Store) -> ImportedTree:
    """Copy the whole source into the target, or raise `TreeImportRefused`. The source is only read."""
    identity = await source.get(ClusterIdNode.path)
    if identity is None:
        raise TreeImportRefused("the broker has never been started: there is nothing to import")
    cluster_id = ClusterIdNode.decode(identity.value)
    topics = len(await source.children(TopicNode.folder))
    await target.sync()
    already = await _is_done(target, cluster_id)
    if not already:
        await _begin(target, cluster_id)
        nodes = await _tree(source)
        del nodes[ClusterIdNode.path]
        there = await _tree(target)
        del there[ImportNode.path]
        for group in in_commits(_difference(nodes, there), lambda operation: [operation]):
            await target.commit(group)
        try:
            await target.commit([Create(ClusterIdNode.path, identity.value), Delete(ImportNode.path)])
        except Conflict as conflict:
            raise TreeImportRefused(
                f"another broker created a cluster there in the meantime ({conflict})"
            ) from conflict
    return ImportedTree(cluster_id, topics, already)


async def require_done(source: Store, target: Store) -> None:
    """Raise `TreeImportRefused` if the source was imported into another target."""
    await target.sync()
    ours, there = await source.get(ClusterIdNode.path), await target.get(ClusterIdNode.path)
    if ours is None or there is None or ours.value != there.value:
        raise TreeImportRefused("the broker was imported into another metadata store before; start it with that one")


async def _is_done(target: Store, cluster_id: str) -> bool:
    node = await target.get(ClusterIdNode.path)
    if node is None:
        return False
    there = ClusterIdNode.decode(node.value)
    if there != cluster_id:
        raise TreeImportRefused(
            f"there already is a cluster {there}, but this broker belongs to cluster {cluster_id}; "
            "name another chroot, such as HOST:PORT/another"
        )
    return True


async def _begin(target: Store, cluster_id: str) -> None:
    """Mark the target with this cluster's id until the transfer is complete."""
    mark = await target.get(ImportNode.path)
    if mark is None:
        if found := await target.children("/"):
            raise TreeImportRefused(f"the target is not empty (/{', /'.join(found[:5])}); name another chroot")
        await target.commit([Create(ImportNode.path, ImportNode.encode(cluster_id))])
    elif (other := ImportNode.decode(mark.value)) != cluster_id:
        raise TreeImportRefused(f"an import of cluster {other} is in progress there; name another chroot")


async def _tree(store: Store) -> dict[str, StoredNode]:
    """All nodes that are not ephemeral, by path, parents before their children."""
    found: dict[str, StoredNode] = {}
    folders = ["/"]
    for folder in folders:  # grows during the loop
        above = "" if folder == "/" else folder
        for name, node in (await store.read_children(folder)).items():
            if not node.ephemeral:
                found[f"{above}/{name}"] = node
                folders.append(f"{above}/{name}")
    return found


def _difference(wanted: Mapping[str, StoredNode], there: Mapping[str, StoredNode]) -> Iterator[Operation]:
    """The operations that turn `there` into `wanted`. An interrupted transfer may have left nodes that are not wanted
    now."""
    for path in reversed(list(there)):
        if path not in wanted:
            yield Delete(path)
    for path, node in wanted.items():
        if path not in there:
            yield Create(path, node.value)
        elif there[path].value != node.value:
            yield Set(path, node.value)
