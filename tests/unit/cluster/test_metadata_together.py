"""Several brokers over one tree: each sees the commits of all."""

from __future__ import annotations

from moldau.cluster.configs import Alteration, ConfigOperation, ConfigResourceType
from moldau.cluster.image import ALL_BROKERS, ClusterImage
from moldau.cluster.memory_store import MemoryTree
from moldau.cluster.metadata import Metadata
from moldau.cluster.topics import MorePartitions, TopicCreation, TopicRef
from tests.support.waiting import wait_until_async
from tests.unit.cluster.support import retention, run, started, topic_of


async def together(tree: MemoryTree, count: int = 3) -> list[Metadata]:
    return [await started(tree.session(), number) for number in range(1, count + 1)]


async def alike(brokers: list[Metadata]) -> ClusterImage:
    """Return when all brokers have the same image."""
    await wait_until_async(lambda: all(one.image == brokers[0].image for one in brokers))
    return brokers[0].image


def test_brokers_see_each_other_join_and_leave() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        brokers = await together(tree)
        image = await alike(brokers)
        assert list(image.brokers) == [1, 2, 3]
        assert image.controller_id == 1
        await brokers.pop(1).close()
        await wait_until_async(lambda: list(brokers[0].image.brokers) == [1, 3])
        assert list((await alike(brokers)).brokers) == [1, 3]

    run(scenario())


def test_a_change_by_any_broker_is_in_all_images() -> None:
    async def scenario() -> None:
        brokers = await together(MemoryTree())
        await alike(brokers)
        one, two, three = brokers
        topic_of((await two.create_topics([TopicCreation("t", 4, 3, configs={"retention.ms": "1"})]))[0])
        image = await alike([two, one, three])
        assert [set(state.replicas) for state in image.topics["t"].partitions] == [{1, 2, 3}] * 4
        assert image.topics["t"].configs == {"retention.ms": "1"}
        topic_of((await three.create_partitions([MorePartitions("t", 6)]))[0])
        assert await one.alter_configs([retention("t", "2")]) == [None]
        everywhere = Alteration(ConfigResourceType.BROKER, ALL_BROKERS, (("segment.bytes", ConfigOperation.SET, "3"),))
        assert await two.alter_configs([everywhere]) == [None]
        group = Alteration(ConfigResourceType.GROUP, "readers/1", (("segment.bytes", ConfigOperation.SET, "4"),))
        assert await three.alter_configs([group]) == [None]
        image = await alike([two, one, three])
        assert image.group_configs == {"readers/1": {"segment.bytes": "4"}}
        assert (len(image.topics["t"].partitions), image.topics["t"].configs) == (6, {"retention.ms": "2"})
        assert image.broker_configs == {ALL_BROKERS: {"segment.bytes": "3"}}
        topic_of((await one.delete_topics([TopicRef("t")]))[0])
        assert (await alike(brokers)).topics == {}

    run(scenario())


def test_a_new_topic_is_never_seen_without_the_settings_that_it_was_made_with() -> None:
    async def scenario() -> None:
        brokers = await together(MemoryTree())
        seen: list[str | None] = []

        def watch(_old: ClusterImage, new: ClusterImage) -> None:
            if "t" in new.topics:
                seen.append(new.topics["t"].configs.get("retention.ms"))

        brokers[2].listen(watch)
        for value in ("1", "2"):
            topic_of((await brokers[0].create_topics([TopicCreation("t", configs={"retention.ms": value})]))[0])
            topic_of((await brokers[0].delete_topics([TopicRef("t")]))[0])
        topic_of((await brokers[0].create_topics([TopicCreation("t", configs={"retention.ms": "3"})]))[0])
        await alike(brokers)
        assert seen[-1] == "3"
        assert set(seen) <= {"1", "2", "3"}

    run(scenario())


def test_topics_are_shared_between_brokers_that_all_create_some() -> None:
    async def scenario() -> None:
        brokers = await together(MemoryTree())
        for number in range(30):
            await brokers[number % 3].create_topics([TopicCreation(f"t{number}", 1, 1)])
            await alike(brokers)
        leaders = [topic.partitions[0].leader for topic in brokers[0].image.topics.values()]
        assert all(leaders.count(broker) >= 5 for broker in (1, 2, 3))

    run(scenario())
