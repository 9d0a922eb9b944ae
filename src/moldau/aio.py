"""Clients for asyncio: `from moldau.aio import Producer, Consumer, Admin`.

The blocking clients of `moldau` are thin facades over these. Each name is imported at its first use, so that a program
loads only the clients that it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin
    from moldau.client.consumer.consumer import Consumer
    from moldau.client.producer.producer import Producer

_HOMES = {
    "Admin": "moldau.client.admin.admin",
    "Consumer": "moldau.client.consumer.consumer",
    "Producer": "moldau.client.producer.producer",
}

__all__ = ["Admin", "Consumer", "Producer"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
