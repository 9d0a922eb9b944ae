"""Sources of settings, their precedence, and their effect in the broker."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
)
from moldau.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.compat.wire import ask
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until
from tests.system import calls

# As in Kafka's own config/server.properties, without the comments.
KAFKA_PROPERTIES = """
process.roles=broker,controller
node.id=7
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
num.partitions=2
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=100
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
sasl.kerberos.min.time.before.relogin=60000
ssl.client.auth=none
my.plugin.url=http://example.org
"""


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(KAFKA_PROPERTIES)
    return path


def partitions_of_a_new_topic(connection: RawConnection) -> int:
    """The partition count of a topic that is created automatically."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
    response = connection.call(ApiKey.METADATA, calls.METADATA_VERSION, request, MetadataResponse)
    assert response.topics[0].error_code == ErrorCode.NONE
    return len(response.topics[0].partitions)


def test_a_properties_file_written_for_kafka_is_accepted(tmp_path: Path, properties: Path) -> None:
    process = BrokerProcess(tmp_path / "data", arguments=("--config", str(properties)))
    with process as broker, RawConnection(broker.bootstrap) as connection:
        assert [node.node_id for node in calls.metadata(connection).brokers] == [7]
        assert partitions_of_a_new_topic(connection) == 2
        assert calls.describe_configs(connection, calls.BROKER, "7")["num.io.threads"] == "8"
        assert calls.describe_configs(connection, calls.TOPIC, "new")["retention.ms"] == str(100 * 3_600_000)
        for setting in ("num.network.threads", "sasl.kerberos.min.time.before.relogin", "my.plugin.url"):
            assert setting in broker.log, "the log names settings without effect"


def test_a_setting_without_effect_that_is_altered_at_run_time_is_logged(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker, RawConnection(broker.bootstrap) as connection:
        name = str(calls.metadata(connection).brokers[0].node_id)
        resource = AlterConfigsRequestResource(
            resource_type=calls.BROKER,
            resource_name=name,
            configs=[AlterConfigsRequestConfig(name="my.plugin.url", value="x")],
        )
        (answer,) = ask(connection, AlterConfigsRequest(resources=[resource])).responses
        assert answer.error_code == ErrorCode.NONE
        wait_until(lambda: "my.plugin.url" in broker.log)


@pytest.mark.parametrize(
    ("environment", "settings", "expected"),
    [({"MOLDAU_NUM_PARTITIONS": "3"}, {}, 3), ({"MOLDAU_NUM_PARTITIONS": "3"}, {"num.partitions": "4"}, 4)],
    ids=["the-environment-over-the-file", "the-command-line-over-both"],
)
def test_the_command_line_wins_over_the_environment_and_that_over_the_file(
    tmp_path: Path, properties: Path, environment: dict[str, str], settings: dict[str, str], expected: int
) -> None:
    process = BrokerProcess(
        tmp_path / "data", settings, arguments=("--config", str(properties)), environment=environment
    )
    with process as broker, RawConnection(broker.bootstrap) as connection:
        assert partitions_of_a_new_topic(connection) == expected


def test_several_data_directories_are_filled_evenly_and_keep_their_logs(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one", "two", "three")]
    settings = {"log.dirs": ",".join(map(str, paths))}
    environment = {"MOLDAU_LOG_DIRS": settings["log.dirs"]}
    for source in ({"settings": settings}, {"environment": environment}):
        process = NoData(tmp_path / "unused", **source)  # type: ignore[arg-type]
        with process as broker, RawConnection(broker.bootstrap) as connection:
            calls.try_create_topic(connection, "spread", 6)
            held = {path: len(found.topics[0].partitions) for path, found in calls.log_dirs(connection).items()}
            assert held == {str(path): 2 for path in paths}
    assert not (tmp_path / "unused").exists()


class NoData(BrokerProcess):
    """A broker that is started without --data."""

    def command(self) -> list[str]:
        first, *rest = super().command()
        at = rest.index("--data")
        return [first, *rest[:at], *rest[at + 2 :]]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_clients_get_the_address_of_the_listener_that_they_use(tmp_path: Path) -> None:
    outside = free_port()
    settings = {
        "listeners": f"INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:{outside}",
        "advertised.listeners": "INSIDE://127.0.0.1:0,OUTSIDE://kafka.example.org:19092",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }
    with BrokerProcess(tmp_path / "data", settings) as broker:
        with RawConnection(broker.bootstrap) as connection:
            assert addresses(connection) == [("127.0.0.1", broker.port)] * 2
        with RawConnection(f"127.0.0.1:{outside}") as connection:
            assert addresses(connection) == [("kafka.example.org", 19092)] * 2


def addresses(connection: RawConnection) -> list[tuple[str, int]]:
    """The addresses in Metadata and in DescribeCluster."""
    (one,) = calls.metadata(connection).brokers
    response = connection.call(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest(), DescribeClusterResponse)
    (other,) = response.brokers
    return [(one.host, one.port), (other.host, other.port)]
