"""Apache Kafka Connect 4.3 as a child process: one distributed worker on loopback.

    with KafkaConnect(connect_jars(), directory, broker.bootstrap) as worker:
        requests.get(worker.url + "/connectors")

The context is entered when the worker answers requests. Its output goes to `directory/server.log`. `pid` is for tests
that kill it or stop it for a while.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.compat.apache_kafka.jars import KafkaJars, fetch_jars
from tests.compat.apache_kafka.processes import ServerProcess

POM = Path(__file__).with_name("pom.xml")
LOG4J = Path(__file__).with_name("log4j2.properties")
START_TIMEOUT_S = 90
REQUEST_TIMEOUT_S = 30
PAUSE_S = 0.1

# A worker runs for seconds: optimising it would take longer than it saves. Benches pass flags of their own.
JVM_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m")


def connect_jars(jvm_flags: tuple[str, ...] = JVM_FLAGS) -> KafkaJars:
    """The class path of Kafka Connect with its file connectors. JarsUnavailableError if they cannot be had."""
    return replace(fetch_jars(POM), jvm_flags=(*jvm_flags, f"-Dlog4j2.configurationFile={LOG4J}"))


class KafkaConnect(ServerProcess):
    """A distributed worker of Apache Kafka Connect. `settings` replace those given here."""

    def __init__(
        self, jars: KafkaJars, directory: Path, bootstrap: str, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(directory)
        self._jars = jars
        self.url = f"http://127.0.0.1:{self.port}"
        self._properties = directory / "worker.properties"
        properties = {
            "bootstrap.servers": bootstrap,
            "group.id": "connect-cluster",
            "listeners": self.url,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "config.storage.topic": "connect-configs",
            "offset.storage.topic": "connect-offsets",
            "status.storage.topic": "connect-status",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            # Few partitions: each one costs time at the start.
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            "offset.flush.interval.ms": "500",
            # A worker that was killed is replaced at once, not after five minutes.
            "scheduled.rebalance.max.delay.ms": "0",
            # All of its plugins have manifests: it need not scan the class path.
            "plugin.discovery": "service_load",
            **(settings or {}),
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    def command(self) -> list[str]:
        return self._jars.command("org.apache.kafka.connect.cli.ConnectDistributed", str(self._properties))

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            # The first requests wait inside the worker until it has read its topics.
            try:
                status, _ = self.request("GET", "/connectors")
            except OSError as error:
                status, reason = 0, str(error)
            else:
                reason = f"status {status}"
            if status == 200:
                return
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Kafka Connect did not answer: {reason}\n{self.log_tail()}")
            time.sleep(PAUSE_S)

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send one request; the status and the parsed JSON body of the answer (None: no body)."""
        return rest_request(method, self.url + path, body)


def rest_request(method: str, url: str, body: Any = None) -> tuple[int, Any]:
    """Send one request to a worker of either kind; the status and the parsed JSON body (None: no body)."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    asked = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=REQUEST_TIMEOUT_S) as answer:
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read()
    return status, json.loads(text) if text else None
