"""Worker of Moldau as a child process (`moldau connect`), with the interface of the one of Apache Kafka."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.compat.kafka_connect.worker import KafkaConnect

SETTINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
}


class MoldauConnect(KafkaConnect):
    """A distributed worker of Moldau."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        super().__init__(None, directory, bootstrap)
        self._bootstrap = bootstrap

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "moldau", "connect", "-b", self._bootstrap, "--port", str(self.port)]
        for name, value in SETTINGS.items():
            command += ["--set", f"{name}={value}"]
        return command
