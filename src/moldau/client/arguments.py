"""Arguments of client calls: conversion to the types that requests need, or an ArgumentError.

Each public call converts its arguments here before it does anything else. Otherwise a wrong type would show up far from
the call, as an AttributeError in an encoder, or would end the metadata task. Each function takes the name of the
argument first, so that the error says which one is wrong and what to give instead.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn, TypeVar

from moldau.client.client_errors import ArgumentError
from moldau.client.data_types import OffsetAndMetadata, TopicPartition

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

MAX_INT32: Final = (1 << 31) - 1
MAX_INT64: Final = (1 << 63) - 1
MAX_SECONDS: Final = 1e9
"""The maximum timeout, 30 years. Locks of the operating system do not accept much more."""
SHOWN: Final = 80
"""The number of characters of a wrong argument that the error shows."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

A_PARTITION: Final = 'a TopicPartition, or a pair such as ("orders", 0)'
PARTITIONS: Final = 'TopicPartition objects, or pairs such as ("orders", 0)'


def refuse(name: str, given: object, wanted: str) -> NoReturn:
    """Raise the ArgumentError for a wrong argument."""
    shown = repr(given)
    if len(shown) > SHOWN:
        shown = shown[: SHOWN - 1] + "…"
    raise ArgumentError(f"{name}: expected {wanted}, got {shown} ({type(given).__name__})")


# -- single values -----------------------------------------------------------------------------------------------------


def text(name: str, given: object) -> str:
    if not isinstance(given, str):
        refuse(name, given, "a str")
    return given


def number(name: str, given: Any, low: int = -MAX_INT64, high: int = MAX_INT64) -> int:
    """Return an int within the limits. Integers of numpy are accepted too."""
    try:
        found = operator.index(given)
    except TypeError:
        refuse(name, given, "an int")
    if not low <= found <= high:
        refuse(name, given, f"an int of {low} or more" if found < low else f"an int of {high} or less")
    return found


def optional_number(name: str, given: Any, low: int = -MAX_INT64, high: int = MAX_INT64) -> int | None:
    return None if given is None else number(name, given, low, high)


def seconds(name: str, given: Any) -> float | None:
    """Return a timeout in seconds, from a number or a timedelta. None means the default of the call."""
    if given is None:
        return None
    if isinstance(given, timedelta):
        return given.total_seconds()
    try:
        if isinstance(given, str | bytes):
            raise TypeError
        return min(float(given), MAX_SECONDS)
    except (TypeError, ValueError):
        refuse(name, given, "seconds as a number, or a timedelta")


def milliseconds(name: str, given: Any) -> int:
    """Return a time in milliseconds since 1970, from an int or a datetime with a time zone.

    A naive datetime is refused, because it would mean another time on each machine.
    """
    if isinstance(given, datetime):
        if given.utcoffset() is None:
            refuse(
                name,
                given,
                "a datetime with a time zone: use given.astimezone() if it is local time, or "
                "given.replace(tzinfo=timezone.utc) if it is UTC",
            )
        return (given - _EPOCH) // _MILLISECOND
    try:
        return number(name, operator.index(given))
    except TypeError:
        refuse(name, given, "milliseconds since 1970 as an int, or a datetime with a time zone")


def instance(name: str, given: object, kind: type[T], example: str) -> T:
    """Check the type of an object."""
    if not isinstance(given, kind):
        refuse(name, given, f"a {kind.__name__}, such as {example}")
    return given


def function(name: str, given: T) -> T:
    """Check a callback, which may be None."""
    if given is not None and not callable(given):
        refuse(name, given, "a function, or None")
    return given


# -- partitions and offsets --------------------------------------------------------------------------------------------


def partition(name: str, given: Any, wanted: str = A_PARTITION) -> TopicPartition:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        refuse(name, given, wanted)
    pair = tuple(given)
    if len(pair) != 2 or not isinstance(pair[0], str):
        refuse(name, given, wanted)
    try:
        index = operator.index(pair[1])
    except TypeError:
        refuse(name, given, wanted)
    if not 0 <= index <= MAX_INT32:
        refuse(name, given, f"a partition from 0 to {MAX_INT32}")
    return TopicPartition(pair[0], index)


def partitions(name: str, given: Any) -> list[TopicPartition]:
    """Return one or several partitions as a list without duplicates."""
    if isinstance(given, TopicPartition) or _is_pair(given):
        return [partition(name, given)]
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        refuse(name, given, PARTITIONS)
    return list(dict.fromkeys(partition(name, one, PARTITIONS) for one in given))


def optional_partitions(name: str, given: Any) -> list[TopicPartition] | None:
    return None if given is None else partitions(name, given)


def _is_pair(given: object) -> bool:
    """Whether it is one partition, such as `("orders", 0)`, and not a list of two."""
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str) and not isinstance(given[1], str)


def offset(name: str, given: Any) -> OffsetAndMetadata:
    """Return an offset to commit or to seek to."""
    if isinstance(given, OffsetAndMetadata):
        return OffsetAndMetadata(
            number(name, given.offset, 0),
            text(f"metadata of {name}", given.metadata or ""),
            optional_number(f"leader_epoch of {name}", given.leader_epoch, -1, MAX_INT32),
        )
    try:
        found = operator.index(given)
    except TypeError:
        refuse(name, given, "an offset as an int, or an OffsetAndMetadata")
    return OffsetAndMetadata(number(name, found, 0))


# -- collections -------------------------------------------------------------------------------------------------------


def several(name: str, given: Any, one: Callable[[str, Any], T], wanted: str) -> list[T]:
    """Return a list whose items `one` has converted."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        refuse(name, given, wanted)
    return [one(name, each) for each in given]


def texts(name: str, given: Any) -> list[str]:
    """Return one or several str as a list without duplicates."""
    if isinstance(given, str):
        return [given]
    return list(dict.fromkeys(several(name, given, text, "a str, or a list of them")))


def mapping(name: str, given: Any, key: Callable[[str, Any], K], value: Callable[[str, Any], V]) -> dict[K, V]:
    """Return a dict with converted keys and values."""
    if not isinstance(given, Mapping):
        refuse(name, given, "a mapping")
    return {key(f"a key of {name}", one): value(f"{name}[{one!r}]", of) for one, of in given.items()}


def by_partition(name: str, given: Any, value: Callable[[str, Any], V]) -> dict[TopicPartition, V]:
    """Return a dict by partition, with converted values."""
    if not isinstance(given, Mapping):
        refuse(name, given, 'a mapping of partitions, such as {TopicPartition("orders", 0): …}')
    return mapping(name, given, partition, value)


def offsets(name: str, given: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return offsets to commit, by partition."""
    return by_partition(name, given, offset)
