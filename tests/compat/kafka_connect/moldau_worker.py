"""Worker of Moldau as a child process (`moldau connect`), with the interface of the one of Apache Kafka."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.compat.apache_kafka.jars import KafkaJars
from tests.compat.kafka_connect.worker import KafkaConnect

SETTINGS = {"heartbeat.interval.ms": "300", "spark.master": "local[8]"}


class MoldauConnect(KafkaConnect):
    """A distributed worker of Moldau. It reads the same property file as the one of Apache Kafka."""

    def __init__(self, directory: Path, bootstrap: str, settings: dict[str, str] | None = None) -> None:
        super().__init__(KafkaJars(directory), directory, bootstrap, {**SETTINGS, **(settings or {})})

    def command(self) -> list[str]:
        return [sys.executable, "-m", "moldau", "connect", "--config", str(self._properties)]
