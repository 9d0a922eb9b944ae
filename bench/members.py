"""Group members over raw connections, for loads of thousands of members.

The benchmarks measure heartbeats and commits, so joining uses the ordinary codec. Frames that are sent many times are
built once.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

from bench import frames
from bench.harness import HOST
from moldau.assignment.consumer_protocol import CONSUMER_PROTOCOL
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.header import encode_request_header
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

# These versions join in one step, without a request for a member id.
FIND_COORDINATOR_VERSION, JOIN_VERSION, SYNC_VERSION = 3, 3, 3

# The versions that current clients use.
HEARTBEAT_VERSION, COMMIT_VERSION = 4, 9

SESSION_MS = 60_000
PATIENCE_S = 30.0
PAUSE_S = 0.01


@dataclass
class Member:
    """A member of a stable group, and its connection."""

    connection: socket.socket
    group: str
    id: str
    generation: int

    def heartbeat(self) -> bytes:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.id)
        return frame(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, request)

    def commit(self, topic: str, partitions: int) -> bytes:
        positions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=123_456_789, committed_metadata="")
            for index in range(partitions)
        ]
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=positions)],
        )
        return frame(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, request)


def frame(api: ApiKey, version: int, request: Any) -> bytes:
    body = encode_request_header(api, version, 0, frames.CLIENT_ID.decode()) + request.encode(version)
    return struct.pack(">i", len(body)) + body


def join(port: int, groups: int, members: int) -> list[Member]:
    """Create stable groups with this many members each. The broker's initial rebalance delay must cover the joining."""
    # Group names that no other process uses: members of an earlier process may still have a session.
    names = [f"group-{os.getpid()}-{number}" for number in range(groups)]
    _await_coordinator(port, names[0])
    waiting = []
    for name in names:
        for _ in range(members):
            connection = frames.connect(HOST, port)
            # Wait for a response: until then the broker has not accepted, and a full accept queue drops connections for
            # seconds.
            frames.call(connection, frames.api_versions())
            waiting.append((name, connection))
    protocol = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    for name, connection in waiting:
        request = JoinGroupRequest(
            group_id=name,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            protocol_type=CONSUMER_PROTOCOL,
            protocols=protocol,
        )
        connection.sendall(frame(ApiKey.JOIN_GROUP, JOIN_VERSION, request))
    joined = []
    for name, connection in waiting:
        answer = _answer(connection, ApiKey.JOIN_GROUP, JOIN_VERSION, JoinGroupResponse)
        assert answer.error_code == ErrorCode.NONE, answer
        joined.append(Member(connection, name, answer.member_id, answer.generation_id))
        assignments = [SyncGroupRequestAssignment(member_id=one.member_id, assignment=b"") for one in answer.members]
        sync = SyncGroupRequest(
            group_id=name, generation_id=answer.generation_id, member_id=answer.member_id, assignments=assignments
        )
        connection.sendall(frame(ApiKey.SYNC_GROUP, SYNC_VERSION, sync))
    for member in joined:
        answer = _answer(member.connection, ApiKey.SYNC_GROUP, SYNC_VERSION, SyncGroupResponse)
        assert answer.error_code == ErrorCode.NONE, answer
    return joined


def _await_coordinator(port: int, group: str) -> None:
    """Wait for the coordinator: the first request creates the topic that stores groups."""
    request = frame(ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, FindCoordinatorRequest(key=group))
    deadline = time.perf_counter() + PATIENCE_S
    with frames.connect(HOST, port) as connection:
        while time.perf_counter() < deadline:
            connection.sendall(request)
            answer = _answer(connection, ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, FindCoordinatorResponse)
            if answer.error_code == ErrorCode.NONE:
                return
            time.sleep(PAUSE_S)
    raise RuntimeError(f"no coordinator was found within {PATIENCE_S} s")


def _answer(connection: socket.socket, api: ApiKey, version: int, response: Any) -> Any:
    flexible_from = APIS[api].flexible_from
    flexible = flexible_from is not None and version >= flexible_from
    return response.decode(frames.receive(connection), version, 5 if flexible else 4)
