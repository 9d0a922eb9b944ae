"""Moldau: a Kafka-compatible event streaming platform in Python.

    from moldau import Producer, Consumer, Admin           # blocking clients; moldau.aio has those for asyncio

Importing this package costs nothing: the names below are imported when they are first used, so every process (broker,
client, command line) pays only for what it has.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.client import errors
    from moldau.client.admin import ConfigResource, NewTopic, OffsetSpec
    from moldau.client.blocking.admin import Admin
    from moldau.client.blocking.consumer import Consumer
    from moldau.client.blocking.producer import Producer
    from moldau.client.errors import MoldauError
    from moldau.client.model import OffsetAndMetadata, RecordMetadata, TopicPartition
    from moldau.client.producer.transactions_prepared import PreparedTransaction

__version__ = "0.1.0"

_HOMES = {
    "Admin": "moldau.client.blocking.admin",
    "ConfigResource": "moldau.client.admin",
    "Consumer": "moldau.client.blocking.consumer",
    "MoldauError": "moldau.client.errors",
    "NewTopic": "moldau.client.admin",
    "OffsetAndMetadata": "moldau.client.model",
    "OffsetSpec": "moldau.client.admin",
    "PreparedTransaction": "moldau.client.producer.transactions_prepared",
    "Producer": "moldau.client.blocking.producer",
    "RecordMetadata": "moldau.client.model",
    "TopicPartition": "moldau.client.model",
}

__all__ = [
    "Admin",
    "ConfigResource",
    "Consumer",
    "MoldauError",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetSpec",
    "PreparedTransaction",
    "Producer",
    "RecordMetadata",
    "TopicPartition",
    "__version__",
    "errors",
]


def __getattr__(name: str) -> object:
    if name == "errors":
        found: object = import_module("moldau.client.errors")
    elif name in _HOMES:
        found = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
