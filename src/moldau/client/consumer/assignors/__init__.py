"""Assignors of classic groups: range, round-robin, sticky and cooperative-sticky, under Kafka's names.

The leader of the group runs one assignor that all members support. Applications can derive their own from `Assignor`.
Racks are ignored: all four assign as Kafka's do for clients without a rack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.client.consumer.assignors.assignor import Assignor, MemberSubscription, RebalanceProtocol
from moldau.client.consumer.assignors.cooperative import CooperativeStickyAssignor
from moldau.client.consumer.assignors.range import RangeAssignor
from moldau.client.consumer.assignors.round_robin import RoundRobinAssignor
from moldau.client.consumer.assignors.sticky import StickyAssignor
from moldau.client.errors import ConfigurationError

__all__ = [
    "Assignor",
    "CooperativeStickyAssignor",
    "MemberSubscription",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "assignors_of",
    "protocol_of",
]

JAVA_PACKAGE: Final = "org.apache.kafka.clients.consumer."

BY_NAME: Final[Mapping[str, type[Assignor]]] = {
    kind.name: kind for kind in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}
BY_JAVA_NAME: Final[Mapping[str, type[Assignor]]] = {JAVA_PACKAGE + kind.__name__: kind for kind in BY_NAME.values()}


def assignors_of(value: object) -> list[Assignor]:
    """Return the assignors of `partition.assignment.strategy`: names, Java class names, Python classes or instances."""
    chosen = value.split(",") if isinstance(value, str) else value if isinstance(value, Sequence) else [value]
    assignors = [_assignor(one) for one in chosen]
    names = [one.name for one in assignors]
    if not assignors:
        raise ConfigurationError("partition.assignment.strategy is empty; name at least one assignor, such as range")
    if len(set(names)) < len(names):
        raise ConfigurationError(
            f"partition.assignment.strategy has an assignor twice: {', '.join(names)}; name each of them once"
        )
    return assignors


def _assignor(value: object) -> Assignor:
    if isinstance(value, str):
        name = value.strip()
        kind = BY_NAME.get(name) or BY_JAVA_NAME.get(name)
        if kind is not None:
            return kind()
    elif isinstance(value, type) and issubclass(value, Assignor):
        return value()
    elif isinstance(value, Assignor):
        return value
    raise ConfigurationError(
        f"partition.assignment.strategy has {value!r}; it takes {', '.join(BY_NAME)}, or a subclass of "
        "moldau.client.consumer.assignors.Assignor"
    )


def protocol_of(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """Return COOPERATIVE only if all assignors that the group may choose support it."""
    cooperative = all(RebalanceProtocol.COOPERATIVE in one.protocols for one in assignors)
    return RebalanceProtocol.COOPERATIVE if cooperative else RebalanceProtocol.EAGER
