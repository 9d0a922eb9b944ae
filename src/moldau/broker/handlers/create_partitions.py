"""CreatePartitions (37): increase the number of partitions of topics.

Versions 0-3.

* Each topic of the request has its own answer. The number of partitions cannot be reduced.
* `validate_only` checks the request and creates nothing.
* The response is sent when the new partitions accept records.
* The new partitions count against the client's `controller_mutation_rate`, also with `validate_only`, as in Kafka. From
  version 3 on, topics above the quota are refused with THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from functools import partial

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.broker.requests.mutation_quota import MutationQuota
from moldau.cluster.errors import Refusal
from moldau.cluster.image import TopicImage
from moldau.cluster.topics import MorePartitions
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResponseTopic,
)

STRICT_QUOTA_FROM = 3


@handles(ApiKey.CREATE_PARTITIONS)
async def create_partitions(request: Request, message: CreatePartitionsRequest) -> CreatePartitionsResponse:
    results: dict[str, CreatePartitionsResponseTopic] = {}
    wanted = []
    for topic in message.topics:
        results[topic.name] = CreatePartitionsResponseTopic(name=topic.name)
        if not request.authorized(Operation.ALTER, ResourceType.TOPIC, topic.name):
            results[topic.name].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            continue
        assignments = None
        if topic.assignments is not None:
            assignments = tuple(tuple(assignment.broker_ids) for assignment in topic.assignments)
        wanted.append(MorePartitions(topic.name, topic.count, assignments))
    quota = MutationQuota(request, STRICT_QUOTA_FROM)
    create = request.broker.create_partitions
    answers = await quota.apply(
        wanted,
        partial(create, validate_only=True),
        partial(create, validate_only=message.validate_only),
        partial(_added, request),
    )
    for more, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, Refusal):
            results[more.name].error_code = answer.code
            results[more.name].error_message = answer.message
    return CreatePartitionsResponse(results=list(results.values()), throttle_time_ms=quota.throttle_ms())


def _added(request: Request, more: MorePartitions, grown: TopicImage) -> int:
    """The number of partitions that a topic gets."""
    return len(grown.partitions) - len(request.broker.image.topics.get(more.name, grown).partitions)
