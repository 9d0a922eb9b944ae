"""Servers as child processes: a real Apache Kafka 4.x (KRaft, one node) and a Moldau broker, each on loopback.

Both are context managers with a `bootstrap` attribute, so that one test can run against either.
"""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.compat.apache_kafka.jars import KafkaJars

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60
LOG_TAIL_CHARS = 4_000

CLUSTER_ID = "bW9sZGF1LWNvbXBhdC0xMg"

# librdkafka logs each refused connection while a server starts. These lines are expected.
_unheard = logging.getLogger(f"{__name__}.starting")
_unheard.propagate = False
_unheard.addHandler(logging.NullHandler())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ServerProcess:
    """A child process that serves the Kafka protocol; started on enter, stopped with SIGTERM on exit."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log_file = directory / "server.log"
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.client_settings: dict[str, str] = {}
        """How a client of confluent-kafka logs in, beside the address."""
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdout=log, stderr=subprocess.STDOUT)
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.kill()
            raise

    def _wait_until_it_answers(self) -> None:
        # The client library waits: it reconnects until the time is up.
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "logger": _unheard, **self.client_settings})
        try:
            brokers = admin.list_topics(timeout=START_TIMEOUT_S).brokers
        except KafkaException as error:
            raise RuntimeError(f"{type(self).__name__} did not answer: {error}\n{self.log_tail()}") from error
        if not brokers:
            raise RuntimeError(f"{type(self).__name__} answered without a broker\n{self.log_tail()}")

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def stop(self) -> None:
        """Stop by SIGTERM. Fails if the exit code does not show a clean stop."""
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._process = None
        # A JVM exits with the number of the signal that ended it.
        if code not in (0, 128 + signal.SIGTERM, -signal.SIGTERM):
            raise RuntimeError(f"{type(self).__name__} stopped with exit code {code}\n{self.log_tail()}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log_tail(self) -> str:
        return self.log_file.read_text(errors="replace")[-LOG_TAIL_CHARS:]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()


class ApacheKafka(ServerProcess):
    """A real Apache Kafka: broker and controller in one process, with its data below `directory`."""

    def __init__(
        self,
        jars: KafkaJars,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        protocol: str = "PLAINTEXT",
        other_listeners: Mapping[str, str] | None = None,
    ) -> None:
        """`other_listeners` are addresses by security protocol, beside the one that is waited for."""
        super().__init__(directory)
        self._jars = jars
        self.data = directory / "data"
        self._properties = directory / "server.properties"
        controller_port = free_port()
        addresses = {protocol: self.bootstrap, **(other_listeners or {})}
        protocols = [*(f"{name}:{name}" for name in addresses), "CONTROLLER:PLAINTEXT"]
        served = ",".join(f"{name}://{address}" for name, address in addresses.items())
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"{served},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": served,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(protocols),
            "log.dirs": str(self.data),
            # Internal topics of one node with as few partitions as possible.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(settings or {}),
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    def command(self) -> list[str]:
        return self._jars.command("kafka.Kafka", str(self._properties))

    def start(self) -> None:
        if not self.data.exists():
            self._format()
        super().start()

    def _format(self, *options: str) -> None:
        arguments = ("format", "--cluster-id", CLUSTER_ID, "--config", str(self._properties), *options)
        formatted = self._jars.run("kafka.tools.StorageTool", *arguments)
        if formatted.returncode != 0:
            raise RuntimeError(f"kafka.tools.StorageTool failed: {formatted.stdout}{formatted.stderr}")

    def partition_directory(self, topic: str, partition: int) -> Path:
        return self.data / f"{topic}-{partition}"


class SecuredApacheKafka(ApacheKafka):
    """An Apache Kafka with access control. Its only listener for clients asks for a login by SASL PLAIN.

    `users` have their passwords. The first one is a super user. The controller's listener needs no login, and
    its clients are super users, too.
    """

    def __init__(
        self, jars: KafkaJars, directory: Path, users: Mapping[str, str], settings: Mapping[str, str] | None = None
    ) -> None:
        admin, password = next(iter(users.items()))
        super().__init__(jars, directory, secured_by_plain(users) | dict(settings or {}), protocol="SASL_PLAINTEXT")
        self.client_settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": admin,
            "sasl.password": password,
        }


def secured_by_plain(users: Mapping[str, str]) -> dict[str, str]:
    """Broker settings for SASL PLAIN and access control by rules. The first user is a super user."""
    admin, password = next(iter(users.items()))
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{admin}" password="{password}"'
    known = " ".join(f'user_{name}="{secret}"' for name, secret in users.items())
    return {
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{login} {known};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{admin};User:ANONYMOUS",
    }


class Moldau(ServerProcess):
    """A Moldau broker, started by the public command, with its data below `directory`."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory)
        self.data = directory / "data"
        self._settings = dict(settings or {})

    def command(self) -> list[str]:
        overrides = [f"--set={name}={value}" for name, value in self._settings.items()]
        return [*moldau_command("broker"), "--data", str(self.data), "--listen", self.bootstrap, *overrides]


def moldau_command(*arguments: str) -> list[str]:
    """The `moldau` command of the environment that runs the tests."""
    return [str(Path(sys.executable).with_name("moldau")), *arguments]
