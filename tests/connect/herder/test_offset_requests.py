"""Offsets of a sink as a user gives them: Kafka Connect's error for each mistake."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.client.data_types import TopicPartition
from moldau.connect.herder import BadRequestError, ConnectorOffset
from moldau.connect.herder.offset_requests import sink_group, sink_offsets

PARTITION = {"kafka_topic": "t", "kafka_partition": 1}


def test_numbers_may_be_texts_and_null_resets() -> None:
    given = [
        ConnectorOffset(PARTITION, {"kafka_offset": 5}),
        ConnectorOffset({"kafka_topic": "t", "kafka_partition": "2"}, {"kafka_offset": "6"}),
        ConnectorOffset({"kafka_topic": "t", "kafka_partition": 3}, None),
    ]
    found = sink_offsets(given)
    assert found == {TopicPartition("t", 1): 5, TopicPartition("t", 2): 6, TopicPartition("t", 3): None}


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        (None, None, "cannot be null or missing"),
        ({"kafka_topic": "t"}, None, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
        ({"kafka_topic": None, "kafka_partition": 1}, None, "topic names must be valid strings"),
        ({"kafka_topic": "t", "kafka_partition": None}, None, "partitions must be valid numbers"),
        ({"kafka_topic": "t", "kafka_partition": "x"}, None, "partition value in the provided offsets: 'x'"),
        (PARTITION, {"offset": 1}, "should either be null or contain the key 'kafka_offset'"),
        (PARTITION, {"kafka_offset": "1.5"}, "offset value in the provided offsets: '1.5'"),
        (PARTITION, {"kafka_offset": None}, "offset value in the provided offsets"),
    ],
)
def test_a_mistake_is_named(partition: Any, offset: Any, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        sink_offsets([ConnectorOffset(partition, offset)])


def test_the_group_of_a_sink_can_be_overridden() -> None:
    assert sink_group("a") == "connect-a"
