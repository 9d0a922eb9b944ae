"""CreateTopics (19): create topics with partitions, replicas and settings.

Versions 2-7.

* The broker places the replicas, or the client names them. -1 partitions or replicas means the broker's default.
* `validate_only` checks the request and creates nothing.
* The response is sent when the topics accept records. From version 5 on it has all settings of the new topic, from
  version 7 on its id.
* The new partitions count against the client's `controller_mutation_rate`, also with `validate_only`, as in Kafka. From
  version 6 on, topics above the quota are refused with THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from functools import partial

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.broker.requests.mutation_quota import MutationQuota
from moldau.cluster.errors import Refusal
from moldau.cluster.image import TopicImage
from moldau.cluster.topics import TopicCreation
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseConfig,
    CreateTopicsResponseTopic,
)

STRICT_QUOTA_FROM = 6


@handles(ApiKey.CREATE_TOPICS)
async def create_topics(request: Request, message: CreateTopicsRequest) -> CreateTopicsResponse:
    results: dict[str, CreateTopicsResponseTopic] = {}  # a topic that is named twice gets one answer
    wanted = []
    all_allowed = request.authorized(Operation.CREATE, ResourceType.CLUSTER, audited=False)
    for topic in message.topics:
        results[topic.name] = CreateTopicsResponseTopic(name=topic.name, error_message=None, configs=[])
        if all_allowed or request.authorized(Operation.CREATE, ResourceType.TOPIC, topic.name):
            wanted.append(_new_topic(topic))
        else:
            results[topic.name].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            results[topic.name].error_message = "Not allowed to create this topic."
    quota = MutationQuota(request, STRICT_QUOTA_FROM)
    create = request.broker.create_topics
    answers = await quota.apply(
        wanted,
        partial(create, validate_only=True),
        partial(create, validate_only=message.validate_only),
        lambda _, topic: len(topic.partitions),
    )
    for new, answer in zip(wanted, answers, strict=True):
        result = results[new.name]
        if isinstance(answer, Refusal):
            result.error_code, result.error_message = answer.code, answer.message
        else:
            _describe(request, answer, result)
    return CreateTopicsResponse(topics=list(results.values()), throttle_time_ms=quota.throttle_ms())


def _new_topic(topic: CreateTopicsRequestTopic) -> TopicCreation:
    return TopicCreation(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((assignment.partition_index, tuple(assignment.broker_ids)) for assignment in topic.assignments),
        {config.name: config.value for config in topic.configs},
    )


def _describe(request: Request, topic: TopicImage, result: CreateTopicsResponseTopic) -> None:
    result.topic_id = topic.id
    result.num_partitions = len(topic.partitions)
    result.replication_factor = topic.replication_factor
    if not request.authorized(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, audited=False):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return
    result.configs = [
        CreateTopicsResponseConfig(
            name=one.name,
            value=one.value,
            read_only=one.read_only,
            config_source=one.source,
            is_sensitive=one.sensitive,
        )
        for one in sorted(request.broker.settings.describe_topic(topic.configs), key=lambda one: one.name)
    ]
