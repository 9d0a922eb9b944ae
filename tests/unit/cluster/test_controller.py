"""The controller: stores before it tells, survives conflicts, crashes and cancelled callers, yields to successors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from moldau.cluster import controller as controller_module
from moldau.cluster.configs import Alteration, ConfigOperation, ResourceType
from moldau.cluster.controller import Controller
from moldau.cluster.image import ALL_BROKERS, ClusterImage, TopicImage, topics_delta
from moldau.cluster.memory_store import MemoryStore, MemoryTree
from moldau.cluster.nodes import ControllerEpochNode, ControllerNode, TopicNode, id_bytes
from moldau.cluster.refusal import Refusal
from moldau.cluster.store import Create, Delete, Operation, Set, Store, StoreError
from moldau.cluster.topics import MorePartitions, NewTopic, TopicRef
from moldau.cluster.tree import NotController, Tree
from moldau.host.threads import Threads, ThreadsClosed
from moldau.wire.errors import ErrorCode
from tests.unit.cluster.support import ENGINES, Engine, SqliteEngine, broker, new_controller, run

SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE


def topic_of(answer: TopicImage | Refusal) -> TopicImage:
    assert isinstance(answer, TopicImage), answer
    return answer


def code_of(answer: object) -> ErrorCode:
    assert isinstance(answer, Refusal), answer
    return answer.code


async def started(store: Store, broker_id: int = 0) -> Controller:
    controller = new_controller(store)
    await controller.start(broker(broker_id))
    return controller


def retention(topic: str, value: str) -> Alteration:
    return Alteration(ResourceType.TOPIC, topic, (("retention.ms", SET, value),))


class Interposed(MemoryStore):
    """A session in which `before_commit` can do something, or fail, each time before a commit."""

    before_commit: Callable[[Sequence[Operation]], None] = staticmethod(lambda _operations: None)

    async def commit(self, operations: Sequence[Operation]) -> None:
        self.before_commit(operations)
        await super().commit(operations)


def interposed() -> tuple[MemoryTree, Interposed]:
    tree = MemoryTree()
    session = Interposed(tree)
    tree._sessions.append(session)
    return tree, session


# -------------------------------------------------------------------------------------------------------- persistence


@pytest.mark.parametrize("kind", sorted(ENGINES))
def test_everything_is_there_again_after_a_restart(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        engine: Engine = ENGINES[kind](tmp_path)
        store = await engine.open()
        first = await started(store)
        await first.create_topics([NewTopic("a", 5, configs={"retention.ms": "1"}), NewTopic("b"), NewTopic("gone")])
        await first.create_partitions([MorePartitions("b", 7)])
        await first.alter_configs(
            [
                retention("b", "9"),
                Alteration(ResourceType.BROKER, ALL_BROKERS, (("segment.bytes", SET, "3"),)),
                Alteration(ResourceType.BROKER, "0", (("segment.bytes", SET, "4"),)),
            ]
        )
        await first.delete_topics([TopicRef("gone")])
        before = first.image
        await first.stop()
        await store.close()

        store = await engine.open()
        second = await started(store)
        after = second.image
        assert after.topics == before.topics
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
        assert code_of((await second.create_topics([NewTopic("a")]))[0]) == ErrorCode.TOPIC_ALREADY_EXISTS
        topic_of((await second.create_topics([NewTopic("gone")]))[0])
        await store.close()
        await engine.dispose()

    run(scenario())


def test_a_deleted_topic_leaves_nothing_in_the_store_and_its_name_gets_a_new_id() -> None:
    async def scenario() -> None:
        store = MemoryTree().session()
        controller = await started(store)
        (first,) = await controller.create_topics([NewTopic("t", configs={"retention.ms": "1"})])
        (deleted,) = await controller.delete_topics([TopicRef(topic_id=topic_of(first).id)])
        assert deleted == first
        assert await store.children("/topics") == await store.children("/config/topics") == []
        (second,) = await controller.create_topics([NewTopic("t")])
        assert topic_of(second).id != topic_of(first).id
        assert topic_of(second).configs == {}

    run(scenario())


def test_settings_that_are_all_deleted_leave_no_node() -> None:
    async def scenario() -> None:
        store = MemoryTree().session()
        controller = await started(store)
        await controller.create_topics([NewTopic("t")])
        assert await controller.alter_configs([retention("t", "1")]) == [None]
        assert await store.children("/config/topics") == ["t"]
        assert await controller.alter_configs([retention("t", "2")]) == [None]
        undo = Alteration(ResourceType.TOPIC, "t", (("retention.ms", DELETE, None),))
        assert await controller.alter_configs([undo]) == [None]
        assert await store.children("/config/topics") == []
        assert controller.image.topics["t"].configs == {}
        assert await controller.alter_configs([undo]) == [None]

    run(scenario())


def test_nothing_is_stored_when_a_request_is_only_to_be_validated() -> None:
    async def scenario() -> None:
        store = MemoryTree().session()
        controller = await started(store)
        await controller.create_topics([NewTopic("t")])
        before = controller.image
        good, bad = await controller.create_topics([NewTopic("u", 2), NewTopic("t")], validate_only=True)
        assert len(topic_of(good).partitions) == 2
        assert code_of(bad) == ErrorCode.TOPIC_ALREADY_EXISTS
        assert (
            len(
                topic_of(
                    (await controller.create_partitions([MorePartitions("t", 9)], validate_only=True))[0]
                ).partitions
            )
            == 9
        )
        assert await controller.alter_configs([retention("t", "5")], validate_only=True) == [None]
        assert (
            code_of((await controller.alter_configs([retention("t", "x")], validate_only=True))[0])
            == ErrorCode.INVALID_CONFIG
        )
        assert controller.image is before
        assert await store.children("/topics") == ["t"]
        assert await store.children("/config/topics") == []

    run(scenario())


@pytest.mark.parametrize(("topics", "partitions"), [(1_000, 10), (1, 10_000)])
def test_ten_thousand_partitions_are_loaded_as_they_were(topics: int, partitions: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = SqliteEngine(tmp_path)
        store = await engine.open()
        first = await started(store)
        await first.create_topics([NewTopic(f"t{number}", partitions) for number in range(topics)])
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


def test_a_new_store_takes_the_cluster_id_that_the_logs_remember_and_another_clusters_store_is_refused() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        one = tree.session()
        image = await new_controller(one).start(broker(0), cluster_id="remembered")
        assert image.cluster_id == "remembered"
        await one.close()
        with pytest.raises(StoreError, match="belongs to cluster remembered, but the log directories to cluster other"):
            await new_controller(tree.session()).start(broker(0), cluster_id="other")

    run(scenario())


def test_a_damaged_node_stops_the_start_and_is_named() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        one = tree.session()
        await (await started(one)).create_topics([NewTopic("t")])
        await one.commit([Set("/topics/t", b"{}")])
        await one.close()
        with pytest.raises(StoreError, match="/topics/t cannot be understood"):
            await started(tree.session())

    run(scenario())


# ------------------------------------------------------------------------------------------------------------ listeners


def test_listeners_see_each_image_once_it_is_stored_and_before_the_answer() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        controller = new_controller(tree.session())
        seen: list[tuple[ClusterImage, ClusterImage]] = []

        def listener(old: ClusterImage, new: ClusterImage) -> None:
            assert all(tree.get(TopicNode.path(name)) is not None for name in new.topics), "told before it was stored"
            assert controller.image is new
            seen.append((old, new))

        end = controller.listen(listener)
        await controller.start(broker(0))
        assert [(len(old.brokers), len(new.brokers)) for old, new in seen] == [(0, 1)]
        await controller.create_topics([NewTopic("t"), NewTopic("t2")])
        assert [topic.name for topic in topics_delta(*seen[-1]).created] == ["t", "t2"]
        await controller.create_topics([NewTopic("t")])
        await controller.refresh()
        assert len(seen) == 2, "an image that changed nothing was published"
        await controller.delete_topics([TopicRef("t")])
        assert [topic.name for topic in topics_delta(*seen[-1]).deleted] == ["t"]
        assert all(new is later_old for (_, new), (later_old, _) in pairwise(seen))
        end()
        await controller.delete_topics([TopicRef("t2")])
        assert len(seen) == 3

    run(scenario())


def test_a_listener_that_fails_is_logged_and_the_others_are_called(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        controller = await started(MemoryTree().session())
        seen: list[ClusterImage] = []

        def failing(_old: ClusterImage, _new: ClusterImage) -> None:
            raise OSError("no room for a log")

        controller.listen(failing)
        controller.listen(lambda _old, new: seen.append(new))
        topic_of((await controller.create_topics([NewTopic("t")]))[0])
        assert list(seen[0].topics) == ["t"]

    with caplog.at_level(logging.ERROR):
        run(scenario())
    assert "a listener failed" in caplog.text


def test_a_broker_that_registers_again_has_new_endpoints_and_a_later_epoch() -> None:
    async def scenario() -> None:
        controller = await started(MemoryTree().session())
        before = controller.image.brokers[0]
        await controller.register(broker(0, rack="moved"))
        after = controller.image.brokers[0]
        assert after.rack == "moved"
        assert after.epoch > before.epoch > 0

    run(scenario())


# ----------------------------------------------------------------------------------------- conflicts, failures, fencing


def test_a_request_that_meets_a_conflict_is_decided_again_over_what_is_stored() -> None:
    async def scenario() -> None:
        tree, session = interposed()
        controller = await started(session)
        await controller.create_topics([NewTopic("mine")])
        images: list[ClusterImage] = []
        controller.listen(lambda _old, new: images.append(new))
        foreign = TopicNode.encode(TopicImage("theirs", b"t" * 16, controller.image.topics["mine"].partitions))
        other = tree.session()

        def interfere(_operations: Sequence[Operation]) -> None:
            session.before_commit = lambda _operations: None
            tree.commit(other, [Create("/topics/theirs", foreign)])

        session.before_commit = interfere
        theirs, more = await controller.create_topics([NewTopic("theirs"), NewTopic("more")])
        assert code_of(theirs) == ErrorCode.TOPIC_ALREADY_EXISTS
        topic_of(more)
        assert sorted(controller.image.topics) == ["mine", "more", "theirs"]
        assert controller.image.topic_by_id(b"t" * 16) is not None
        assert [sorted(image.topics) for image in images] == [["mine", "theirs"], ["mine", "more", "theirs"]]

    run(scenario())


def test_a_growing_topic_that_was_changed_meanwhile_keeps_that_change() -> None:
    async def scenario() -> None:
        tree, session = interposed()
        controller = await started(session)
        (topic,) = await controller.create_topics([NewTopic("t", 1)])
        grown = TopicImage("t", topic_of(topic).id, topic_of(topic).partitions * 4)
        other = tree.session()

        def interfere(_operations: Sequence[Operation]) -> None:
            session.before_commit = lambda _operations: None
            tree.commit(other, [Set("/topics/t", TopicNode.encode(grown))])

        session.before_commit = interfere
        (answer,) = await controller.create_partitions([MorePartitions("t", 3)])
        assert code_of(answer) == ErrorCode.INVALID_PARTITIONS
        assert len(controller.image.topics["t"].partitions) == 4

    run(scenario())


def test_settings_of_a_topic_that_was_deleted_meanwhile_are_not_stored() -> None:
    async def scenario() -> None:
        tree, session = interposed()
        controller = await started(session)
        await controller.create_topics([NewTopic("t")])
        other = tree.session()

        def interfere(_operations: Sequence[Operation]) -> None:
            session.before_commit = lambda _operations: None
            tree.commit(other, [Delete("/topics/t")])

        session.before_commit = interfere
        (answer,) = await controller.alter_configs([retention("t", "1")])
        assert code_of(answer) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert tree.children("/config/topics") == []

    run(scenario())


def test_settings_that_a_topic_left_behind_are_not_those_of_the_next_topic_of_that_name() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        first = tree.session()
        await (await started(first)).create_topics([NewTopic(name, configs={"retention.ms": "1"}) for name in "ab"])
        await first.commit([Delete("/topics/a"), Delete("/topics/b")])
        await first.close()
        second = await started(tree.session())
        plain, other = await second.create_topics([NewTopic("a"), NewTopic("b", configs={"retention.ms": "2"})])
        assert (topic_of(plain).configs, topic_of(other).configs) == ({}, {"retention.ms": "2"})
        before = second.image
        await second.refresh()
        assert second.image is before

    run(scenario())


def test_topics_of_many_requests_take_turns_on_the_brokers() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        controller = await started(tree.session())
        others = [Tree(tree.session()) for _ in range(2)]
        for broker_id, other in enumerate(others, start=1):
            await other.register(broker(broker_id))
        await controller.refresh()
        for number in range(9):
            await controller.create_topics([NewTopic(f"t{number}", 1)])
        leaders = [topic.partitions[0].leader for topic in controller.image.topics.values()]
        assert sorted(leaders) == [0, 0, 0, 1, 1, 1, 2, 2, 2]

    run(scenario())


def test_a_store_that_changes_all_the_time_ends_in_a_time_out_that_clients_retry() -> None:
    async def scenario() -> None:
        tree, session = interposed()
        controller = await started(session)
        await controller.create_topics([NewTopic("t")])
        other = tree.session()
        attempts = 0

        def interfere(_operations: Sequence[Operation]) -> None:
            nonlocal attempts
            attempts += 1
            node = tree.get("/topics/t")
            assert node is not None
            tree.commit(other, [Set("/topics/t", node.value)])

        session.before_commit = interfere
        (answer,) = await controller.create_partitions([MorePartitions("t", 9)])
        assert code_of(answer) == ErrorCode.REQUEST_TIMED_OUT
        assert attempts == controller_module.MAX_ATTEMPTS

    run(scenario())


def test_a_store_that_fails_is_answered_as_such_and_read_again_before_the_next_request() -> None:
    async def scenario() -> None:
        tree, session = interposed()
        controller = await started(session)

        def done_but_not_heard_of(operations: Sequence[Operation]) -> None:
            tree.commit(session, operations)
            raise StoreError("the connection was lost")

        session.before_commit = done_but_not_heard_of
        refused, missing = await controller.create_topics([NewTopic("t"), NewTopic("bad name")])
        assert code_of(refused) == ErrorCode.KAFKA_STORAGE_ERROR
        assert "the connection was lost" in str(refused)
        assert code_of(missing) == ErrorCode.INVALID_TOPIC_EXCEPTION
        session.before_commit = lambda _operations: None
        (again,) = await controller.create_topics([NewTopic("t")])
        assert code_of(again) == ErrorCode.TOPIC_ALREADY_EXISTS
        assert list(controller.image.topics) == ["t"]

    run(scenario())


def test_a_full_disk_refuses_the_request_and_the_next_one_with_room_succeeds(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = SqliteEngine(tmp_path)
        store = await engine.open()
        controller = await started(store)
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        refused = await controller.create_topics([NewTopic(f"t{number}", 100) for number in range(90)])
        assert {code_of(answer) for answer in refused} == {ErrorCode.KAFKA_STORAGE_ERROR}
        assert controller.image.topics == {}
        store._connection.execute("PRAGMA max_page_count = 1000000")
        for answer in await controller.create_topics([NewTopic(f"t{number}", 100) for number in range(90)]):
            topic_of(answer)
        await store.close()
        await engine.dispose()

    run(scenario())


def test_a_change_that_does_not_fit_in_a_node_is_refused_and_its_neighbours_are_not() -> None:
    async def scenario() -> None:
        controller = await started(MemoryTree().session())
        too_large, fits = await controller.create_topics(
            [NewTopic("large", configs={"leader.throttled": "0:1," * 300_000}), NewTopic("small")]
        )
        assert code_of(too_large) == ErrorCode.POLICY_VIOLATION
        topic_of(fits)

    run(scenario())


def test_a_second_controller_cannot_start_while_the_first_lives_and_takes_over_when_it_is_gone() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        first_session, second_session = tree.session(), tree.session()
        first = await started(first_session, 1)
        await first.create_topics([NewTopic("t")])
        second = new_controller(second_session)
        with pytest.raises(NotController):
            await second.start(broker(2))
        await first_session.close()
        third_session = tree.session()
        third = await started(third_session, 3)
        assert third.image.controller_id == 3
        assert sorted(third.image.brokers) == [2, 3]
        assert list(third.image.topics) == ["t"]

    run(scenario())


def test_a_controller_that_was_replaced_changes_nothing_any_more() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        old_session, new_session = tree.session(), tree.session()
        old = await started(old_session, 1)
        # Its session was lost without its noticing: the node goes, and another broker takes its place.
        await new_session.commit([Delete(ControllerNode.path)])
        new = await started(new_session, 2)
        for _ in range(2):
            (answer,) = await old.create_topics([NewTopic("t")])
            assert code_of(answer) == ErrorCode.NOT_CONTROLLER
        assert await new_session.children("/topics") == []
        topic_of((await new.create_topics([NewTopic("t")]))[0])
        epoch = await new_session.get(ControllerEpochNode.path)
        assert epoch is not None
        assert ControllerEpochNode.decode(epoch.value) == 2

    run(scenario())


def test_a_broker_id_that_another_session_has_is_refused() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        await started(tree.session(), 1)
        with pytest.raises(StoreError, match="another broker has this id"):
            await started(tree.session(), 1)

    run(scenario())


# ---------------------------------------------------------------------------------------------------------- concurrency


@pytest.mark.parametrize("kind", sorted(ENGINES))
def test_requests_at_the_same_time_are_done_one_after_the_other(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        engine: Engine = ENGINES[kind](tmp_path)
        store = await engine.open()
        controller = await started(store)
        answers = await asyncio.gather(
            *[controller.create_topics([NewTopic("t"), NewTopic(f"t{n}")]) for n in range(20)]
        )
        assert sum(isinstance(same, TopicImage) for same, _ in answers) == 1
        assert all(isinstance(own, TopicImage) for _, own in answers)
        grown = await asyncio.gather(*[controller.create_partitions([MorePartitions("t", n)]) for n in range(1, 12)])
        sizes = [len(topic.partitions) for (topic,) in grown if isinstance(topic, TopicImage)]
        assert sizes == sorted(set(sizes))
        assert len(controller.image.topics["t"].partitions) == 11
        await asyncio.gather(*[controller.alter_configs([retention(f"t{n}", str(n))]) for n in range(20)])
        expected = {f"t{n}": {"retention.ms": str(n)} for n in range(20)}
        assert {name: topic.configs for name, topic in controller.image.topics.items() if name != "t"} == expected
        in_memory = controller.image
        await controller.refresh()
        assert controller.image is in_memory, "the store has something else than the image"
        await store.close()
        await engine.dispose()

    run(scenario())


def test_a_request_whose_caller_is_cancelled_is_finished_and_published() -> None:
    async def scenario() -> None:
        controller = await started(MemoryTree().session())
        seen: list[ClusterImage] = []
        controller.listen(lambda _old, new: seen.append(new))
        request = asyncio.ensure_future(controller.create_topics([NewTopic("t")]))
        await asyncio.sleep(0)
        request.cancel()
        await asyncio.wait([request])
        assert request.cancelled()
        await controller.stop()
        assert [list(image.topics) for image in seen] == [["t"]]

    run(scenario())


def test_a_stopped_controller_finishes_what_it_began_and_refuses_the_rest() -> None:
    async def scenario() -> None:
        controller = await started(MemoryTree().session())
        begun = asyncio.ensure_future(controller.create_topics([NewTopic("t")]))
        await asyncio.sleep(0)
        stopping = asyncio.ensure_future(controller.stop())
        await asyncio.sleep(0)
        (late,) = await controller.create_topics([NewTopic("u")])
        assert code_of(late) == ErrorCode.NOT_CONTROLLER
        await stopping
        topic_of((await begun)[0])

    run(scenario())


def test_no_more_requests_wait_than_the_bound_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_module, "MAX_WAITING_REQUESTS", 3)

    async def scenario() -> None:
        controller = await started(MemoryTree().session())
        answers = await asyncio.gather(*[controller.create_topics([NewTopic(f"t{n}")]) for n in range(5)])
        refused = [answer for (answer,) in answers if isinstance(answer, Refusal)]
        assert [answer.code for answer in refused] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED] * 2
        topic_of((await controller.create_topics([NewTopic("later")]))[0])

    run(scenario())


def test_a_large_request_is_committed_in_parts_that_a_store_can_carry() -> None:
    async def scenario() -> None:
        _, session = interposed()
        controller = await started(session)
        sizes: list[int] = []
        session.before_commit = lambda operations: sizes.append(
            sum(len(operation.path) + len(getattr(operation, "value", b"")) for operation in operations)
        )
        configs = {"leader.throttled": "x" * 3_000}
        names = [f"{number:05}" + "n" * 240 for number in range(1_200)]
        for answer in await controller.create_topics([NewTopic(name, 1, configs=configs) for name in names]):
            topic_of(answer)
        assert len(controller.image.topics) == 1_200
        assert len(sizes) >= 3
        assert max(sizes) < 1_000_000

    run(scenario())


def test_a_pool_that_is_closed_too_early_is_an_answer_not_a_crash(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = SqliteEngine(tmp_path)
        store = await engine.open()
        controller = await started(store)
        await engine.threads.close()
        with pytest.raises(ThreadsClosed):
            await engine.threads.run("any", int)
        (answer,) = await controller.create_topics([NewTopic("t")])
        assert code_of(answer) == ErrorCode.KAFKA_STORAGE_ERROR
        store._threads = Threads()
        await store.close()
        await store._threads.close()

    run(scenario())
