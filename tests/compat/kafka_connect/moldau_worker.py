"""Worker of Moldau as a child process, assembled from the real herder, engine and REST API.

python -m tests.compat.kafka_connect.moldau_worker PORT BOOTSTRAP
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from moldau.connect.config_validator import ConfigValidator
from moldau.connect.engine.engine import Engine
from moldau.connect.herder.distributed_herder import DistributedHerder, DistributedSettings
from moldau.connect.herder.stored_herder import HerderParts
from moldau.connect.rest.forwarding import HttpForward
from moldau.connect.rest.routes import routes
from moldau.connect.validation import WorkerRules
from moldau.host.threads import Threads
from tests.compat.kafka_connect.worker import KafkaConnect

STRING = "org.apache.kafka.connect.storage.StringConverter"
SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


async def main(port: int, bootstrap: str) -> None:
    converters = {"key.converter": STRING, "value.converter": STRING, "header.converter": SIMPLE}
    settings = {"bootstrap.servers": bootstrap, "group.id": "connect-cluster", **converters}
    threads = Threads()
    parts = HerderParts(
        lambda report: Engine(settings, {"spark.master": "local[8]"}, report),
        ConfigValidator(threads, dict, WorkerRules(converters=converters)),
    )
    address = f"127.0.0.1:{port}"
    herder = DistributedHerder(
        DistributedSettings({"bootstrap.servers": bootstrap}, f"http://{address}", address), parts
    )
    await herder.start()
    forward = HttpForward()
    app = Starlette(routes=routes(herder, forward))
    try:
        await uvicorn.Server(uvicorn.Config(app, "127.0.0.1", port, log_level="warning")).serve()
    finally:
        await herder.close()
        await forward.close()
        await threads.close()


class MoldauConnect(KafkaConnect):
    """A distributed worker of Moldau, with the interface of the one of Apache Kafka."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        super().__init__(None, directory, bootstrap)
        self._bootstrap = bootstrap

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.compat.kafka_connect.moldau_worker", str(self.port), self._bootstrap]


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
