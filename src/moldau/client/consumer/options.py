"""What the two consumers, asyncio and blocking, take in the same way: topics, settings, partitions, offsets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from moldau.client.consumer.commits import Offsets
from moldau.client.consumer.decode import Record
from moldau.client.consumer.model import CallbackDue
from moldau.client.errors import ConfigurationError
from moldau.client.model import OffsetAndMetadata, TopicPartition
from moldau.client.settings import CONSUMER, ClientSettings

Partitions = Iterable[TopicPartition | tuple[str, int]]
"""Partitions as a caller may give them."""

Committable = Record | Mapping[TopicPartition, OffsetAndMetadata | int] | None
"""What can be committed: a record (then all up to and with it), offsets, or None: everything that was handed out."""


class Given(NamedTuple):
    """The arguments of a constructor, sorted out."""

    topics: tuple[str, ...]
    settings: ClientSettings


def sort_out(arguments: tuple[str | Mapping[str, Any], ...], keywords: Mapping[str, Any]) -> Given:
    """Topics are texts, settings are a mapping; settings may also be keywords."""
    topics: list[str] = []
    mapping: dict[str, Any] = {}
    for argument in arguments:
        if isinstance(argument, str):
            topics.append(argument)
        elif isinstance(argument, Mapping):
            mapping.update(argument)
        else:
            raise ConfigurationError(f"a consumer takes names of topics, and settings; {argument!r} is neither")
    return Given(tuple(topics), ClientSettings.of(CONSUMER, mapping, keywords))


def names_of(topics: str | Iterable[str]) -> list[str]:
    """One name, or several."""
    names = [topics] if isinstance(topics, str) else list(topics)
    for name in names:
        if not name:
            raise ConfigurationError(f"{name!r} is not the name of a topic")
    return names


def pattern_of(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"{pattern!r} is not a pattern: {error}") from error


def partitions_of(partitions: Partitions) -> list[TopicPartition]:
    return [TopicPartition(*partition) for partition in partitions]


def chosen(partitions: Collection[TopicPartition | tuple[str, int]]) -> list[TopicPartition] | None:
    """None, which stands for all that are assigned, where none is given."""
    return partitions_of(partitions) or None


def offsets_of(what: Committable) -> Offsets | None:
    """Offsets as they are committed: of the next record to be read."""
    if what is None:
        return None
    if isinstance(what, Record):
        epoch = None if what.leader_epoch < 0 else what.leader_epoch
        return {TopicPartition(what.topic, what.partition): OffsetAndMetadata(what.offset + 1, "", epoch)}
    return {
        TopicPartition(*partition): offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        for partition, offset in what.items()
    }


def method_of(listener: object, due: CallbackDue) -> Any:
    """The listener's method that is to be called, or None."""
    method = getattr(listener, f"on_partitions_{due.kind}", None)
    if method is None and due.kind == "lost":
        method = getattr(listener, "on_partitions_revoked", None)
    return method
