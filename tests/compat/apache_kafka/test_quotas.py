"""Quotas of Apache Kafka and of Moldau: the same requests, and the same codes and throttle times where they are exact.

Two differences are intended, and tested as such: Kafka lets a new client send ten seconds' worth of bytes at once, and
it answers a fetch above the rate with an empty response even if the batch can never be read at that rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.wire.errors import ErrorCode
from moldau.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasRequestOp,
)
from moldau.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from moldau.wire.messages.fetch import FetchResponse
from moldau.wire.messages.produce import ProduceResponse
from tests.compat import wire
from tests.compat.apache_kafka.jars import KafkaJars
from tests.compat.apache_kafka.processes import ApacheKafka, Moldau
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until
from tests.system.quotas.test_mutations import create, delete, grow

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(300)]

KAFKA, MOLDAU = "Apache Kafka", "Moldau"
SLACK_MS = 900
"""Time that passes between two requests; the bucket fills meanwhile."""
CLIENTS: dict[str, dict[str, float]] = {
    **{f"{api}-v{version}": {"controller_mutation_rate": 1.0} for api in ("c", "d", "g", "v") for version in range(8)},
    "producer": {"producer_byte_rate": 1_000.0},
    "fast-producer": {"producer_byte_rate": 1e9},
    **{f"consumer-v{version}": {"consumer_byte_rate": 10.0} for version in (4, 11, 12)},
    "fast-consumer": {"consumer_byte_rate": 1e9},
}
BATCH = b"x" * 50_000


@pytest.fixture(scope="module")
def servers(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    directories = [tmp_path_factory.mktemp(name) for name in ("kafka", "moldau")]
    with ApacheKafka(jars, directories[0]) as kafka, Moldau(directories[1]) as moldau:
        found = {KAFKA: kafka.bootstrap, MOLDAU: moldau.bootstrap}
        for address in found.values():
            with RawConnection(address, "setup") as connection:
                set_quotas(connection)
                wire.create_topic(connection, "t", 1, {})
                wire.produced(connection, "t", BATCH)
        yield found


def set_quotas(connection: RawConnection) -> None:
    entries = [
        AlterClientQuotasRequestEntry(
            entity=[AlterClientQuotasRequestEntity(entity_type="client-id", entity_name=name)],
            ops=[AlterClientQuotasRequestOp(key=key, value=value, remove=False) for key, value in values.items()],
        )
        for name, values in CLIENTS.items()
    ]
    answer = wire.ask(connection, AlterClientQuotasRequest(entries=entries))
    assert {entry.error_code for entry in answer.entries} == {0}
    wait_until(
        lambda: len(wire.ask(connection, DescribeClientQuotasRequest(components=[])).entries or ()) == len(CLIENTS)
    )


def both(servers: dict[str, str], client_id: str, act: Callable[[RawConnection], Any]) -> tuple[Any, Any]:
    """What each server answers to a new connection."""
    answers = []
    for name in (KAFKA, MOLDAU):
        with RawConnection(servers[name], client_id, 60) as connection:
            answers.append(act(connection))
    return answers[0], answers[1]


def assert_like(kafka: int, moldau: int) -> None:
    """Throttle times that differ only by the time between requests."""
    assert abs(kafka - moldau) <= SLACK_MS, (kafka, moldau)


@pytest.mark.parametrize("version", [2, 5, 6, 7])
def test_topics_above_the_quota(servers: dict[str, str], version: int) -> None:
    client_id = f"c-v{version}"
    names = [(f"a-{version}", 10), (f"b-{version}", 4), (f"c-{version}", 1)]
    kafka, moldau = both(servers, client_id, lambda connection: create(connection, version, *names))
    codes = [[(one.name, one.error_code) for one in answer.topics] for answer in (kafka, moldau)]
    assert codes[0] == codes[1]
    assert codes[0][2][1] == (ErrorCode.THROTTLING_QUOTA_EXCEEDED if version >= 6 else 0)
    assert_like(kafka.throttle_time_ms, moldau.throttle_time_ms)
    assert kafka.throttle_time_ms > 2_000
    kafka, moldau = both(servers, client_id, lambda connection: create(connection, version, names[0]))
    assert [one.error_code for one in kafka.topics] == [one.error_code for one in moldau.topics]
    assert_like(kafka.throttle_time_ms, moldau.throttle_time_ms)


def test_a_checked_creation_above_the_quota(servers: dict[str, str]) -> None:
    for _ in range(2):
        kafka, moldau = both(servers, "v-v7", lambda one: create(one, 7, ("checked", 14), validate_only=True))
        assert [one.error_code for one in kafka.topics] == [one.error_code for one in moldau.topics]
        assert_like(kafka.throttle_time_ms, moldau.throttle_time_ms)


@pytest.mark.parametrize("version", [2, 3])
def test_partitions_above_the_quota(servers: dict[str, str], version: int) -> None:
    name = f"grown-{version}"
    for address in servers.values():
        with RawConnection(address, "setup") as connection:
            wire.create_topic(connection, name, 2, {})
    for total in (16, 17):
        kafka, moldau = both(
            servers, f"g-v{version}", lambda connection, total=total: grow(connection, version, name, total)
        )
        assert [one.error_code for one in kafka.results] == [one.error_code for one in moldau.results]
        assert_like(kafka.throttle_time_ms, moldau.throttle_time_ms)
        assert (kafka.throttle_time_ms > 0) == (total == 17 or version < 3)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_deletions_above_the_quota(servers: dict[str, str], version: int) -> None:
    names = [f"large-{version}", f"small-{version}"]
    for address in servers.values():
        with RawConnection(address, "setup") as connection:
            wire.create_topic(connection, names[0], 14, {})
            wire.create_topic(connection, names[1], 1, {})
    for name in names:
        kafka, moldau = both(servers, f"d-v{version}", lambda connection, name=name: delete(connection, version, name))
        assert [one.error_code for one in kafka.responses] == [one.error_code for one in moldau.responses]
        assert_like(kafka.throttle_time_ms, moldau.throttle_time_ms)
        assert (kafka.throttle_time_ms > 0) == (name == names[1] or version < 5)


@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_a_producer_above_and_below_its_rate(servers: dict[str, str], version: int) -> None:
    def send(connection: RawConnection) -> ProduceResponse:
        response: ProduceResponse = wire.ask(
            connection, wire.produce_request("t", [(0, wire.batch_of(BATCH))]), version
        )
        return response

    for answer in both(servers, "producer", send):
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert answer.throttle_time_ms > 9_000
    for answer in both(servers, "fast-producer", send):
        assert answer.throttle_time_ms == 0


@pytest.mark.parametrize("version", [4, 11, 12])
def test_a_consumer_above_and_below_its_rate(servers: dict[str, str], version: int) -> None:
    def read(connection: RawConnection) -> FetchResponse:
        return wire.fetch(connection, "t", [wire.fetch_partition()], version=version)

    client_id = f"consumer-v{version}"
    both(servers, client_id, read)  # Moldau sends the first batch, and throttles the client after it
    for answer in both(servers, client_id, read):
        assert (answer.error_code, answer.session_id, answer.responses) == (0, 0, [])
        assert answer.throttle_time_ms > 1_000
    for answer in both(servers, "fast-consumer", read):
        assert answer.throttle_time_ms == 0
        assert wire.only_partition(answer).records


def test_the_response_comes_first_and_then_the_pause(servers: dict[str, str]) -> None:
    for name, address in servers.items():
        with RawConnection(address, "producer", 60) as connection:
            wire.ask(connection, wire.produce_request("t", [(0, wire.batch_of(BATCH))]), 11)
            connection.socket.settimeout(0.5)
            with pytest.raises(TimeoutError):
                wire.metadata(connection, [])
            assert name
