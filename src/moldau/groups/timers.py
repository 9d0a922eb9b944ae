"""Timers of the group coordinator: one small class per kind of timer.

A timer is a dictionary key in the coordinator runtime: setting it again moves it, and setting it to None cancels it.
The classes are frozen dataclasses and not NamedTuples, because tuples of different classes are equal if their fields
are: the session timer of a member would replace its revocation timer.
"""

from __future__ import annotations

from dataclasses import dataclass

from moldau.groups.events import DeleteGroup


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """The session of a member ends, unless a heartbeat has moved its deadline."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class PendingMemberTimer:
    """A member id that was given out with MEMBER_ID_REQUIRED is no longer valid."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RevocationTimer:
    """A member of a consumer group had its rebalance timeout to give up partitions."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RejoinTimer:
    """A classic member of a consumer group had its rebalance timeout to rejoin, or to sync after it joined."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class JoinTimer:
    """A rebalance of a classic group no longer waits for members to join."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncTimer:
    """A new generation of a classic group no longer waits for members to sync."""

    group_id: str


@dataclass(frozen=True, slots=True)
class DowngradeTimer:
    """A consumer group was stored as a classic group; its members must rebalance."""

    group_id: str


@dataclass(frozen=True, slots=True)
class DeletionTimer:
    """The deletion of a group continues: its offsets did not fit into one batch."""

    event: DeleteGroup


@dataclass(frozen=True, slots=True)
class DeletedTopicsTimer:
    """The deletion of the offsets of deleted topics continues: they did not fit into one batch."""


@dataclass(frozen=True, slots=True)
class ExpiryTimer:
    """The next check for expired offsets and empty groups is due."""


MemberTimer = SessionTimer | PendingMemberTimer | RevocationTimer | RejoinTimer
GroupTimer = MemberTimer | JoinTimer | SyncTimer | DowngradeTimer | DeletionTimer | DeletedTopicsTimer | ExpiryTimer

TimerChange = tuple[GroupTimer, int | None]
"""The timer and its new time in milliseconds; None cancels it."""
