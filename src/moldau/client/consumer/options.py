"""Arguments of the consumer's calls: topics, settings, partitions, offsets and listeners, with their checks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from moldau.client import arguments
from moldau.client.consumer.commits import Offsets
from moldau.client.consumer.decode import Record
from moldau.client.consumer.offset_reset import CallbackDue
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import ConfigurationError
from moldau.client.settings import CONSUMER, ClientSettings

Partitions = Iterable[TopicPartition | tuple[str, int]]
"""Partitions as an application may give them."""

Committable = Record | Mapping[TopicPartition, OffsetAndMetadata | int] | None
"""What can be committed: a record (with all records before it), offsets, or None (all records that were returned)."""


LISTENER_EVENTS = ("assigned", "revoked", "lost")
"""A listener has the methods `on_partitions_assigned` and so on."""


class ConsumerArguments(NamedTuple):
    """The arguments of a consumer's constructor, sorted by meaning."""

    topics: tuple[str, ...]
    settings: ClientSettings


def sort_arguments(positional: tuple[str | Mapping[str, Any], ...], keywords: Mapping[str, Any]) -> ConsumerArguments:
    """Tell topics (str, or a list of them) from settings (a mapping, and the keywords)."""
    topics: list[str] = []
    mapping: dict[str, Any] = {}
    for argument in positional:
        if isinstance(argument, str):
            topics.append(argument)
        elif isinstance(argument, list | tuple | set | frozenset):
            topics += arguments.texts("topics", argument)
        elif isinstance(argument, Mapping):
            mapping.update(argument)
        else:
            raise ConfigurationError(
                f"a consumer takes names of topics and a mapping of settings; {argument!r} is neither"
            )
    return ConsumerArguments(tuple(topics), ClientSettings.of(CONSUMER, mapping, keywords))


def names_of(topics: str | Iterable[str]) -> list[str]:
    """Return the names of one or several topics. Raises ConfigurationError for an empty name."""
    names = arguments.texts("topics", topics)
    for name in names:
        if not name:
            raise ConfigurationError(f"{name!r} is not the name of a topic")
    return names


def pattern_of(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    """Return the compiled pattern. Raises ConfigurationError if it is not a regular expression."""
    if not isinstance(getattr(pattern, "pattern", pattern), str):
        arguments.refuse("pattern", pattern, "a regular expression as a str, or a compiled one")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"{pattern!r} is not a pattern: {error}") from error


def partitions_of(partitions: Any) -> list[TopicPartition]:
    """Return the partitions as a list. If names of topics are given instead, the error points to `subscribe`."""
    some = isinstance(partitions, list | set | frozenset) and len(partitions) > 0
    if isinstance(partitions, str) or (some and all(isinstance(one, str) for one in partitions)):
        arguments.refuse("partitions", partitions, f"{arguments.PARTITIONS} (for whole topics use `subscribe`)")
    return arguments.partitions("partitions", partitions)


def each_of(partitions: Collection[Any]) -> list[TopicPartition]:
    """Return the partitions of a `*partitions` argument; one collection, such as `assignment()`, is taken as well."""
    if len(partitions) == 1:
        return partitions_of(next(iter(partitions)))
    return partitions_of(list(partitions))


def seek_target(partition: Any, offset: Any, epoch: Any) -> tuple[TopicPartition, OffsetAndMetadata]:
    """Return the partition and the offset, with its leader epoch, from the arguments of `seek`."""
    found = arguments.offset("offset", offset)
    if not isinstance(offset, OffsetAndMetadata):
        found = found._replace(leader_epoch=arguments.optional_number("epoch", epoch, -1, arguments.MAX_INT32))
    return arguments.partition("partition", partition), found


def chosen(partitions: Collection[Any]) -> list[TopicPartition] | None:
    """Like `each_of`, but None if there are no arguments: the call is then about all assigned partitions."""
    return each_of(partitions) or None


def offsets_of(what: Committable) -> Offsets | None:
    """Return the offsets to commit; the committed offset is that of the next record to read."""
    if what is None:
        return None
    if isinstance(what, Record):
        epoch = None if what.leader_epoch < 0 else what.leader_epoch
        return {TopicPartition(what.topic, what.partition): OffsetAndMetadata(what.offset + 1, "", epoch)}
    if not isinstance(what, Mapping):
        arguments.refuse("what", what, 'a record, offsets such as {TopicPartition("orders", 0): 42}, or None')
    return arguments.offsets("what", what)


def listener_of(given: Any) -> Any:
    """Return the listener, or None. Raises ArgumentError if it has none of the methods that would be called."""
    if given is not None and not any(hasattr(given, f"on_partitions_{kind}") for kind in LISTENER_EVENTS):
        arguments.refuse("listener", given, "an object with on_partitions_assigned, on_partitions_revoked, or both")
    return given


def listener_method(listener: object, due: CallbackDue) -> Any:
    """Return the method of the listener to call, or None. Without `on_partitions_lost`, `on_partitions_revoked`."""
    method = getattr(listener, f"on_partitions_{due.kind}", None)
    if method is None and due.kind == "lost":
        method = getattr(listener, "on_partitions_revoked", None)
    return method
