"""Worker of Moldau as a child process, assembled from the real herder, engine and REST API.

python -m tests.compat.kafka_connect.moldau_worker PORT BOOTSTRAP
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from moldau.connect.config_validator import ConfigValidator
from moldau.connect.engine.engine import Engine
from moldau.connect.herder.distributed_herder import DistributedHerder, DistributedSettings
from moldau.connect.herder.stored_herder import HerderParts
from moldau.connect.rest.dispatch import MAX_HOPS, rest_error_body
from moldau.connect.rest.routes import routes
from moldau.connect.validation import WorkerRules
from moldau.host.threads import Threads
from moldau.service.app import service_app
from moldau.service.forwarding import Forwarder
from moldau.service.http_settings import HttpAddress, HttpSettings
from moldau.service.metrics import HttpMetrics
from moldau.service.server import HttpServer, run_process
from tests.compat.kafka_connect.worker import KafkaConnect

STRING = "org.apache.kafka.connect.storage.StringConverter"
SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


async def serve(port: int, bootstrap: str, stop: asyncio.Event) -> int:
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
    forwarder = Forwarder(max_hops=MAX_HOPS)
    http = HttpSettings((HttpAddress("http", "127.0.0.1", port),))
    app = service_app(routes(herder, forwarder), http, metrics=HttpMetrics("connect"), error_body=rest_error_body)
    server = HttpServer(app, http)
    await server.start()
    await stop.wait()
    await server.stop()
    await herder.close()
    await forwarder.close()
    await threads.close()
    return 0


class MoldauConnect(KafkaConnect):
    """A distributed worker of Moldau, with the interface of the one of Apache Kafka."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        super().__init__(None, directory, bootstrap)
        self._bootstrap = bootstrap

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.compat.kafka_connect.moldau_worker", str(self.port), self._bootstrap]


if __name__ == "__main__":
    sys.exit(run_process(lambda stop: serve(int(sys.argv[1]), sys.argv[2], stop)))
