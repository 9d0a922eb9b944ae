"""Three brokers that log in to each other by SCRAM over TLS: failover, new certificates, a new password under load."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from moldau import Admin, ConfigResource, Producer
from moldau.client.admin import UserScramUpsertion
from moldau.security.certificates import new_authority, new_certificate
from moldau.security.credentials import ScramMechanism
from moldau.testing import Cluster
from moldau.testing.security import Security
from tests.support.waiting import wait_until

USER, PASSWORD, NEXT_PASSWORD = "brokers", "the first password", "the second password"
MECHANISM = "SCRAM-SHA-256"
JAAS = f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config"


def jaas(password: str) -> str:
    return f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{password}";'


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    settings = {
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        JAAS: jaas(PASSWORD),
        "moldau.security.refresh.interval.ms": "50",
        "replica.lag.time.max.ms": "3000",
        "connections.max.reauth.ms": "2000",
    }
    security = Security(users={"writer": "w"}, super_users=(USER, "writer"), tls=True)
    with Cluster(3, settings, security=security) as running:
        with Admin(running.client_settings("writer")) as admin:
            admin.alter_user_scram_credentials(UserScramUpsertion(USER, PASSWORD, ScramMechanism.SCRAM_SHA_256))
        running.create_topic("records", partitions=3, replication_factor=3, configs={"min.insync.replicas": "2"})
        yield running


class Load:
    """A writer in its own thread; `errors` has every record that was not acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self._settings = {**cluster.client_settings("writer"), "linger.ms": 1}
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._ended = threading.Event()
        self.errors: list[BaseException] = []
        self.acknowledged = 0

    def _write(self) -> None:
        with Producer(self._settings) as producer:
            while not self._ended.is_set():
                for future in [producer.send("records", b"value", partition=one) for one in range(3)]:
                    try:
                        future.result(60)
                        self.acknowledged += 1
                    except Exception as error:  # noqa: BLE001 - every error counts
                        self.errors.append(error)

    def more(self, count: int = 30) -> None:
        """Wait until so many more records are acknowledged."""
        target = self.acknowledged + count
        wait_until(lambda: self.acknowledged >= target or self.errors, f"{count} more records", 60)

    def __enter__(self) -> Load:
        self._thread.start()
        self.more()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)
        assert not self.errors, self.errors[:3]


def all_in_sync(cluster: Cluster) -> None:
    wait_until(lambda: all(len(cluster.in_sync("records", one)) == 3 for one in range(3)), "all replicas in sync", 60)


def restart_followers(cluster: Cluster, load: Load) -> None:
    """Stop and start each broker, so that every connection between brokers is a new one."""
    for broker in list(cluster.brokers):
        broker.stop()
        load.more(6)
        broker.start()
        all_in_sync(cluster)


@pytest.mark.timeout(240)
def test_records_are_replicated_and_a_leader_that_dies_is_replaced(cluster: Cluster) -> None:
    all_in_sync(cluster)
    with Load(cluster) as load:
        leader = cluster.leader_of("records")
        victim = next(broker for broker in cluster.brokers if broker.node_id == leader)
        victim.crash()
        wait_until(lambda: cluster.leader_of("records") not in (leader, -1), "another leader", 60)
        load.more()
        victim.start()
        all_in_sync(cluster)


@pytest.mark.timeout(240)
def test_certificates_are_replaced_without_an_error_for_clients(cluster: Cluster) -> None:
    """Another authority signs new certificates: first both are trusted, then the certificates change."""
    assert cluster._security_files is not None
    folder = Path(cluster._security_files.name)
    now = datetime.now(UTC)
    another = new_authority("another authority", now)
    with Load(cluster) as load:
        trust = folder / "ca.pem"
        replaced(trust, trust.read_text() + another.certificate)
        replaced(folder / "server.pem", new_certificate(another, "broker", now, hosts=("127.0.0.1", "localhost")).pem)
        time_for_the_check = 3 * 0.05
        time.sleep(time_for_the_check)
        restart_followers(cluster, load)
        load.more()


def replaced(path: Path, text: str) -> None:
    """Replace a file at once, as every tool that renews certificates does."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.chmod(0o600)
    other.rename(path)


@pytest.mark.timeout(240)
def test_the_brokers_password_is_changed_without_an_error_for_clients(cluster: Cluster, tmp_path: Path) -> None:
    """In the settings, or in a file that the settings refer to."""
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    with Load(cluster) as load, Admin(cluster.client_settings("writer")) as admin:
        admin.alter_configs({ConfigResource.broker(cluster.brokers[0].node_id): {JAAS: jaas(f"${{file:{file}}}")}})
        admin.alter_user_scram_credentials(UserScramUpsertion(USER, NEXT_PASSWORD, ScramMechanism.SCRAM_SHA_256))
        file.write_text(NEXT_PASSWORD)
        for broker in cluster.brokers[1:]:
            admin.alter_configs({ConfigResource.broker(broker.node_id): {JAAS: jaas(NEXT_PASSWORD)}})
        restart_followers(cluster, load)
        load.more()


@pytest.mark.timeout(240)
def test_a_broker_with_a_wrong_password_replicates_nothing(cluster: Cluster) -> None:
    all_in_sync(cluster)
    with Admin(cluster.client_settings("writer")) as admin:
        stranger = next(broker for broker in cluster.brokers if broker.node_id != cluster.leader_of("records"))
        admin.alter_configs({ConfigResource.broker(stranger.node_id): {JAAS: jaas("wrong password")}})
        stranger.stop()
        stranger.start()
        with Load(cluster) as load:
            wait_until(lambda: stranger.node_id not in cluster.in_sync("records"), "the stranger leaves the ISR", 60)
            load.more()
        admin.alter_configs({ConfigResource.broker(stranger.node_id): {JAAS: jaas(PASSWORD)}})
        all_in_sync(cluster)
