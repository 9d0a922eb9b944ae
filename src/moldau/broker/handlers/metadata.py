"""Metadata (3): brokers, topics, leaders.

Versions 0-13. A null list of topics (an empty one in version 0) asks for all of them.

* An unknown topic is created where both `auto.create.topics.enable` and the request allow it. The answer waits for that
  and already has the topic: clients save the retry that Kafka makes them do.
* From version 12 a topic may be asked for by id; an id wins over a name. In versions 10 and 11 the field is there but
  unusable, for their answers need a name: INVALID_REQUEST for the whole request, as from Kafka.
* Addresses are those of the listener that the client is connected to. A partition whose leader has no such listener is
  told without a leader (LISTENER_NOT_FOUND from version 6, LEADER_NOT_AVAILABLE before), as is one that has no leader.
* Clients ask for the controller to know where to send what changes the cluster, which every broker takes. Where there
  is no controller at the moment, or it cannot be reached by this listener, this broker names itself.
* This broker is always among those that are told, also while it is not registered (see `told_brokers`).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from moldau.broker.registry import handles
from moldau.broker.session import Request
from moldau.broker.standing import View, told_brokers
from moldau.cluster.image import INTERNAL_TOPICS, TopicImage
from moldau.cluster.names import topic_name_error
from moldau.cluster.topics import NewTopic
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.wire.primitives import ZERO_UUID

TOPIC_IDS_FROM = 12
MISSING_LISTENERS_FROM = 6


@handles(ApiKey.METADATA)
def metadata(request: Request, message: MetadataRequest) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    if request.version < TOPIC_IDS_FROM and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in message.topics or ()
    ):
        return _ids_too_early(message)
    missing = _to_create(request, message)
    if missing:
        return _create_then_answer(request, message, missing)
    return _answer(request, message)


def _ids_too_early(message: MetadataRequest) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id)
            for topic in message.topics or ()
        ]
    )


def _to_create(request: Request, message: MetadataRequest) -> list[str]:
    """Names that are asked for, do not exist and may be made."""
    broker = request.broker
    if (
        message.topics is None
        or not message.allow_auto_topic_creation
        or not broker.settings["auto.create.topics.enable"]
    ):
        return []
    topics = broker.image.topics
    missing = {
        topic.name
        for topic in message.topics
        if topic.topic_id == ZERO_UUID and topic.name is not None and topic.name not in topics
    }
    return [
        name
        for name in sorted(missing)
        if name not in INTERNAL_TOPICS  # their coordinators make them, with settings of their own
        and topic_name_error(name) is None
        and request.authorized(Operation.CREATE, ResourceType.TOPIC, name)
    ]


async def _create_then_answer(request: Request, message: MetadataRequest, names: list[str]) -> MetadataResponse:
    # A failure (a name that collides, a full store) shows as an unknown topic, as it would without auto-creation.
    await request.broker.create_topics([NewTopic(name) for name in names])
    return _answer(request, message)


def _answer(request: Request, message: MetadataRequest) -> MetadataResponse:
    broker = request.broker
    image = broker.image
    brokers = [
        MetadataResponseBroker(node_id=node.id, host=endpoint.host, port=endpoint.port, rack=node.rack)
        for node, endpoint in told_brokers(request.session.listener)
    ]
    controller_reached = any(one.node_id == image.controller_id for one in brokers)
    return MetadataResponse(
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=image.controller_id if controller_reached else broker.node_id,
        topics=_topics(request, message, message.include_topic_authorized_operations),
        cluster_authorized_operations=request.authorized_operations(
            message.include_cluster_authorized_operations, ResourceType.CLUSTER
        ),
    )


def _topics(request: Request, message: MetadataRequest, asked: bool) -> list[MetadataResponseTopic]:
    image = request.broker.image
    view = View(
        image,
        request.broker.node_id,
        request.session.listener.name,
        tell_missing_listener=request.version >= MISSING_LISTENERS_FROM,
    )
    if message.topics is None or (request.version == 0 and not message.topics):
        return [
            _topic(request, view, topic, asked)
            for topic in image.topics.values()
            if request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        ]
    found: dict[str | bytes, MetadataResponseTopic] = {}
    for wanted in message.topics:
        if wanted.topic_id != ZERO_UUID:
            topic = image.topic_by_id(wanted.topic_id)
            key: str | bytes = wanted.topic_id
            unknown = MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
        else:
            key = wanted.name or ""
            topic = image.topics.get(key)
            unknown = _unknown(request, key, asked)
        if topic is None:
            found[key] = unknown
        elif not request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            found[key] = MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=topic.name)
        else:
            found[key] = _topic(request, view, topic, asked)
    return list(found.values())


def _unknown(request: Request, name: str, asked: bool) -> MetadataResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic_name_error(name) is None else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=request.authorized_operations(asked, ResourceType.TOPIC, name),
    )


def _topic(request: Request, view: View, topic: TopicImage, asked: bool) -> MetadataResponseTopic:
    lost = request.broker.replicas.offline_in(topic.name)
    partitions = []
    for index, state in enumerate(topic.partitions):
        error, leader, offline = view.standing(state, lost_here=index in lost)
        partitions.append(
            MetadataResponsePartition(
                error_code=error,
                partition_index=index,
                leader_id=leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
                offline_replicas=offline,
            )
        )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=partitions,
        topic_authorized_operations=request.authorized_operations(asked, ResourceType.TOPIC, topic.name),
    )
