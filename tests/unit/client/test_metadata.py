"""Cluster metadata of a client: how a response changes it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.client.data_types import Node, TopicPartition
from moldau.client.metadata import ClusterMetadata, PartitionMetadata, merge, with_leaders
from moldau.client.refresh import Followed
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID, OTHER_ID = bytes(15) + b"\1", bytes(15) + b"\2"


def answer(
    leaders: list[tuple[int, int]], topic_id: bytes = ID, cluster: str = "c", error: int = 0, name: str = "t"
) -> MetadataResponse:
    """A response with a cluster of three brokers and one topic, given by the leader and epoch of each partition."""
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=epoch, replica_nodes=[leader])
        for index, (leader, epoch) in enumerate(leaders)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host=f"h{node}", port=9092) for node in (1, 2, 3)],
        cluster_id=cluster,
        controller_id=1,
        topics=[MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=partitions)],
    )


def leaders(image: ClusterMetadata, topic: str = "t") -> list[tuple[int, int]]:
    return [(one.leader, one.leader_epoch) for one in image.topics[topic].partitions]


def test_an_answer_becomes_an_image() -> None:
    image = merge(ClusterMetadata(), answer([(1, 0), (2, 5)]))
    assert image.version == 1 and image.cluster_id == "c" and image.controller_id == 1
    assert image.nodes[2] == Node(2, "h2", 9092)
    assert image.topic_names == {ID: "t"}
    assert image.partition("t", 1) == PartitionMetadata(1, 2, 5, (2,))
    assert image.partition("t", 2) is None and image.partition("u", 0) is None
    assert image.leader(TopicPartition("t", 1)) == 2 and image.leader(TopicPartition("t", 9)) == -1
    assert image.partition_count("t") == 2 and image.partition_count("u") == 0


def test_partitions_are_sorted() -> None:
    told = answer([(1, 0), (2, 0), (3, 0)])
    told.topics[0].partitions.reverse()
    assert [one.index for one in merge(ClusterMetadata(), told).topics["t"].partitions] == [0, 1, 2]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5)), min_size=1, max_size=8))
def test_a_leaders_epoch_never_goes_back(told: list[tuple[int, int]]) -> None:
    image = ClusterMetadata()
    highest = -1
    for leader, epoch in told:
        image = merge(image, answer([(leader, epoch)]))
        highest = max(highest, epoch)
        assert leaders(image)[0][1] == highest


def test_without_epochs_the_last_answer_holds() -> None:
    image = merge(ClusterMetadata(), answer([(1, 4)]))
    assert leaders(merge(image, answer([(2, -1)]))) == [(2, -1)]


def test_a_recreated_topic_replaces_the_old_one() -> None:
    image = merge(ClusterMetadata(), answer([(1, 4)]))
    again = merge(image, answer([(2, 0)], topic_id=OTHER_ID))
    assert leaders(again) == [(2, 0)]
    assert again.topic_names == {OTHER_ID: "t"}


def test_another_cluster_id_replaces_all_topics() -> None:
    image = merge(ClusterMetadata(), answer([(1, 4)]))
    other = merge(image, answer([(2, 0)], cluster="other", name="u"), keep=["t"])
    assert list(other.topics) == ["u"]


def test_topics_that_were_not_requested_stay_only_if_they_are_tracked() -> None:
    image = merge(ClusterMetadata(), answer([(1, 4)]))
    assert sorted(merge(image, answer([(1, 0)], name="u"), keep=["t"]).topics) == ["t", "u"]
    assert sorted(merge(image, answer([(1, 0)], name="u")).topics) == ["u"]


def test_a_topic_with_an_error_has_no_partitions_and_says_why() -> None:
    image = merge(ClusterMetadata(), answer([(1, 4)]))
    gone = merge(image, answer([], error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)).topics["t"]
    assert gone.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not gone.partitions


def test_leaders_named_in_other_answers_are_taken_only_where_they_are_newer() -> None:
    image = merge(ClusterMetadata(), answer([(1, 4), (2, 4)]))
    told = {TopicPartition("t", 0): (3, 5), TopicPartition("t", 1): (1, 4), TopicPartition("x", 0): (1, 9)}
    newer = with_leaders(image, told, [Node(9, "new", 1)])
    assert leaders(newer) == [(3, 5), (2, 4)]
    assert 9 in newer.nodes and newer.version == image.version + 1
    assert leaders(image) == [(1, 4), (2, 4)], "the old image has changed"


def test_unused_topics_of_a_producer_are_forgotten() -> None:
    followed = Followed(max_idle_s=10)
    assert followed.add(["a", "b"], now=0)
    assert not followed.add(["a"], now=8)
    followed.expire(now=12)
    assert list(followed.topics) == ["a"]


def test_unused_topics_of_a_consumer_are_not_forgotten() -> None:
    followed = Followed(max_idle_s=None)
    followed.add(["a"], now=0)
    followed.expire(now=1e9)
    assert list(followed.topics) == ["a"]
    followed.remove(["a", "never followed"])
    assert not followed.topics


def test_a_request_names_the_tracked_topics_or_all() -> None:
    followed = Followed(max_idle_s=None)
    assert followed.question(True).topics == []
    followed.add(["a"], now=0)
    topics = followed.question(allow_creation=False).topics
    assert topics is not None and [one.name for one in topics] == ["a"]
    assert not followed.question(allow_creation=False).allow_auto_topic_creation
    followed.all = True
    assert followed.question(True).topics is None
