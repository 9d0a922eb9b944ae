"""ElectLeaders (43): make the preferred replica the leader, or any that lives where nobody else may lead.

Versions 0-2; version 0 knows preferred elections only. A null list of partitions means all, and then those that needed
no election are not mentioned. The answer comes when the elections are stored, which is before every broker has heard of
them. An unclean election is what the caller asks for: it is held even where the topic's
`unclean.leader.election.enable` forbids the controller to hold one by itself, and may lose acknowledged records.
"""

from __future__ import annotations

from moldau.broker.registry import handles
from moldau.broker.session import Request
from moldau.cluster.elections import ElectionKind
from moldau.cluster.refusal import Refusal
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResponsePartition,
    ElectLeadersResponseTopic,
)

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
        wanted = list(dict.fromkeys((one.topic, index) for one in message.topic_partitions for index in one.partitions))
    return _response(await request.broker.metadata.elect_leaders(kind, wanted))


def _refused(message: ElectLeadersRequest, refusal: Refusal) -> ElectLeadersResponse:
    """Said of the request, and of each partition: version 0 has no other place for it."""
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
