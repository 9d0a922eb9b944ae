"""Random frames: the broker stays up, uses little memory, logs no internal error, and serves other clients.

A failure shows its seed; `pytest tests/fuzz --fuzz-seed=SEED` sends the same frames again.
"""

from __future__ import annotations

import os
import random
import re
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.header import decode_response_header
from moldau.wire.messages.create_acls import CreateAclsRequest
from moldau.wire.messages.delete_acls import DeleteAclsRequest
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic, DeleteTopicsResponse
from moldau.wire.messages.describe_acls import DescribeAclsRequest
from moldau.wire.messages.fetch import FetchRequest
from moldau.wire.messages.produce import ProduceRequest
from tests.fuzz import witness
from tests.fuzz.attack import Attack
from tests.fuzz.frames import Frames
from tests.fuzz.messages import Requests, served
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection
from tests.system import calls

TOPICS = ("fuzz-plain", "fuzz.two", "fuzz_three", "fuzz-4")
MAX_OTHER_TOPICS = 100
"""The number of topics created by frames from which on they are deleted."""

FRAMES_A_ROUND = 5_000
WARM_UP_SHARE = 0.2
"""The share of the frames before memory is measured first: caches, pools and the allocator have their size by then."""

MAX_GROWTH_BYTES = 64 << 20
"""The allowed growth after that, for any number of frames."""

MAX_DATA_BYTES = 1 << 30
MAX_STALL_S = 10.0
"""The slowest round of the well-behaved client, on two shared cores."""


class Target:
    """The broker under attack, with access to its metrics and memory."""

    def __init__(self, process: BrokerProcess, metrics_port: int) -> None:
        self.process = process
        self._metrics_url = f"http://127.0.0.1:{metrics_port}/metrics"

    def metric(self, name: str) -> int:
        """The sum of a metric over all labels."""
        with urllib.request.urlopen(self._metrics_url, timeout=20) as page:
            text = page.read().decode()
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        assert found, f"{name} is not among the metrics"
        return int(sum(map(float, found)))

    @property
    def judged(self) -> int:
        """The number of frames of all clients that the broker answered or refused."""
        return self.metric("moldau_requests_total") + self.metric("moldau_malformed_requests_total")

    @property
    def memory_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    @property
    def data_bytes(self) -> int:
        """The size of its data directory, without topics that are being deleted."""
        total = 0
        for directory, _, names in os.walk(self.process.data):
            for name in names:
                with suppress(FileNotFoundError):
                    total += os.stat(os.path.join(directory, name)).st_size
        return total

    def tidy_topics(self) -> dict[str, bytes]:
        """Create the topics that frames name again, and delete the others if there are too many. Returns names and
        ids."""
        with RawConnection(self.process.bootstrap, "janitor") as connection:
            found = {topic.name: topic for topic in calls.metadata(connection).topics if topic.name is not None}
            others = [name for name in found if name not in (*TOPICS, witness.TOPIC) and not found[name].is_internal]
            if len(others) > MAX_OTHER_TOPICS:
                topics = [DeleteTopicsRequestTopic(name=name) for name in others]
                request = DeleteTopicsRequest(topics=topics, timeout_ms=calls.TIMEOUT_MS)
                answer = connection.call(ApiKey.DELETE_TOPICS, 6, request, DeleteTopicsResponse)
                allowed = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                assert all(one.error_code in allowed for one in answer.responses)
            for name in TOPICS:
                if name not in found:
                    # It may exist by now: a request is carried out even after its client disconnected.
                    code = calls.try_create_topic(connection, name, 2).error_code
                    assert code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), ErrorCode(code).name
            return {topic.name: topic.topic_id for topic in calls.metadata(connection, *TOPICS).topics}


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    # Deleted files are removed soon and written records not kept, so that disk use is bounded.
    settings = {
        "log.segment.delete.delay.ms": "1000",
        "log.retention.check.interval.ms": "1000",
        "log.flush.offset.checkpoint.interval.ms": "1000",
    }
    arguments = ("--metrics-port", "0")
    with BrokerProcess(tmp_path / "data", settings, arguments=arguments) as process:
        port = re.search(r"metrics address=\S+:(\d+)", process.log)
        assert port, process.log
        yield Target(process, int(port[1]))


def test_no_frame_crashes_the_broker_grows_its_memory_or_disturbs_another_client(
    target: Target, seed: int, count: Callable[[int, int], int]
) -> None:
    wanted = count(50_000, 2_000_000)
    frames = Frames(seed, target.tidy_topics(), node_id=1)
    attack = Attack(target.process.bootstrap, frames, seed)
    memory_bytes = 0
    with witness.Witness(target.process.bootstrap) as beside:
        while target.judged < wanted:
            attack.send(FRAMES_A_ROUND)
            assert target.process.alive(), target.process.log[-20_000:]
            beside.check()
            if not memory_bytes and target.judged >= WARM_UP_SHARE * wanted:
                memory_bytes = target.memory_bytes
            frames.topics = target.tidy_topics()
    attack.close()
    growth = target.memory_bytes - memory_bytes
    assert target.metric("moldau_handler_failures_total") == 0, failures(target)
    assert beside.rounds > 0
    assert beside.slowest_s < MAX_STALL_S
    assert growth < MAX_GROWTH_BYTES
    assert target.data_bytes < MAX_DATA_BYTES
    assert target.process.stop() == 0


def failures(target: Target) -> str:
    """The parts of the broker's log that report internal errors."""
    lines = target.process.log.splitlines()
    places = [number for number, line in enumerate(lines) if " ERROR " in line]
    return "\n".join("\n".join(lines[place : place + 40]) for place in places[:5])


def test_every_version_of_every_request_gets_an_answer_that_can_be_read(target: Target, seed: int) -> None:
    requests = Requests(random.Random(seed), target.tidy_topics(), node_id=1)
    with RawConnection(target.process.bootstrap) as connection:
        for case, versions in served():
            api = ApiKey(case.cls.API_KEY)  # type: ignore[attr-defined]
            response = getattr(case.module, str(case).replace("Request", "Response"))
            for version in versions:
                message = requests.message(case, version)
                if isinstance(message, ProduceRequest):
                    message.acks = 1  # acks=0 has no answer
                if isinstance(message, FetchRequest):
                    message.max_wait_ms = 0
                without_unknown_codes(message)
                connection.send(api, version, message.encode(version))
                frame = connection.receive_frame()
                _, body_at = decode_response_header(frame, api, version)
                assert response.decode(frame, version, body_at).encode(version) == frame[body_at:], (str(case), version)
    assert target.metric("moldau_handler_failures_total") == 0, failures(target)


def without_unknown_codes(message: object) -> None:
    """Name something in every field of rules and filters: one that says UNKNOWN closes the connection, as in Kafka."""
    if isinstance(message, DescribeAclsRequest):
        rules: Sequence[object] = [message]
    elif isinstance(message, CreateAclsRequest):
        rules = message.creations
    elif isinstance(message, DeleteAclsRequest):
        rules = message.filters
    else:
        return
    for rule in rules:
        for name in vars_of(rule):
            if getattr(rule, name) == 0:
                setattr(rule, name, 1)


def vars_of(rule: object) -> list[str]:
    codes = ("resource_type", "pattern_type", "resource_pattern_type", "operation", "permission_type")
    return [name for code in codes for name in (code, f"{code}_filter") if hasattr(rule, name)]
