"""Two sets of topics and groups on one server, equal except for their names: one for Kafka's tools, one for ours."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

from moldau import Admin, NewTopic, TopicPartition
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.compat import wire
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

RECORDS = 6
JOINS = 0

LOADING = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
"""Errors of a coordinator that was just found: its partition may have no leader, or may not be loaded yet."""

# Text that differs between two runs of the same tool, or between two objects that were created alike.
VARYING = (
    (re.compile(r"TopicId: \S+"), "TopicId: ID"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "MEMBER"),
)


class PrefixedObjects:
    """The topics and groups with one prefix. All prefixes have the same length, so that columns are equally wide."""

    def __init__(self, bootstrap: str, prefix: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.prefix = prefix
        self.directory = directory
        self._member: Member | None = None

    def name(self, short: str) -> str:
        return f"{self.prefix}{short}"

    def filled(self, text: str) -> str:
        """Replace `@orders` by the topic or group of this set, BS by the server, DIR by the directory of its files."""
        return (
            text.replace("@", self.prefix)
            .replace("BS", f"--bootstrap-server {self.bootstrap}")
            .replace("DIR", str(self.directory))
        )

    def plain(self, text: str) -> str:
        """The reverse of `filled`, and without text that varies."""
        text = text.replace(self.prefix, "@").replace(str(self.directory), "DIR")
        for pattern, instead in VARYING:
            text = pattern.sub(instead, text)
        return text

    def create(self) -> PrefixedObjects:
        with Admin(bootstrap_servers=self.bootstrap) as admin, RawConnection(self.bootstrap) as connection:
            admin.create_topics(
                [
                    NewTopic(self.name("orders"), 3, 1, {"retention.ms": "100000000", "cleanup.policy": "compact"}),
                    NewTopic(self.name("bills"), 2, 1),
                ]
            )
            for topic, partitions in (("orders", 3), ("bills", 2)):
                name = self.name(topic)
                wait_until(lambda name=name, partitions=partitions: wire.is_served(connection, name, partitions))
                for index in range(partitions):
                    values = [b"v%d" % number for number in range(RECORDS)]
                    wire.produced(connection, name, *values, partition=index)
            admin.alter_group_offsets(
                self.name("idle"),
                {
                    TopicPartition(self.name("orders"), 0): 2,
                    TopicPartition(self.name("orders"), 1): 6,
                    TopicPartition(self.name("bills"), 1): 0,
                },
            )
        self._member = Member(self.bootstrap, self.name("live"), self.name("bills"))
        return self

    def heartbeat(self) -> None:
        """Send a heartbeat, so that the coordinator keeps the member however slow the machine is."""
        assert self._member is not None
        self._member.heartbeat()

    def close(self) -> None:
        if self._member is not None:
            self._member.close()


class Member:
    """A member of a consumer group that has received its assignment. Nothing in the group changes afterwards."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._connection = RawConnection(bootstrap, "member-of-live")
        self._request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=str(uuid.uuid4()),
            member_epoch=JOINS,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[topic],
            server_assignor="uniform",
            topic_partitions=[],
        )
        try:
            # FindCoordinator creates the offsets topic: a new broker has no coordinator before.
            find = FindCoordinatorRequest(coordinator_keys=[group])
            wait_until(lambda: wire.ask(self._connection, find).coordinators[0].error_code == ErrorCode.NONE)
            wait_until(self.heartbeat)
        except BaseException:
            self._connection.close()
            raise

    def heartbeat(self) -> bool:
        """Send one heartbeat. Returns whether the member has acknowledged its assignment and gets no new one."""
        request = self._request
        answer = wire.ask(self._connection, request)
        if answer.error_code in LOADING:
            return False
        assert answer.error_code == ErrorCode.NONE, answer
        request.member_epoch = answer.member_epoch
        request.subscribed_topic_names, request.server_assignor, request.rebalance_timeout_ms = None, None, -1
        if answer.assignment is None:
            return bool(request.topic_partitions)
        request.topic_partitions = [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=one.topic_id, partitions=one.partitions)
            for one in answer.assignment.topic_partitions
        ]
        return False

    def close(self) -> None:
        self._connection.close()
