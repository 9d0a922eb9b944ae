"""Names that the engine derives from a Connect group and a connector: transactional ids, consumer group, topics.

Each name depends on nothing else, so that every worker that runs the connector uses the same ones: the broker then
fences the worker that ran it before.
"""

from __future__ import annotations

import hashlib
from typing import Final

GROUP_PREFIX: Final = "connect-"
_ID_DIGITS: Final = 32


def connector_id(group: str, name: str) -> str:
    """The id of a connector in transactional ids and commit decisions.

    A hash, because ids of tasks are found by the prefix `ID-`: with plain names, the prefix of connector `a` would
    also find the transactions of connector `a-b`.
    """
    return hashlib.sha256(f"{group}\0{name}".encode()).hexdigest()[:_ID_DIGITS]


def sink_transactional_id(group: str, name: str) -> str:
    """The id of the producer that commits a sink's offsets."""
    return f"moldau-connect-sink-{connector_id(group, name)}"


def polled_transactional_id(group: str, name: str) -> str:
    """The id of the producer that writes the records and offsets of a polled source."""
    return f"moldau-connect-polled-{connector_id(group, name)}"


def consumer_group(name: str) -> str:
    """The group with the committed offsets of a sink, as in Kafka Connect."""
    return GROUP_PREFIX + name
