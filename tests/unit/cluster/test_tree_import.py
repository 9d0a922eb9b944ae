"""Import of a single broker's metadata into a cluster store: complete, once, and only into an empty store."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from moldau.cluster.memory_store import MemoryStore, MemoryTree
from moldau.cluster.nodes import FOLDERS, ClusterIdNode, ImportNode
from moldau.cluster.store import Create, Delete, Operation, Set, Store, StoredNode, StoreError
from moldau.cluster.tree import Tree
from moldau.cluster.tree_import import ImportedTree, TreeImportRefused, import_tree, require_done
from tests.unit.cluster.support import run

TOPICS = 1_200


class BreaksOff(MemoryStore):
    """A session whose store fails at the commit with this number, or never."""

    def __init__(self, tree: MemoryTree, at: int) -> None:
        super().__init__(tree)
        tree._sessions.append(self)
        self.at = at

    async def commit(self, operations: Sequence[Operation]) -> None:
        self.at -= 1
        if self.at < 0:
            raise StoreError("the connection was lost")
        await super().commit(operations)


async def a_broker_alone(cluster_id: str = "alone") -> MemoryStore:
    store = MemoryTree().session()
    await store.ensure(FOLDERS)
    topics = [Create(f"/topics/t{number:04}", b"state %d" % number) for number in range(TOPICS)]
    await store.commit([Create(ClusterIdNode.path, ClusterIdNode.encode(cluster_id)), Create("/producer-ids", b"7000")])
    await store.commit(topics)
    await store.commit([Set("/topics/t0000", b"grown"), Create("/config/topics/t0001", b"settings")])
    await store.commit([Create("/brokers/ids/1", b"alive", ephemeral=True)])
    return store


async def values(store: Store, folder: str = "/") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    nodes: dict[str, StoredNode] = await store.read_children(folder)
    for name, node in nodes.items():
        path = f"{folder.rstrip('/')}/{name}"
        found[path] = node.value
        found |= await values(store, path)
    return found


def test_everything_except_ephemeral_nodes_is_imported() -> None:
    async def scenario() -> None:
        source, target = await a_broker_alone(), MemoryTree().session()
        assert await import_tree(source, target) == ImportedTree("alone", TOPICS, False)
        expected = await values(source)
        del expected["/brokers/ids/1"]
        assert await values(target) == expected
        assert await Tree(target).prepare("another") == "alone"

    run(scenario())


def test_the_store_records_that_an_import_was_completed() -> None:
    async def scenario() -> None:
        source, target = await a_broker_alone(), MemoryTree().session()
        for elsewhere in (target, await a_broker_alone("other")):
            with pytest.raises(TreeImportRefused, match="imported into another metadata store before"):
                await require_done(source, elsewhere)
        await import_tree(source, target)
        await require_done(source, target)

    run(scenario())


@pytest.mark.parametrize("commits_done", range(5))
def test_an_interrupted_import_continues(commits_done: int) -> None:
    async def scenario() -> None:
        source, tree = await a_broker_alone(), MemoryTree()
        with pytest.raises(StoreError, match="connection was lost"):
            await import_tree(source, BreaksOff(tree, commits_done))
        target = tree.session()
        assert await target.get(ClusterIdNode.path) is None
        if commits_done:
            with pytest.raises(StoreError, match="import into this cluster is not finished"):
                await Tree(target).prepare("a broker that starts too early")
            with pytest.raises(TreeImportRefused, match="import of cluster alone is in progress"):
                await import_tree(await a_broker_alone("another"), target)
        # The broker was started again in between and has changed its metadata.
        await source.commit([Delete("/topics/t0003"), Set("/topics/t0004", b"new"), Create("/topics/later", b"x")])
        assert await import_tree(source, target) == ImportedTree("alone", TOPICS, False)
        expected = await values(source)
        del expected["/brokers/ids/1"]
        assert await values(target) == expected
        assert await target.get(ImportNode.path) is None

    run(scenario())


def test_a_repeated_import_changes_nothing() -> None:
    async def scenario() -> None:
        source, target = await a_broker_alone(), MemoryTree().session()
        await import_tree(source, target)
        await target.commit([Delete("/topics/t0001"), Set("/topics/t0002", b"the cluster lives on")])
        before = await values(target)
        assert await import_tree(source, target) == ImportedTree("alone", TOPICS, True)
        assert await values(target) == before

    run(scenario())


def test_an_import_into_a_non_empty_store_changes_nothing() -> None:
    async def scenario() -> None:
        source, taken, used = await a_broker_alone(), MemoryTree().session(), MemoryTree().session()
        await Tree(taken).prepare("theirs")
        await used.commit([Create("/kafka", b"")])
        for target, why in (
            (taken, "a cluster theirs, but this broker belongs to cluster alone"),
            (used, "not empty.*/kafka"),
        ):
            before = await values(target)
            with pytest.raises(TreeImportRefused, match=why):
                await import_tree(source, target)
            assert await values(target) == before

    run(scenario())


def test_a_broker_that_was_never_started_has_nothing_to_import() -> None:
    async def scenario() -> None:
        with pytest.raises(TreeImportRefused, match="never been started"):
            await import_tree(MemoryTree().session(), MemoryTree().session())

    run(scenario())
