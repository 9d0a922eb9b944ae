"""ElectLeaders (43): elect the preferred replicas, or any live replica if no other may lead.

Versions 0-2; version 0 has preferred elections only.

* A null list of partitions means all. The response then omits partitions that needed no election.
* The response is sent when the elections are stored. Other brokers may learn of them later.
* An unclean election is always held, also if `unclean.leader.election.enable` of the topic forbids the controller to
  hold one. It may lose acknowledged records.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.cluster.elections import ElectionKind
from moldau.cluster.errors import Refusal
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResponsePartition,
    ElectLeadersResponseTopic,
)
from moldau.wire.topic_partition import TopicPartition

KINDS = {kind.value: kind for kind in ElectionKind}


@handles(ApiKey.ELECT_LEADERS)
async def elect_leaders(request: Request, message: ElectLeadersRequest) -> ElectLeadersResponse:
    if not request.authorized(Operation.ALTER, ResourceType.CLUSTER):
        return _refused(message, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "may not alter the cluster"))
    kind = KINDS.get(message.election_type)
    if kind is None:
        return _refused(message, Refusal(ErrorCode.INVALID_REQUEST, f"there is no election {message.election_type}"))
    wanted = None
    if message.topic_partitions is not None:
        named = (TopicPartition(one.topic, index) for one in message.topic_partitions for index in one.partitions)
        wanted = list(dict.fromkeys(named))
    return _response(await request.broker.metadata.elect_leaders(kind, wanted))


def _refused(message: ElectLeadersRequest, refusal: Refusal) -> ElectLeadersResponse:
    """Set the error of the request and of each partition: version 0 has no error code for the request."""
    response = _response(
        [(topic.topic, index, refusal) for topic in message.topic_partitions or () for index in topic.partitions]
    )
    response.error_code = refusal.code
    return response


def _response(answers: list[tuple[str, int, Refusal | None]]) -> ElectLeadersResponse:
    topics: dict[str, ElectLeadersResponseTopic] = {}
    for topic, index, refusal in answers:
        topics.setdefault(topic, ElectLeadersResponseTopic(topic=topic)).partition_result.append(
            ElectLeadersResponsePartition(
                partition_id=index,
                error_code=ErrorCode.NONE if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.message,
            )
        )
    return ElectLeadersResponse(replica_election_results=list(topics.values()))
