"""DescribeProducers (61): the active producers of partitions, and their open transactions.

Version 0.

* A producer whose `current_txn_start_offset` is not -1 has an open transaction, which holds back read_committed
  readers.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.log.errors import LogError
from moldau.log.producer_state import ProducerEntry
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResponseActiveProducer,
    DescribeProducersResponsePartition,
    DescribeProducersResponseTopic,
)

NO_SEQUENCE = -1


@handles(ApiKey.DESCRIBE_PRODUCERS)
def describe_producers(request: Request, message: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponseTopic(
                name=topic.name,
                partitions=[_describe(request, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in message.topics
        ]
    )


def _describe(request: Request, topic: str, index: int) -> DescribeProducersResponsePartition:
    answer = DescribeProducersResponsePartition(partition_index=index)
    if not request.authorized(Operation.READ, ResourceType.TOPIC, topic):
        answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        answer.error_message = f"Not allowed to read topic {topic!r}."
        return answer
    partition = request.broker.replicas.find(topic, index)
    if partition is None:
        answer.error_code = request.broker.replicas.why_missing(topic, index)
        answer.error_message = f"{topic}-{index} is not on broker {request.broker.node_id}."
        return answer
    try:
        if error := partition.leader_error():
            raise LogError(error, f"{partition!r} is not available")
        producers = partition.log.active_producers()
    except LogError as error:
        answer.error_code, answer.error_message = error.code, error.message
        return answer
    answer.active_producers = [_producer(producer_id, one) for producer_id, one in producers.items()]
    return answer


def _producer(producer_id: int, one: ProducerEntry) -> DescribeProducersResponseActiveProducer:
    return DescribeProducersResponseActiveProducer(
        producer_id=producer_id,
        producer_epoch=one.epoch,
        last_sequence=one.batches[-1].last_sequence if one.batches else NO_SEQUENCE,
        last_timestamp=one.last_timestamp,
        coordinator_epoch=one.coordinator_epoch,
        current_txn_start_offset=one.transaction_start,
    )
