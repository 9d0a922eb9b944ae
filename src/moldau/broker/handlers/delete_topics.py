"""DeleteTopics (20): delete topics, by name or (from version 6 on) by id.

Versions 1-6.

* With `delete.topic.enable=false` the error is TOPIC_DELETION_DISABLED.
* The files are renamed at once, so the name can be used again. They are deleted in the background after
  `file.delete.delay.ms`.
* The deleted partitions count against the client's `controller_mutation_rate`. From version 5 on, topics above it are
  refused with THROTTLING_QUOTA_EXCEEDED.
* A topic that the client may not describe is TOPIC_AUTHORIZATION_FAILED, whether it exists or not. Its name is given
  only to a client that knows or may know it.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.broker.requests.mutation_quota import MutationQuota
from moldau.cluster.errors import Refusal
from moldau.cluster.image import TopicImage
from moldau.cluster.topics import TopicRef
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicsResponseTopic

TOPIC_IDS_FROM = 6
STRICT_QUOTA_FROM = 5


@handles(ApiKey.DELETE_TOPICS)
async def delete_topics(request: Request, message: DeleteTopicsRequest) -> DeleteTopicsResponse:
    broker = request.broker
    if request.version >= TOPIC_IDS_FROM:
        refs = [TopicRef(topic.name, topic.topic_id) for topic in message.topics]
    else:
        refs = [TopicRef(name) for name in message.topic_names]
    results: dict[TopicRef, DeleteTopicsResponseTopic] = {}  # a topic that is named twice gets one answer
    allowed = []
    quota = MutationQuota(request, STRICT_QUOTA_FROM)
    for ref in refs:
        results[ref] = DeleteTopicsResponseTopic(name=ref.name, topic_id=ref.topic_id)
        topic = _known(request, ref)
        if not broker.settings["delete.topic.enable"]:
            results[ref].error_code = ErrorCode.TOPIC_DELETION_DISABLED
            results[ref].error_message = "delete.topic.enable is false"
        elif not _visible(request, ref, topic):
            results[ref].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic is not None and not _may_delete(request, topic.name):
            results[ref].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            results[ref].name = topic.name
        elif topic is not None and (refused := quota.take(len(topic.partitions))) is not None:
            results[ref].error_code, results[ref].error_message = refused.code, refused.message
        else:
            allowed.append(ref)
    for ref, answer in zip(allowed, await broker.delete_topics(allowed), strict=True):
        result = results[ref]
        if isinstance(answer, Refusal):
            result.error_code, result.error_message = answer.code, answer.message
        else:
            result.name, result.topic_id = answer.name, answer.id
    return DeleteTopicsResponse(responses=list(results.values()), throttle_time_ms=quota.throttle_ms())


def _visible(request: Request, ref: TopicRef, topic: TopicImage | None) -> bool:
    """Whether the client may know if the topic exists. Ids are no secret: an unknown one is answered as such."""
    name = ref.name if topic is None else topic.name
    return (
        name is None
        or request.authorized(Operation.DELETE, ResourceType.CLUSTER, audited=False)
        or request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, name)
    )


def _may_delete(request: Request, name: str) -> bool:
    return request.authorized(Operation.DELETE, ResourceType.CLUSTER, audited=False) or request.authorized(
        Operation.DELETE, ResourceType.TOPIC, name
    )


def _known(request: Request, ref: TopicRef) -> TopicImage | None:
    image = request.broker.image
    return image.topics.get(ref.name) if ref.name is not None else image.topic_by_id(ref.topic_id)
