"""Moldau: a Kafka-compatible event streaming platform in Python.

    from moldau import Producer, Consumer, Admin           # blocking clients; moldau.aio has the asyncio clients

The import of this package is cheap: each name is imported at its first use, so that a process (broker, client, command
line) loads only what it needs.
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
    from moldau.client.data_types import OffsetAndMetadata, RecordMetadata, TopicPartition
    from moldau.client.errors import MoldauError
    from moldau.client.producer.txn.prepared import PreparedTransaction

__version__ = "0.1.0"

_HOMES = {
    "Admin": "moldau.client.blocking.admin",
    "ConfigResource": "moldau.client.admin",
    "Consumer": "moldau.client.blocking.consumer",
    "MoldauError": "moldau.client.errors",
    "NewTopic": "moldau.client.admin",
    "OffsetAndMetadata": "moldau.client.data_types",
    "OffsetSpec": "moldau.client.admin",
    "PreparedTransaction": "moldau.client.producer.txn.prepared",
    "Producer": "moldau.client.blocking.producer",
    "RecordMetadata": "moldau.client.data_types",
    "TopicPartition": "moldau.client.data_types",
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
        found: object = import_module("moldau.errors")
    elif name in _HOMES:
        found = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
