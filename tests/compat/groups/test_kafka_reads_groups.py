"""Group records of the coordinator, read by Apache Kafka's own tool."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from moldau.wire.api import ApiKey
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.compat import wire
from tests.compat.apache_kafka.jars import JarsUnavailableError, fetch_jars
from tests.compat.groups.test_protocol_groups import commit, synced
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection

SETTINGS = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}


@pytest.mark.needs_java
def test_the_offsets_decoder_names_every_record(tmp_path: Path) -> None:
    try:
        jars = fetch_jars()
    except JarsUnavailableError as reason:
        pytest.skip(f"Apache Kafka's jars cannot be had: {reason}")
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker, RawConnection(broker.bootstrap) as raw:
        wire.create_topic(raw, "numbers", 3, {})
        find_coordinator(raw)
        commit(raw, "by-hand", "numbers", 42)
        synced(raw, "classic")
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id="modern",
            member_id=str(uuid.uuid4()),
            rebalance_timeout_ms=5_000,
            subscribed_topic_names=["numbers"],
            topic_partitions=[],
        )
        raw.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat, ConsumerGroupHeartbeatResponse)
        heartbeat.member_epoch = -1
        raw.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat, ConsumerGroupHeartbeatResponse)
    segment = tmp_path / "data" / "__consumer_offsets-0" / f"{0:020}.log"
    dumped = jars.run("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment))
    text = dumped.stdout + dumped.stderr
    assert dumped.returncode == 0, text
    assert '"group":"by-hand","topic":"numbers","partition":0' in text.replace(" ", "")
    assert '"offset":42' in text
    assert '"protocolType":"test"' in text
    types = {line.split('"type":"')[1].split('"')[0] for line in text.splitlines() if '"type":"' in line}
    assert types >= {str(number) for number in range(1, 9)}, text


def find_coordinator(raw: RawConnection) -> None:
    from moldau.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

    raw.call(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key="by-hand"), FindCoordinatorResponse)
