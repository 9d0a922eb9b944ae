"""Metadata (3): brokers, topics, partitions and leaders.

Versions 0-13. A null list of topics (an empty list in version 0) means all.

* An unknown topic is created if both `auto.create.topics.enable` and the request allow it. The response waits for it
  and contains the topic. With Kafka, clients must retry. After the deletion of a topic, the first request for it gets
  UNKNOWN_TOPIC_OR_PARTITION and creates nothing (see `deleted_topics.py`).
* From version 12 on a topic may be named by its id, which takes precedence over a name. Versions 10 and 11 have the
  field, but their responses need a name. So an id in them is INVALID_REQUEST for the whole request, as in Kafka.
* The addresses are those of the client's listener. A partition whose leader does not have this listener is returned
  without a leader (LISTENER_NOT_FOUND from version 6 on, LEADER_NOT_AVAILABLE before), like one that has no leader.
* Clients send changes of the cluster to the controller, but every broker accepts them. If there is no controller, or it
  does not have the client's listener, the response names this broker as the controller.
* This broker is always listed, even while it is not registered (see `listed_brokers`).
* A topic that the client may not describe is TOPIC_AUTHORIZATION_FAILED, whether it exists or not; a list of all topics
  leaves it out. The client may create a topic with CREATE on the cluster or on the topic.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.broker.requests.mutation_quota import NEVER_STRICT, MutationQuota
from moldau.broker.requests.partition_view import PartitionView, listed_brokers
from moldau.cluster.errors import Refusal
from moldau.cluster.image import INTERNAL_TOPICS, TopicImage
from moldau.cluster.topic_names import topic_name_error
from moldau.cluster.topics import TopicCreation
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
    """The requested topics that do not exist and may be created."""
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
        if name not in INTERNAL_TOPICS  # their coordinators create them, with special settings
        and topic_name_error(name) is None
        and request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, name, audited=False)
        and _may_create(request, name)
        and not broker.deleted_topics.first_asked(name)
    ]


def _may_create(request: Request, name: str) -> bool:
    return request.authorized(Operation.CREATE, ResourceType.CLUSTER, audited=False) or request.authorized(
        Operation.CREATE, ResourceType.TOPIC, name
    )


async def _create_then_answer(request: Request, message: MetadataRequest, names: list[str]) -> MetadataResponse:
    # If the creation fails (colliding name, full store), the response has an unknown topic, as without auto-creation.
    created = await request.broker.create_topics([TopicCreation(name) for name in names])
    quota = MutationQuota(request, NEVER_STRICT)
    for answer in created:
        if not isinstance(answer, Refusal):
            quota.take(len(answer.partitions))
    response = _answer(request, message)
    response.throttle_time_ms = quota.throttle_ms()
    return response


def _answer(request: Request, message: MetadataRequest) -> MetadataResponse:
    broker = request.broker
    image = broker.image
    brokers = [
        MetadataResponseBroker(node_id=node.id, host=endpoint.host, port=endpoint.port, rack=node.rack)
        for node, endpoint in listed_brokers(
            image, request.session.listener, broker.node_id, broker.settings["broker.rack"]
        )
    ]
    controller_reached = any(one.node_id == image.controller_id for one in brokers)
    return MetadataResponse(
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=image.controller_id if controller_reached else broker.node_id,
        topics=_topics(request, message, message.include_topic_authorized_operations),
        cluster_authorized_operations=request.cluster_operations(message.include_cluster_authorized_operations),
    )


def _topics(request: Request, message: MetadataRequest, asked: bool) -> list[MetadataResponseTopic]:
    image = request.broker.image
    view = PartitionView(
        image,
        request.broker.node_id,
        request.session.listener.name,
        tell_missing_listener=request.version >= MISSING_LISTENERS_FROM,
    )
    if message.topics is None or (request.version == 0 and not message.topics):
        return [
            _topic(request, view, topic, asked)
            for topic in image.topics.values()
            if request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, audited=False)
        ]
    found: dict[str | bytes, MetadataResponseTopic] = {}
    for wanted in message.topics:
        if wanted.topic_id != ZERO_UUID:
            found[wanted.topic_id] = _by_id(request, view, wanted.topic_id, asked)
        else:
            name = wanted.name or ""
            found[name] = _by_name(request, view, name, asked, creates=message.allow_auto_topic_creation)
    return list(found.values())


def _by_id(request: Request, view: PartitionView, topic_id: bytes, asked: bool) -> MetadataResponseTopic:
    topic = request.broker.image.topic_by_id(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id)
    return _topic(request, view, topic, asked)


def _by_name(request: Request, view: PartitionView, name: str, asked: bool, *, creates: bool) -> MetadataResponseTopic:
    if not request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = request.broker.image.topics.get(name)
    if topic is not None:
        return _topic(request, view, topic, asked)
    if creates and request.broker.settings["auto.create.topics.enable"] and not _may_create(request, name):
        return MetadataResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, is_internal=name in INTERNAL_TOPICS
        )
    return _unknown(request, name, asked)


def _unknown(request: Request, name: str, asked: bool) -> MetadataResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic_name_error(name) is None else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=request.authorized_operations(asked, ResourceType.TOPIC, name),
    )


def _topic(request: Request, view: PartitionView, topic: TopicImage, asked: bool) -> MetadataResponseTopic:
    lost = request.broker.replicas.offline_in(topic.name)
    partitions = []
    for index, state in enumerate(topic.partitions):
        error, leader, offline = view.status(state, lost_here=index in lost)
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
