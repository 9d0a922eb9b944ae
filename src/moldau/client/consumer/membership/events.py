"""Events and actions of the membership state machines: what happened, and what the machine wants to be done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""


class MemberConfig(NamedTuple):
    """The settings that a state machine needs; times in seconds."""

    group_id: str
    instance_id: str | None = None
    session_timeout_s: float = 45.0
    heartbeat_interval_s: float = 3.0
    max_poll_interval_s: float = 300.0
    request_timeout_s: float = 30.0
    rack: str | None = None
    remote_assignor: str | None = None
    backoff: Callable[[int], float] = lambda attempt: min(0.1 * 2.0**attempt, 1.0)
    """Returns the pause after this number of consecutive failures."""


class TopicInfo(NamedTuple):
    """Id and number of partitions of a topic, from the metadata."""

    id: bytes
    partitions: int


# -- events ------------------------------------------------------------------------------------------------------------


class PollCalled(NamedTuple):
    """The application has called poll, or is still inside it."""


class Tick(NamedTuple):
    """The time of `wake_at` has come."""


class Subscribed(NamedTuple):
    """The application has subscribed to these topics or, if the broker matches names (KIP-848), to this pattern."""

    topics: tuple[str, ...]
    pattern: str | None = None


class MetadataChanged(NamedTuple):
    """New metadata of the followed topics, without topics that do not exist."""

    topics: Mapping[str, TopicInfo]


class TopicsLookedUp(NamedTuple):
    """The answer to `LookUpTopics`: metadata that was requested after that action."""

    ticket: int
    topics: Mapping[str, TopicInfo]


class Answered(NamedTuple):
    """The coordinator's response to the request with this ticket."""

    ticket: int
    response: Any


class RequestFailed(NamedTuple):
    """There will be no response. The coordinator may have processed the request or not."""

    ticket: int
    error: MoldauError


class CallbackStarted(NamedTuple):
    """The listener is called with `due` now; `due` can no longer be replaced."""


class CallbackDone(NamedTuple):
    """The listener has returned from the call with `due`, or failed."""


class LeaveRequested(NamedTuple):
    """The consumer leaves the group. The listener has been called."""


Event = (
    PollCalled
    | Tick
    | Subscribed
    | MetadataChanged
    | TopicsLookedUp
    | Answered
    | RequestFailed
    | CallbackStarted
    | CallbackDone
    | LeaveRequested
)

# -- actions -----------------------------------------------------------------------------------------------------------


class Send(NamedTuple):
    """Send this request to the coordinator, after looking it up if needed; report the response with the ticket."""

    ticket: int
    request: Any
    timeout_s: float


class LookUpTopics(NamedTuple):
    """Follow these topics, and report their metadata with the ticket."""

    ticket: int
    topics: tuple[str, ...]


class CoordinatorGone(NamedTuple):
    """Look up the coordinator again: it has moved, or cannot be reached."""


class RefreshMetadata(NamedTuple):
    """Refresh the metadata: a topic was assigned that is not known yet."""


class BeginRevocation(NamedTuple):
    """Return no more records of these partitions: they will be revoked."""

    partitions: tuple[TopicPartition, ...]


class SetAssignment(NamedTuple):
    """Replace the assignment of the consumer by these partitions."""

    partitions: tuple[TopicPartition, ...]


Action = Send | LookUpTopics | CoordinatorGone | RefreshMetadata | BeginRevocation | SetAssignment
