"""What the two membership machines are told, and what they want done: events in, actions out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from moldau.client.errors import MoldauError
from moldau.client.model import TopicPartition

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""


class MemberConfig(NamedTuple):
    """What a machine needs of a consumer's settings; times in seconds."""

    group_id: str
    instance_id: str | None = None
    session_timeout_s: float = 45.0
    heartbeat_interval_s: float = 3.0
    max_poll_interval_s: float = 300.0
    request_timeout_s: float = 30.0
    rack: str | None = None
    remote_assignor: str | None = None
    backoff: Callable[[int], float] = lambda attempt: min(0.1 * 2.0**attempt, 1.0)
    """How long to wait after so many failures in a row."""


class TopicInfo(NamedTuple):
    """A topic as the cluster's metadata has it."""

    id: bytes
    partitions: int


# -- what happens ------------------------------------------------------------------------------------------------------


class Polled(NamedTuple):
    """The application has come back for more: it is alive."""


class Tick(NamedTuple):
    """The time that `wake_at` named has come."""


class Subscribed(NamedTuple):
    """The application wants these topics from now on; or, where the broker shall match names, this pattern."""

    topics: tuple[str, ...]
    pattern: str | None = None


class MetadataChanged(NamedTuple):
    """The topics that are followed look like this now. One that does not exist is missing."""

    topics: Mapping[str, TopicInfo]


class TopicsLookedUp(NamedTuple):
    """What `LookUpTopics` asked for. As MetadataChanged, but surely asked for afterwards."""

    ticket: int
    topics: Mapping[str, TopicInfo]


class Answered(NamedTuple):
    """The coordinator's answer to what was sent with this ticket."""

    ticket: int
    response: Any


class Failed(NamedTuple):
    """There will be no answer; whether the coordinator has heard the request is not known."""

    ticket: int
    error: MoldauError


class TellingBegun(NamedTuple):
    """The application is about to hear `due`; from here on it cannot be taken back."""


class Told(NamedTuple):
    """The application has heard `due`."""


class LeaveWanted(NamedTuple):
    """The application has heard what it loses, and wants no more."""


Event = (
    Polled
    | Tick
    | Subscribed
    | MetadataChanged
    | TopicsLookedUp
    | Answered
    | Failed
    | TellingBegun
    | Told
    | LeaveWanted
)

# -- what is to be done ------------------------------------------------------------------------------------------------


class Send(NamedTuple):
    """Send this to the coordinator, looking for it first where it is not known; answer with the ticket."""

    ticket: int
    request: Any
    timeout_s: float


class LookUpTopics(NamedTuple):
    """Follow these topics, and say what they look like now."""

    ticket: int
    topics: tuple[str, ...]


class CoordinatorGone(NamedTuple):
    """Whoever was the coordinator is it no longer, or cannot be reached."""


class RefreshMetadata(NamedTuple):
    """A topic was assigned that is not known yet."""


class StandStill(NamedTuple):
    """These partitions are to be given up: hand out nothing more of them."""

    partitions: tuple[TopicPartition, ...]


class Take(NamedTuple):
    """From now on exactly these partitions are read."""

    partitions: tuple[TopicPartition, ...]


Action = Send | LookUpTopics | CoordinatorGone | RefreshMetadata | StandStill | Take
