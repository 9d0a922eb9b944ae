"""A registry with many subjects: it starts within seconds."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

from moldau.aio import Admin, Producer
from moldau.registry.records import StoredSchema, schema_entry
from moldau.registry.registry_service import ServiceSettings, TopicRegistry
from moldau.schemas.schema import Schema
from moldau.service.compacted_topic import ensure_compacted_topic
from moldau.service.http_settings import HttpAddress

SUBJECTS = 10_000
START_S = 5.0
FIELDS = [{"name": f"field_{number}", "type": ["null", "string"], "default": None} for number in range(10)]


def text_of(number: int) -> str:
    return json.dumps({"type": "record", "name": f"R{number}", "fields": FIELDS})


async def fill(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        deadline = asyncio.get_running_loop().time() + 60
        await ensure_compacted_topic(
            admin, topic, partitions=1, replication_factor=1, fewer_replicas=True, configs={}, deadline=deadline
        )
    async with Producer(bootstrap_servers=bootstrap, acks="all") as producer:
        for number in range(SUBJECTS):
            key, value = schema_entry(StoredSchema(f"subject-{number}", 1, number + 1, Schema(text_of(number))))
            await producer.send(topic, value, key)
        await producer.flush()


def test_ten_thousand_subjects_are_read_within_five_seconds(bootstrap: str, new_name: Callable[[], str]) -> None:
    """The time of this process counts, which has the broker in it as well: others on the machine do not."""

    async def run() -> float:
        topic = new_name()
        await fill(bootstrap, topic)
        settings = ServiceSettings({"bootstrap.servers": bootstrap}, HttpAddress("http", "127.0.0.1", 1), topic=topic)
        registry = TopicRegistry(settings)
        began = time.process_time()
        try:
            await registry.start()
            took = time.process_time() - began
            assert len(registry.subjects()) == SUBJECTS
            assert registry.version("subject-777", "latest").registered.schema.text == text_of(777)
        finally:
            await registry.close()
        return took

    took = asyncio.run(run())
    print(f"{SUBJECTS} subjects: {took:.2f} s")
    assert took < START_S
