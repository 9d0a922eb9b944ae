"""Standalone worker: the same requests without a group; offsets outlive the process, configurations do not."""

from __future__ import annotations

import asyncio

from moldau.connect.herder import ConnectorOffset, State
from tests.connect.herder.workers import Cluster
from tests.support.waiting import wait_until_async

CONFIG = {"connector.class": "FileStreamSource", "file": "/nowhere", "topic": "t", "name": "a"}


def test_a_standalone_worker_runs_its_connectors_and_keeps_their_offsets_in_the_topic(cluster: Cluster) -> None:
    async def scenario() -> None:
        worker = cluster.standalone()
        await worker.start()
        assert (await worker.put_config("a", CONFIG)).created
        await wait_until_async(lambda: "a" in worker.statuses.connectors, "it has a state")
        assert (await worker.status("a")).connector.state is State.RUNNING
        await wait_until_async(lambda: len(worker.configs.task_configs("a")) == 1, "its task is known")
        assert await worker.restart("a") is None
        await worker.stop("a")
        offset = ConnectorOffset({"filename": "/nowhere"}, {"position": 3})
        await worker.alter_offsets("a", [offset])
        await worker.close()
        again = cluster.standalone("again")
        await again.start()
        assert await again.connectors() == []
        await again.put_config("a", CONFIG)
        assert (await again.offsets("a")).offsets == [offset]
        await again.delete("a")
        await wait_until_async(lambda: not cluster.runs("again"), "it has stopped")
        await again.close()

    asyncio.run(scenario())
