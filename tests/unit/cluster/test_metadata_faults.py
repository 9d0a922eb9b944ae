"""Metadata when the store changes, fails, is full, or belongs to a successor."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from moldau.cluster import image_publisher
from moldau.cluster.image import ClusterImage, TopicImage
from moldau.cluster.memory_store import MemoryTree
from moldau.cluster.nodes import BrokerNode, ControllerEpochNode, TopicNode
from moldau.cluster.store import Create, Delete, Operation, Set, StoreError
from moldau.cluster.topics import MorePartitions, TopicCreation
from moldau.wire.errors import ErrorCode
from tests.support.waiting import loop_turns, wait_until_async
from tests.unit.cluster.support import (
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


def test_a_request_with_a_conflict_is_decided_again_on_the_stored_state() -> None:
    async def scenario() -> None:
        tree, session = interposed()
        metadata = await started(session)
        await metadata.create_topics([TopicCreation("mine")])
        images: list[ClusterImage] = []
        metadata.listen(lambda _old, new: images.append(new))
        foreign = TopicNode.encode(TopicImage("theirs", b"t" * 16, metadata.image.topics["mine"].partitions))
        other = tree.session()

        def interfere(_operations: Sequence[Operation]) -> None:
            session.before_commit = lambda _operations: None
            tree.commit(other, [Create("/topics/theirs", foreign)])

        session.before_commit = interfere
        theirs, more = await metadata.create_topics([TopicCreation("theirs"), TopicCreation("more")])
        assert code_of(theirs) == ErrorCode.TOPIC_ALREADY_EXISTS
        topic_of(more)
        assert sorted(metadata.image.topics) == ["mine", "more", "theirs"]
        assert metadata.image.topic_by_id(b"t" * 16) is not None
        assert [sorted(image.topics) for image in images] == [["mine", "theirs"], ["mine", "more", "theirs"]]

    run(scenario())


def test_a_growing_topic_keeps_a_concurrent_change() -> None:
    async def scenario() -> None:
        tree, session = interposed()
        metadata = await started(session)
        (topic,) = await metadata.create_topics([TopicCreation("t", 1)])
        grown = TopicImage("t", topic_of(topic).id, topic_of(topic).partitions * 4)
        other = tree.session()

        def interfere(_operations: Sequence[Operation]) -> None:
            session.before_commit = lambda _operations: None
            tree.commit(other, [Set("/topics/t", TopicNode.encode(grown))])

        session.before_commit = interfere
        (answer,) = await metadata.create_partitions([MorePartitions("t", 3)])
        assert code_of(answer) == ErrorCode.INVALID_PARTITIONS
        assert len(metadata.image.topics["t"].partitions) == 4

    run(scenario())


def test_settings_of_a_topic_that_was_deleted_meanwhile_are_not_stored() -> None:
    async def scenario() -> None:
        tree, session = interposed()
        metadata = await started(session)
        await metadata.create_topics([TopicCreation("t")])
        other = tree.session()

        def interfere(_operations: Sequence[Operation]) -> None:
            session.before_commit = lambda _operations: None
            tree.commit(other, [Delete("/topics/t")])

        session.before_commit = interfere
        (answer,) = await metadata.alter_configs([retention("t", "1")])
        assert code_of(answer) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert tree.children("/config/topics") == []

    run(scenario())


def test_a_recreated_topic_does_not_get_the_settings_of_the_deleted_one() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        first = tree.session()
        await (await started(first)).create_topics(
            [TopicCreation(name, configs={"retention.ms": "1"}) for name in "ab"]
        )
        await first.commit([Delete("/topics/a"), Delete("/topics/b")])
        await first.close()
        second = await started(tree.session())
        plain, other = await second.create_topics(
            [TopicCreation("a"), TopicCreation("b", configs={"retention.ms": "2"})]
        )
        assert (topic_of(plain).configs, topic_of(other).configs) == ({}, {"retention.ms": "2"})
        before = second.image
        await second.refresh()
        assert second.image is before

    run(scenario())


def test_a_store_that_changes_continuously_gives_a_retriable_time_out() -> None:
    async def scenario() -> None:
        tree, session = interposed()
        metadata = await started(session)
        await metadata.create_topics([TopicCreation("t")])
        other = tree.session()
        attempts = 0

        def interfere(_operations: Sequence[Operation]) -> None:
            nonlocal attempts
            attempts += 1
            node = tree.get("/topics/t")
            assert node is not None
            tree.commit(other, [Set("/topics/t", node.value)])

        session.before_commit = interfere
        (answer,) = await metadata.create_partitions([MorePartitions("t", 9)])
        assert code_of(answer) == ErrorCode.REQUEST_TIMED_OUT
        assert attempts == image_publisher.MAX_ATTEMPTS

    run(scenario())


def test_a_store_failure_is_an_error_response_and_the_store_is_read_again_before_the_next_request() -> None:
    async def scenario() -> None:
        tree, session = interposed()
        metadata = await started(session)

        def stored_without_an_answer(operations: Sequence[Operation]) -> None:
            tree.commit(session, operations)
            raise StoreError("the connection was lost")

        session.before_commit = stored_without_an_answer
        refused, missing = await metadata.create_topics([TopicCreation("t"), TopicCreation("bad name")])
        assert code_of(refused) == ErrorCode.KAFKA_STORAGE_ERROR
        assert "the connection was lost" in str(refused)
        assert code_of(missing) == ErrorCode.INVALID_TOPIC_EXCEPTION
        session.before_commit = lambda _operations: None
        (again,) = await metadata.create_topics([TopicCreation("t")])
        assert code_of(again) == ErrorCode.TOPIC_ALREADY_EXISTS
        assert list(metadata.image.topics) == ["t"]

    run(scenario())


def test_a_full_disk_refuses_the_request_and_the_next_one_with_room_succeeds(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = SqliteEngine(tmp_path)
        store = await engine.open()
        metadata = await started(store)
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        refused = await metadata.create_topics([TopicCreation(f"t{number}", 100) for number in range(90)])
        assert {code_of(answer) for answer in refused} == {ErrorCode.KAFKA_STORAGE_ERROR}
        assert metadata.image.topics == {}
        store._connection.execute("PRAGMA max_page_count = 1000000")
        for answer in await metadata.create_topics([TopicCreation(f"t{number}", 100) for number in range(90)]):
            topic_of(answer)
        await store.close()
        await engine.dispose()

    run(scenario())


def test_a_change_that_does_not_fit_in_a_node_is_refused_and_its_neighbours_are_not() -> None:
    async def scenario() -> None:
        metadata = await started(MemoryTree().session())
        too_large, fits = await metadata.create_topics(
            [TopicCreation("large", configs={"leader.throttled": "0:1," * 300_000}), TopicCreation("small")]
        )
        assert code_of(too_large) == ErrorCode.POLICY_VIOLATION
        topic_of(fits)

    run(scenario())


def test_the_first_broker_is_the_controller_and_the_next_one_takes_over_when_it_is_gone() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        first_session = tree.session()
        first = await started(first_session, 1)
        await first.create_topics([TopicCreation("t")])
        second = await started(tree.session(), 2)
        assert (first.leads_cluster, second.leads_cluster) == (True, False)
        assert second.image.controller_id == 1
        await first_session.close()
        await wait_until_async(lambda: second.image.controller_id == 2)
        assert second.leads_cluster
        assert sorted(second.image.brokers) == [2]
        epoch = tree.get(ControllerEpochNode.path)
        assert epoch is not None
        assert ControllerEpochNode.decode(epoch.value) == 2

    run(scenario())


def test_a_broker_id_that_another_session_has_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        tree = MemoryTree(session_timeout_s=0.02)
        await started(tree.session(), 1)
        with pytest.raises(StoreError, match=r"another broker has this id, at \S+:\d+; choose another node.id"):
            await started(tree.session(), 1)
        assert sum("waiting for the end of an earlier session" in line for line in caplog.messages) == 1

    run(scenario())


def test_a_broker_with_an_empty_disk_gets_the_id_of_a_dead_one_after_its_session() -> None:
    async def scenario() -> None:
        tree = MemoryTree(session_timeout_s=0.5)
        former = tree.session()
        await started(former, 1)
        later = new_metadata(tree.session(), 1)
        await later.open()
        registering = asyncio.ensure_future(later.register(replace(broker(1), directory_id="new")))
        await loop_turns(20)
        assert not registering.done()
        tree.expire(former)
        await registering
        assert later.image.brokers[1].directory_id == "new"

    run(scenario())


def test_a_broker_that_restarts_without_one_directory_keeps_its_identity() -> None:
    async def scenario() -> None:
        tree = MemoryTree(session_timeout_s=0.02)
        for directories in ("one,two", "two", "one,two"):
            metadata = new_metadata(tree.session(), 1)
            await metadata.open()
            await metadata.register(replace(broker(1), directory_id=directories))
        other = new_metadata(tree.session(), 1)
        await other.open()
        with pytest.raises(StoreError, match="another broker has this id"):
            await other.register(replace(broker(1), directory_id="three"))

    run(scenario())


def test_a_restarted_broker_replaces_its_old_registration_at_once() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        mine = replace(broker(1), directory_id="my-directory")
        first, second = new_metadata(former := tree.session(), 1), new_metadata(tree.session(), 1)
        for metadata in (first, second):
            await metadata.open()
            await metadata.register(mine)
        assert second.broker_epoch == first.broker_epoch + 1
        assert second.image.brokers[1].epoch == second.broker_epoch
        await former.close()
        node = tree.get(BrokerNode.path(1))
        assert node is not None, "the end of the former session has removed the new registration"
        assert BrokerNode.decode("1", node.value).epoch == second.broker_epoch

    run(scenario())
