"""Apache Kafka's own command-line tools, all run in one JVM because the start of a JVM is slow."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.compat.apache_kafka.jars import JVM_FLAGS, KafkaJars

RUNNER = Path(__file__).with_name("KafkaTools.java")
STOP_TIMEOUT_S = 30

CLASSES = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}


class Result(NamedTuple):
    """The output and exit code of a tool."""

    code: int
    out: str
    err: str


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class RealTools:
    """The JVM that runs the tools, as a context manager."""

    def __init__(self, jars: KafkaJars) -> None:
        self._command = ["java", *JVM_FLAGS, "-cp", f"{jars.directory}/*", str(RUNNER)]
        self._process: subprocess.Popen[str] | None = None

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Result:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = "\t".join([CLASSES[tool], _encoded(stdin), *map(_encoded, arguments)])
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the JVM has ended: {tool} {' '.join(arguments)}"
        code, out, err = answer.rstrip("\n").split(" ")
        return Result(int(code), base64.b64decode(out).decode(), base64.b64decode(err).decode())

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        assert process is not None
        if kind is not None:
            process.kill()
        process.communicate(timeout=STOP_TIMEOUT_S)
