"""Metadata: it survives restarts, is stored before it is published, and changes one request at a time."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from pathlib import Path

import pytest

from moldau.cluster import metadata as metadata_module
from moldau.cluster.configs import Alteration, ConfigOperation, ConfigResourceType
from moldau.cluster.errors import Refusal
from moldau.cluster.image import ALL_BROKERS, ClusterImage, TopicImage, topics_delta
from moldau.cluster.memory_store import MemoryTree
from moldau.cluster.nodes import TopicNode, id_bytes
from moldau.cluster.store import Set, StoreError
from moldau.cluster.topics import MorePartitions, TopicCreation, TopicRef
from moldau.cluster.tree import Tree
from moldau.host.threads import Threads, ThreadsClosed
from moldau.wire.errors import ErrorCode
from tests.support.waiting import loop_turns
from tests.unit.cluster.support import (
    ENGINES,
    Engine,
    SqliteEngine,
    broker,
    code_of,
    interposed,
    new_metadata,
    retention,
    run,
    started,
    topic_of,
)

SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE


# -------------------------------------------------------------------------------------------------------- persistence


def without_epochs(image: ClusterImage) -> list[tuple[object, ...]]:
    """The topics without epochs: if several brokers can share the store, epochs grow with each start."""
    return [
        (topic.name, topic.id, topic.configs, [(state.replicas, state.isr, state.leader) for state in topic.partitions])
        for topic in image.topics.values()
    ]


@pytest.mark.parametrize("kind", sorted(ENGINES))
def test_all_metadata_is_the_same_after_a_restart(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        engine: Engine = ENGINES[kind](tmp_path)
        store = await engine.open()
        first = await started(store)
        await first.create_topics(
            [TopicCreation("a", 5, configs={"retention.ms": "1"}), TopicCreation("b"), TopicCreation("gone")]
        )
        await first.create_partitions([MorePartitions("b", 7)])
        await first.alter_configs(
            [
                retention("b", "9"),
                Alteration(ConfigResourceType.BROKER, ALL_BROKERS, (("segment.bytes", SET, "3"),)),
                Alteration(ConfigResourceType.BROKER, "0", (("segment.bytes", SET, "4"),)),
            ]
        )
        await first.delete_topics([TopicRef("gone")])
        before = first.image
        await first.stop()
        await store.close()

        store = await engine.open()
        second = await started(store)
        after = second.image
        assert without_epochs(after) == without_epochs(before)
        assert after.topic_names_by_id == before.topic_names_by_id
        assert (
            after.broker_configs
            == before.broker_configs
            == {ALL_BROKERS: {"segment.bytes": "3"}, "0": {"segment.bytes": "4"}}
        )
        assert after.cluster_id == before.cluster_id
        assert len(id_bytes(after.cluster_id)) == 16
        assert after.brokers[0].epoch > before.brokers[0].epoch
        assert [len(topic.partitions) for topic in after.topics.values()] == [5, 7]
        assert code_of((await second.create_topics([TopicCreation("a")]))[0]) == ErrorCode.TOPIC_ALREADY_EXISTS
        topic_of((await second.create_topics([TopicCreation("gone")]))[0])
        await store.close()
        await engine.dispose()

    run(scenario())


def test_a_deleted_topic_leaves_nothing_in_the_store_and_its_name_gets_a_new_id() -> None:
    async def scenario() -> None:
        store = MemoryTree().session()
        metadata = await started(store)
        (first,) = await metadata.create_topics([TopicCreation("t", configs={"retention.ms": "1"})])
        (deleted,) = await metadata.delete_topics([TopicRef(topic_id=topic_of(first).id)])
        assert deleted == first
        assert await store.children("/topics") == await store.children("/config/topics") == []
        (second,) = await metadata.create_topics([TopicCreation("t")])
        assert topic_of(second).id != topic_of(first).id
        assert topic_of(second).configs == {}

    run(scenario())


def test_settings_that_are_all_deleted_leave_no_node() -> None:
    async def scenario() -> None:
        store = MemoryTree().session()
        metadata = await started(store)
        await metadata.create_topics([TopicCreation("t")])
        assert await metadata.alter_configs([retention("t", "1")]) == [None]
        assert await store.children("/config/topics") == ["t"]
        assert await metadata.alter_configs([retention("t", "2")]) == [None]
        undo = Alteration(ConfigResourceType.TOPIC, "t", (("retention.ms", DELETE, None),))
        assert await metadata.alter_configs([undo]) == [None]
        assert await store.children("/config/topics") == []
        assert metadata.image.topics["t"].configs == {}
        assert await metadata.alter_configs([undo]) == [None]

    run(scenario())


def test_nothing_is_stored_when_a_request_is_only_to_be_validated() -> None:
    async def scenario() -> None:
        store = MemoryTree().session()
        metadata = await started(store)
        await metadata.create_topics([TopicCreation("t")])
        before = metadata.image
        good, bad = await metadata.create_topics([TopicCreation("u", 2), TopicCreation("t")], validate_only=True)
        assert len(topic_of(good).partitions) == 2
        assert code_of(bad) == ErrorCode.TOPIC_ALREADY_EXISTS
        assert (
            len(
                topic_of((await metadata.create_partitions([MorePartitions("t", 9)], validate_only=True))[0]).partitions
            )
            == 9
        )
        assert await metadata.alter_configs([retention("t", "5")], validate_only=True) == [None]
        assert (
            code_of((await metadata.alter_configs([retention("t", "x")], validate_only=True))[0])
            == ErrorCode.INVALID_CONFIG
        )
        assert metadata.image is before
        assert await store.children("/topics") == ["t"]
        assert await store.children("/config/topics") == []

    run(scenario())


@pytest.mark.parametrize(("topics", "partitions"), [(1_000, 10), (1, 10_000)])
def test_ten_thousand_partitions_are_loaded_as_they_were(topics: int, partitions: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = SqliteEngine(tmp_path)
        store = await engine.open()
        first = await started(store)
        await first.create_topics([TopicCreation(f"t{number}", partitions) for number in range(topics)])
        await store.close()
        store = await engine.open()
        second = await started(store)
        assert second.image.topics == first.image.topics
        assert sum(len(topic.partitions) for topic in second.image.topics.values()) == 10_000
        states = {id(state) for topic in second.image.topics.values() for state in topic.partitions}
        assert len(states) == 1, "equal partition states are not shared"
        await store.close()
        await engine.dispose()

    run(scenario())


def test_the_store_of_a_single_broker_takes_the_cluster_id_of_its_logs(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = SqliteEngine(tmp_path)
        store = await engine.open()
        image = await new_metadata(store).open("remembered")
        assert image.cluster_id == "remembered"
        await store.close()
        await engine.dispose()

    run(scenario())


def test_the_start_is_refused_for_logs_of_another_cluster_or_without_a_cluster() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        with pytest.raises(StoreError, match=r"no cluster in the metadata store, but .* belong to cluster remembered"):
            await new_metadata(tree.session()).open("remembered")
        assert await tree.session().get("/cluster/id") is None, "a cluster was created in the store"
        image = await new_metadata(tree.session()).open(None)
        with pytest.raises(StoreError, match=f"belongs to cluster {image.cluster_id}, but .* to cluster other"):
            await new_metadata(tree.session()).open("other")

    run(scenario())


def test_a_damaged_node_stops_the_start_and_is_named() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        one = tree.session()
        await (await started(one)).create_topics([TopicCreation("t")])
        await one.commit([Set("/topics/t", b"{}")])
        await one.close()
        with pytest.raises(StoreError, match="/topics/t cannot be understood"):
            await started(tree.session())

    run(scenario())


# ------------------------------------------------------------------------------------------------------------ listeners


def test_listeners_see_each_image_once_it_is_stored_and_before_the_answer() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        metadata = new_metadata(tree.session())
        seen: list[tuple[ClusterImage, ClusterImage]] = []

        def listener(old: ClusterImage, new: ClusterImage) -> None:
            assert all(tree.get(TopicNode.path(name)) is not None for name in new.topics), (
                "published before it was stored"
            )
            assert metadata.image is new
            seen.append((old, new))

        end = metadata.listen(listener)
        await metadata.open()
        await metadata.register(broker(0))
        assert [(len(old.brokers), len(new.brokers)) for old, new in seen] == [(0, 0), (0, 1)]
        await metadata.create_topics([TopicCreation("t"), TopicCreation("t2")])
        assert [topic.name for topic in topics_delta(*seen[-1]).created] == ["t", "t2"]
        await metadata.create_topics([TopicCreation("t")])
        await metadata.refresh()
        assert len(seen) == 3, "an image that changed nothing was published"
        await metadata.delete_topics([TopicRef("t")])
        assert [topic.name for topic in topics_delta(*seen[-1]).deleted] == ["t"]
        assert all(new is later_old for (_, new), (later_old, _) in pairwise(seen))
        end()
        await metadata.delete_topics([TopicRef("t2")])
        assert len(seen) == 4

    run(scenario())


def test_a_listener_that_fails_is_logged_and_the_others_are_called(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        metadata = await started(MemoryTree().session())
        seen: list[ClusterImage] = []

        def failing(_old: ClusterImage, _new: ClusterImage) -> None:
            raise OSError("no room for a log")

        metadata.listen(failing)
        metadata.listen(lambda _old, new: seen.append(new))
        topic_of((await metadata.create_topics([TopicCreation("t")]))[0])
        assert list(seen[0].topics) == ["t"]

    with caplog.at_level(logging.ERROR):
        run(scenario())
    assert "a listener failed" in caplog.text


def test_a_broker_that_registers_again_has_new_endpoints_and_a_later_epoch() -> None:
    async def scenario() -> None:
        metadata = await started(MemoryTree().session())
        before = metadata.image.brokers[0]
        await metadata.register(broker(0, rack="moved"))
        after = metadata.image.brokers[0]
        assert after.rack == "moved"
        assert after.epoch > before.epoch >= 0

    run(scenario())


# ---------------------------------------------------------------------------------------------------------- concurrency


def test_topics_of_many_requests_take_turns_on_the_brokers() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        metadata = await started(tree.session())
        others = [Tree(tree.session()) for _ in range(2)]
        for broker_id, other in enumerate(others, start=1):
            await other.register(await other.begin_incarnation(broker(broker_id), "a-process"))
        await metadata.refresh()
        for number in range(9):
            await metadata.create_topics([TopicCreation(f"t{number}", 1)])
        leaders = [topic.partitions[0].leader for topic in metadata.image.topics.values()]
        assert sorted(leaders) == [0, 0, 0, 1, 1, 1, 2, 2, 2]

    run(scenario())


@pytest.mark.parametrize("kind", sorted(ENGINES))
def test_requests_at_the_same_time_are_done_one_after_the_other(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        engine: Engine = ENGINES[kind](tmp_path)
        store = await engine.open()
        metadata = await started(store)
        answers = await asyncio.gather(
            *[metadata.create_topics([TopicCreation("t"), TopicCreation(f"t{n}")]) for n in range(20)]
        )
        assert sum(isinstance(same, TopicImage) for same, _ in answers) == 1
        assert all(isinstance(own, TopicImage) for _, own in answers)
        grown = await asyncio.gather(*[metadata.create_partitions([MorePartitions("t", n)]) for n in range(1, 12)])
        sizes = [len(topic.partitions) for (topic,) in grown if isinstance(topic, TopicImage)]
        assert sizes == sorted(set(sizes))
        assert len(metadata.image.topics["t"].partitions) == 11
        await asyncio.gather(*[metadata.alter_configs([retention(f"t{n}", str(n))]) for n in range(20)])
        expected = {f"t{n}": {"retention.ms": str(n)} for n in range(20)}
        assert {name: topic.configs for name, topic in metadata.image.topics.items() if name != "t"} == expected
        in_memory = metadata.image
        await metadata.refresh()
        assert metadata.image is in_memory, "the store differs from the image"
        await store.close()
        await engine.dispose()

    run(scenario())


def test_a_request_whose_caller_is_cancelled_is_finished_and_published() -> None:
    async def scenario() -> None:
        metadata = await started(MemoryTree().session())
        seen: list[ClusterImage] = []
        metadata.listen(lambda _old, new: seen.append(new))
        request = asyncio.ensure_future(metadata.create_topics([TopicCreation("t")]))
        await loop_turns()
        request.cancel()
        await asyncio.wait([request])
        assert request.cancelled()
        await metadata.stop()
        assert [list(image.topics) for image in seen] == [["t"]]

    run(scenario())


def test_a_stopped_controller_finishes_running_requests_and_refuses_others() -> None:
    async def scenario() -> None:
        metadata = await started(MemoryTree().session())
        begun = asyncio.ensure_future(metadata.create_topics([TopicCreation("t")]))
        await loop_turns()
        stopping = asyncio.ensure_future(metadata.stop())
        await loop_turns()
        (late,) = await metadata.create_topics([TopicCreation("u")])
        assert code_of(late) == ErrorCode.NOT_CONTROLLER
        await stopping
        topic_of((await begun)[0])

    run(scenario())


def test_no_more_requests_wait_than_the_bound_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_module, "MAX_WAITING_REQUESTS", 3)

    async def scenario() -> None:
        metadata = await started(MemoryTree().session())
        answers = await asyncio.gather(*[metadata.create_topics([TopicCreation(f"t{n}")]) for n in range(5)])
        refused = [answer for (answer,) in answers if isinstance(answer, Refusal)]
        assert [answer.code for answer in refused] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED] * 2
        topic_of((await metadata.create_topics([TopicCreation("later")]))[0])

    run(scenario())


def test_a_large_request_is_committed_in_parts_that_a_store_can_carry() -> None:
    async def scenario() -> None:
        _, session = interposed()
        metadata = await started(session)
        sizes: list[int] = []
        session.before_commit = lambda operations: sizes.append(
            sum(len(operation.path) + len(getattr(operation, "value", b"")) for operation in operations)
        )
        configs = {"leader.throttled": "x" * 3_000}
        names = [f"{number:05}" + "n" * 240 for number in range(1_200)]
        for answer in await metadata.create_topics([TopicCreation(name, 1, configs=configs) for name in names]):
            topic_of(answer)
        assert len(metadata.image.topics) == 1_200
        assert len(sizes) >= 3
        assert max(sizes) < 1_000_000

    run(scenario())


def test_a_pool_that_is_closed_too_early_gives_an_error_response(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = SqliteEngine(tmp_path)
        store = await engine.open()
        metadata = await started(store)
        await engine.threads.close()
        with pytest.raises(ThreadsClosed):
            await engine.threads.run("any", int)
        (answer,) = await metadata.create_topics([TopicCreation("t")])
        assert code_of(answer) == ErrorCode.KAFKA_STORAGE_ERROR
        store._threads = Threads()
        await store.close()
        await store._threads.close()

    run(scenario())
