"""Fetch messages of a consumer: builds requests from a fetch session, and iterates over responses by partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from moldau.client.consumer.fetch_session import SessionRequest
from moldau.client.data_types import TopicPartition
from moldau.wire.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)

TOPIC_IDS_FROM: Final = 13
"""The first version that identifies topics by id."""

ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}


def fetch_request(
    session: SessionRequest, *, max_wait_ms: int, min_bytes: int, max_bytes: int, isolation: int, rack: str
) -> FetchRequest:
    """Build the request. Partitions are grouped by topic; otherwise their order is kept."""
    topics: dict[tuple[str, bytes], FetchRequestTopic] = {}
    for (name, partition), wanted in session.send.items():
        topic = topics.get((name, wanted.topic_id))
        if topic is None:
            topic = topics[name, wanted.topic_id] = FetchRequestTopic(topic=name, topic_id=wanted.topic_id)
        topic.partitions.append(
            FetchRequestPartition(
                partition=partition,
                current_leader_epoch=wanted.leader_epoch,
                fetch_offset=wanted.offset,
                partition_max_bytes=wanted.max_bytes,
            )
        )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session.session_id,
        session_epoch=session.epoch,
        topics=list(topics.values()),
        forgotten_topics_data=_forgotten(session.forget),
        rack_id=rack,
    )


def _forgotten(forget: Iterable[tuple[TopicPartition, bytes]]) -> list[FetchRequestForgottenTopic]:
    topics: dict[tuple[str, bytes], FetchRequestForgottenTopic] = {}
    for (name, partition), topic_id in forget:
        topic = topics.get((name, topic_id))
        if topic is None:
            topic = topics[name, topic_id] = FetchRequestForgottenTopic(topic=name, topic_id=topic_id)
        topic.partitions.append(partition)
    return list(topics.values())


def answers(
    response: FetchResponse, version: int, names: Mapping[bytes, str]
) -> Iterator[tuple[TopicPartition, FetchResponsePartition]]:
    """Iterate over the partitions of a response. `names` has the names of the topic ids in the request."""
    for topic in response.responses:
        name = names.get(topic.topic_id) if version >= TOPIC_IDS_FROM else topic.topic
        if name is None:
            continue  # not in the request
        for partition in topic.partitions:
            yield TopicPartition(name, partition.partition_index), partition
