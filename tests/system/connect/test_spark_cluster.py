"""Connectors on a standalone cluster of Spark: the worker is the driver, the tasks run in executors."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.testing import Broker
from tests.compat.apache_kafka.processes import free_port
from tests.spark.spark_cluster import environment, standalone_cluster
from tests.support.connect_worker import ConnectWorker
from tests.system.connect.numbers_pipeline import begin, check_every_number_once

ROWS = 20_000


@pytest.mark.needs_java
@pytest.mark.timeout(600)
def test_a_source_and_a_sink_run_on_a_standalone_cluster(tmp_path: Path, soak: bool) -> None:
    if not soak:
        pytest.skip("with make soak: starts a cluster of Spark")
    with (
        Broker() as broker,
        standalone_cluster(tmp_path) as master,
        ConnectWorker(
            broker.bootstrap_servers, free_port(), environment=environment(), arguments=["--master", master]
        ) as worker,
    ):
        begin(broker, worker, tmp_path / "numbers", ROWS)
        check_every_number_once(broker, tmp_path / "numbers", ROWS)
