"""Workers of Moldau on a broker of Apache Kafka: the same group protocol, topics and transactions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.connect.herder import ConnectorOffset
from tests.compat.apache_kafka.jars import JarsUnavailableError, fetch_jars
from tests.compat.apache_kafka.processes import ApacheKafka
from tests.connect.herder.workers import Cluster
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.needs_java


def test_workers_share_connectors_and_take_over_on_apache_kafka(tmp_path: Path, soak: bool) -> None:
    if not soak:
        pytest.skip("Apache Kafka as the broker: with make soak")
    try:
        jars = fetch_jars()
    except JarsUnavailableError as reason:
        pytest.skip(f"Apache Kafka's jars cannot be had: {reason}")

    async def scenario(cluster: Cluster) -> None:
        await cluster.start("w1", "w2")
        config = {"connector.class": "FileStreamSource", "file": "/nowhere", "topic": "t"}
        for name in "abcd":
            await (await cluster.leader()).create(name, {**config, "name": name})
        await wait_until_async(lambda: len(cluster.runs("w1")) == len(cluster.runs("w2")) == 2, "each has two")
        dead = await cluster.leader()
        [survivor] = [name for name, one in cluster.workers.items() if one is not dead]
        await dead._member.abandon()
        await wait_until_async(lambda: cluster.runs(survivor) == set("abcd"), "all was taken over", 15.0)
        worker = cluster.workers[survivor]
        await worker.stop("a")
        offset = ConnectorOffset({"filename": "/nowhere"}, {"position": 3})
        await worker.alter_offsets("a", [offset])
        assert (await worker.offsets("a")).offsets == [offset]

    async def whole(bootstrap: str) -> None:
        cluster = Cluster(bootstrap, "on-kafka")
        try:
            await scenario(cluster)
        finally:
            await cluster.close()

    with ApacheKafka(jars, tmp_path, {"group.min.session.timeout.ms": "500"}) as kafka:
        asyncio.run(whole(kafka.bootstrap))
