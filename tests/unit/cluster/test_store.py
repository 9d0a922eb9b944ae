"""Rules that every metadata store keeps."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from moldau.cli.zookeeper.server import ZooKeeperEnsemble
from moldau.cluster.store import (
    MAX_OPERATIONS,
    MAX_VALUE_BYTES,
    Check,
    Conflict,
    Create,
    Delete,
    Event,
    EventKind,
    Operation,
    Set,
    Store,
    StoreError,
)
from tests.unit.cluster.support import ENGINES, Engine, MemoryEngine, SqliteEngine, ZookeeperEngine, examples, run

Scenario = Callable[[Store], Awaitable[None]]


@pytest.fixture(params=[*sorted(ENGINES), pytest.param("zookeeper", marks=pytest.mark.needs_java)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    if request.param == "zookeeper":
        ensemble: ZooKeeperEnsemble = request.getfixturevalue("zookeeper")
        return ZookeeperEngine(ensemble.connect)
    return ENGINES[request.param](tmp_path)


def with_store(engine: Engine, scenario: Scenario) -> None:
    async def whole() -> None:
        store = await engine.open()
        try:
            await scenario(store)
        finally:
            await store.close()
            await engine.dispose()

    run(whole())


def test_a_node_begins_at_version_0_and_every_change_adds_one(engine: Engine) -> None:
    async def scenario(store: Store) -> None:
        assert await store.get("/a") is None
        await store.commit([Create("/a", b"one")])
        node = await store.get("/a")
        assert node is not None
        assert (node.value, node.version, node.ephemeral) == (b"one", 0, False)
        await store.commit([Set("/a", b"two", 0), Set("/a", b"", 1)])
        node = await store.get("/a")
        assert node is not None
        assert (node.value, node.version) == (b"", 2)

    with_store(engine, scenario)


def test_a_recreated_node_has_another_creation_number(engine: Engine) -> None:
    async def scenario(store: Store) -> None:
        await store.commit([Create("/a", b"same")])
        first = await store.get("/a")
        await store.commit([Delete("/a")])
        await store.commit([Create("/a", b"same")])
        second = await store.get("/a")
        assert first is not None
        assert second is not None
        assert first.version == second.version == 0
        assert second.created > first.created

    with_store(engine, scenario)


def test_children_are_the_nodes_directly_below_in_order_of_their_names(engine: Engine) -> None:
    async def scenario(store: Store) -> None:
        await store.ensure(["/t", "/tt", "/t/b", "/t/a", "/t/a/deep", "/t/C"])
        assert await store.children("/t") == ["C", "a", "b"]
        assert await store.children("/t/b") == []
        assert await store.children("/nowhere") == []
        assert await store.children("/") == ["t", "tt"]
        read = await store.read_children("/t")
        assert list(read) == ["C", "a", "b"]
        assert read["a"] == await store.get("/t/a")

    with_store(engine, scenario)


EXPECTATIONS_THAT_FAIL: list[tuple[str, Operation, str]] = [
    ("exists already", Create("/a", b""), "/a"),
    ("its parent does not exist", Create("/no/b", b""), "/no/b"),
    ("its parent is ephemeral", Create("/e/b", b""), "/e/b"),
    ("does not exist", Set("/no", b""), "/no"),
    ("does not exist", Delete("/no"), "/no"),
    ("does not exist", Check("/no"), "/no"),
    ("is at version 1, expected was 0|is not at version 0", Set("/a", b"", 0), "/a"),
    ("is at version 1, expected was 2|is not at version 2", Delete("/a", 2), "/a"),
    ("is at version 1, expected was 0|is not at version 0", Check("/a", 0), "/a"),
    ("has children", Delete("/p", 1), "/p"),
]


@pytest.mark.parametrize(("reason", "failing", "path"), EXPECTATIONS_THAT_FAIL)
def test_a_commit_whose_expectation_fails_changes_nothing(
    engine: Engine, reason: str, failing: Operation, path: str
) -> None:
    async def scenario(store: Store) -> None:
        await store.ensure(["/a", "/p", "/p/q"])
        await store.commit([Create("/e", b"", ephemeral=True), Set("/a", b"kept")])
        events: list[Event] = []
        store.watch("/", events.append)
        with pytest.raises(Conflict, match=reason) as conflict:
            await store.commit([Create("/new", b""), Set("/p", b"changed"), failing])
        assert conflict.value.path == path
        assert await store.children("/") == ["a", "e", "p"]
        node = await store.get("/p")
        assert node is not None
        assert (node.value, node.version) == (b"", 0)
        assert events == []

    with_store(engine, scenario)


def test_operations_of_a_commit_see_those_before_them(engine: Engine) -> None:
    async def scenario(store: Store) -> None:
        await store.commit([Create("/a", b""), Create("/a/b", b"1"), Set("/a/b", b"2", 0), Check("/a/b", 1)])
        await store.commit([Delete("/a/b", 1), Delete("/a"), Create("/a", b"again")])
        assert await store.children("/a") == []
        node = await store.get("/a")
        assert node is not None
        assert (node.value, node.version) == (b"again", 0)

    with_store(engine, scenario)


def test_a_commit_without_operations_does_nothing(engine: Engine) -> None:
    async def scenario(store: Store) -> None:
        await store.commit([])
        assert await store.children("/") == []

    with_store(engine, scenario)


@pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a//b", "/", "/.", "/a/..", "/a\0", "/" + "x" * 1_024])
def test_malformed_paths_are_refused(engine: Engine, path: str) -> None:
    async def scenario(store: Store) -> None:
        with pytest.raises(ValueError, match="path"):
            await store.get(path)
        with pytest.raises(ValueError, match="path"):
            await store.commit([Create(path, b"")])

    with_store(engine, scenario)


def test_values_and_commits_are_bounded(engine: Engine) -> None:
    async def scenario(store: Store) -> None:
        await store.commit([Create("/largest", bytes(MAX_VALUE_BYTES))])
        with pytest.raises(ValueError, match="at most"):
            await store.commit([Set("/largest", bytes(MAX_VALUE_BYTES + 1))])
        with pytest.raises(ValueError, match="operations in one commit"):
            await store.commit([Check("/largest")] * (MAX_OPERATIONS + 1))
        node = await store.get("/largest")
        assert node is not None
        assert node.version == 0

    with_store(engine, scenario)


def test_ephemeral_nodes_vanish_with_their_session_and_the_others_stay(engine: Engine) -> None:
    async def scenario() -> None:
        first = await engine.open()
        await first.commit([Create("/stays", b"x"), Create("/goes", b"y", ephemeral=True)])
        node = await first.get("/goes")
        assert node is not None
        assert node.ephemeral
        await first.close()
        second = await engine.open()
        assert await second.children("/") == ["stays"]
        await second.close()
        await engine.dispose()

    run(scenario())


def test_a_closed_store_refuses_work_and_can_be_closed_again(engine: Engine) -> None:
    async def scenario(store: Store) -> None:
        await store.close()
        with pytest.raises(StoreError):
            await store.get("/a")
        with pytest.raises(StoreError):
            await store.commit([Create("/a", b"")])
        await store.close()

    with_store(engine, scenario)


def test_a_watch_reports_changes_at_and_below_its_path_in_the_order_of_commits(engine: Engine) -> None:
    async def scenario(store: Store) -> None:
        await store.ensure(["/topics", "/topicsish"])
        seen: list[Event] = []
        everything: list[Event] = []
        second: list[Event] = []
        end = store.watch("/topics", seen.append)
        store.watch("/topics", second.append)
        store.watch("/", everything.append)
        await store.commit([Create("/topics/a", b""), Check("/topics"), Set("/topicsish", b"not watched")])
        await store.commit([Set("/topics/a", b"1"), Set("/topics", b"1")])
        await store.commit([Delete("/topics/a")])
        expected = [
            Event(EventKind.CREATED, "/topics/a"),
            Event(EventKind.CHANGED, "/topics/a"),
            Event(EventKind.CHANGED, "/topics"),
            Event(EventKind.DELETED, "/topics/a"),
        ]
        assert seen == expected
        assert [event for event in everything if event.path != "/topicsish"] == expected
        assert second == expected
        end()
        end()
        await store.commit([Create("/topics/b", b"")])
        assert seen == expected
        assert everything[-1] == Event(EventKind.CREATED, "/topics/b")

    with_store(engine, scenario)


def test_of_two_commits_that_expect_the_same_version_one_wins(engine: Engine) -> None:
    async def scenario(store: Store) -> None:
        await store.commit([Create("/counter", b"0")])

        async def increment() -> int:
            attempts = 0
            while True:
                attempts += 1
                node = await store.get("/counter")
                assert node is not None
                try:
                    await store.commit([Set("/counter", b"%d" % (int(node.value) + 1), node.version)])
                except Conflict:
                    continue
                return attempts

        attempts = await asyncio.gather(*[increment() for _ in range(8)])
        node = await store.get("/counter")
        assert node is not None
        assert (node.value, node.version) == (b"8", 8)
        assert sum(attempts) > 8, "no increments were concurrent: the test checks nothing"

    with_store(engine, scenario)


def test_ensure_creates_missing_nodes_and_keeps_the_others(engine: Engine) -> None:
    async def scenario(store: Store) -> None:
        await store.commit([Create("/a", b"kept")])
        await store.ensure(["/a", "/a/b", "/a/b/c"])
        node = await store.get("/a")
        assert node is not None
        assert node.value == b"kept"
        assert await store.children("/a/b") == ["c"]
        with pytest.raises(Conflict):
            await store.ensure(["/x/y"])

    with_store(engine, scenario)


PATHS = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/deep"])
VERSIONS = st.sampled_from([-1, 0, 0, 1, 2])
VALUES = st.binary(max_size=3)
OPERATIONS = st.one_of(
    st.builds(Create, PATHS, VALUES, st.booleans()),
    st.builds(Set, PATHS, VALUES, VERSIONS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)
COMMITS = st.lists(st.lists(OPERATIONS, max_size=3), max_size=12)


async def outcome(engine: Engine, commits: list[list[Operation]]) -> list[object]:
    """Everything that can be observed of a store while the commits are done."""
    store = await engine.open()
    seen: list[object] = []
    store.watch("/", seen.append)
    for commit in commits:
        try:
            await store.commit(commit)
        except Conflict as conflict:
            # ZooKeeper does not report the actual version of a node.
            told = re.sub(r"is at version \d+, expected was (\d+)", r"is not at version \1", str(conflict))
            seen.append(told.removesuffix(", which was expected"))
    for path in ("/", "/a", "/b", "/a/x"):
        nodes = await store.read_children(path)
        seen.append({name: (node.value, node.version, node.ephemeral) for name, node in nodes.items()})
    await store.close()
    again = await engine.open()
    seen.extend([await again.children("/"), await again.children("/a")])
    await again.close()
    await engine.dispose()
    return seen


def alone(engine: Callable[[Path], Engine], commits: list[list[Operation]]) -> list[object]:
    with tempfile.TemporaryDirectory() as directory:
        return run(outcome(engine(Path(directory)), commits))


@examples(percent=40)
@given(COMMITS)
def test_both_embedded_engines_answer_any_commits_alike(commits: list[list[Operation]]) -> None:
    assert alone(MemoryEngine, commits) == alone(SqliteEngine, commits)


@pytest.mark.needs_java
@examples(percent=20)
@given(COMMITS)
def test_zookeeper_answers_any_commits_as_the_memory_does(
    zookeeper: ZooKeeperEnsemble, commits: list[list[Operation]]
) -> None:
    assert alone(MemoryEngine, commits) == run(outcome(ZookeeperEngine(zookeeper.connect), commits))
