"""Taking a whole metadata tree into another, empty store: how a broker that was alone becomes the first of a cluster.

The tree travels in several commits where it is large. Until the last one, which gives the target its cluster id and
makes it a cluster, a mark says whose half-done transfer it is: whoever starts it again goes on, and anybody else is
refused. Done again after its end it finds the id there, and does nothing.

Every value is taken as it is. Versions begin anew: they count changes within a store, and nothing outlives it that
has seen one. Nodes of sessions stay behind, as sessions do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from moldau.cluster.nodes import ClusterIdNode, ImportNode, TopicNode
from moldau.cluster.store import Conflict, Create, Delete, Node, Operation, Set, Store, StoreError, in_commits


class TransferRefused(StoreError):
    """Why the target is left as it is, for a person."""


class Transferred(NamedTuple):
    """What is in the target now."""

    cluster_id: str
    topics: int
    already: bool
    """It was there before this call."""


async def transfer(source: Store, target: Store) -> Transferred:
    """Takes everything of the source into the target, or `TransferRefused`. The source is only read."""
    identity = await source.get(ClusterIdNode.path)
    if identity is None:
        raise TransferRefused("the broker has never been started: there is nothing to import")
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
            raise TransferRefused(f"another broker has made a cluster there meanwhile ({conflict})") from conflict
    return Transferred(cluster_id, topics, already)


async def require_done(source: Store, target: Store) -> None:
    """`TransferRefused` where the source was not taken into this target, but elsewhere."""
    await target.sync()
    ours, there = await source.get(ClusterIdNode.path), await target.get(ClusterIdNode.path)
    if ours is None or there is None or ours.value != there.value:
        raise TransferRefused("the broker was imported before, into another place; start it with that one")


async def _is_done(target: Store, cluster_id: str) -> bool:
    node = await target.get(ClusterIdNode.path)
    if node is None:
        return False
    there = ClusterIdNode.decode(node.value)
    if there != cluster_id:
        raise TransferRefused(
            f"there is a cluster already ({there}, this broker is of {cluster_id}); "
            "name another chroot, such as HOST:PORT/another"
        )
    return True


async def _begin(target: Store, cluster_id: str) -> None:
    """Marks the target as ours until the end of the transfer."""
    mark = await target.get(ImportNode.path)
    if mark is None:
        if found := await target.children("/"):
            raise TransferRefused(f"there is something else already (/{', /'.join(found[:5])}); name another chroot")
        await target.commit([Create(ImportNode.path, ImportNode.encode(cluster_id))])
    elif (other := ImportNode.decode(mark.value)) != cluster_id:
        raise TransferRefused(f"an import of cluster {other} is under way there; name another chroot")


async def _tree(store: Store) -> dict[str, Node]:
    """All nodes that outlive sessions, by path, parents before their children."""
    found: dict[str, Node] = {}
    folders = ["/"]
    for folder in folders:  # which grows meanwhile
        above = "" if folder == "/" else folder
        for name, node in (await store.read_children(folder)).items():
            if not node.ephemeral:
                found[f"{above}/{name}"] = node
                folders.append(f"{above}/{name}")
    return found


def _difference(wanted: Mapping[str, Node], there: Mapping[str, Node]) -> Iterator[Operation]:
    """What makes one tree of the other. A broken-off transfer may have left more than is wanted now."""
    for path in reversed(list(there)):
        if path not in wanted:
            yield Delete(path)
    for path, node in wanted.items():
        if path not in there:
            yield Create(path, node.value)
        elif there[path].value != node.value:
            yield Set(path, node.value)
