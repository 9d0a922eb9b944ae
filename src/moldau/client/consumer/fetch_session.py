"""Client side of a fetch session (KIP-227): the broker remembers the partitions, requests contain only changes.

No I/O. There is one session per broker, with one request at a time: `begin` returns what to send, then `answered` or
`failed` is called. After any error the next request is a full one, which starts a new session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from moldau.client.data_types import TopicPartition
from moldau.wire.errors import ErrorCode

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors of a whole response after which the next request is a full one."""


class WantedPartition(NamedTuple):
    """The fields of a Fetch request for one partition."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int


class SessionRequest(NamedTuple):
    """What to send: the session, new and changed partitions, and partitions to remove from the session."""

    session_id: int
    epoch: int
    send: Mapping[TopicPartition, WantedPartition]
    forget: tuple[tuple[TopicPartition, bytes], ...]  # with the topic's id

    @property
    def full(self) -> bool:
        return self.epoch in (FIRST_EPOCH, FINAL_EPOCH)


class ClientFetchSession:
    """The session with one broker."""

    __slots__ = ("_partitions", "epoch", "session_id")

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = FIRST_EPOCH
        self._partitions: dict[TopicPartition, WantedPartition] = {}

    def begin(self, wanted: Mapping[TopicPartition, WantedPartition]) -> SessionRequest:
        """Return the request that changes the broker's session to exactly the partitions of `wanted`."""
        if self.epoch == FIRST_EPOCH:
            self._partitions = dict(wanted)
            return SessionRequest(self.session_id, FIRST_EPOCH, wanted, ())
        known = self._partitions
        send = {partition: want for partition, want in wanted.items() if known.get(partition) != want}
        forget = tuple(
            (partition, have.topic_id)
            for partition, have in known.items()
            if partition not in wanted or wanted[partition].topic_id != have.topic_id  # deleted and created again
        )
        # The same order as in the broker: a partition that is sent again moves to the end.
        for partition, _ in forget:
            del known[partition]
        for partition, want in send.items():
            known.pop(partition, None)
            known[partition] = want
        return SessionRequest(self.session_id, self.epoch, send, forget)

    def knows(self, partition: TopicPartition) -> bool:
        """Return whether a response may contain this partition."""
        return partition in self._partitions

    def partitions(self) -> Iterable[TopicPartition]:
        return self._partitions.keys()

    def answered(self, error: ErrorCode, session_id: int) -> None:
        """Continue the session after a response, or start a new one, as its error and session id say."""
        if error is not ErrorCode.NONE:
            if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = NO_SESSION  # the broker has no session to close
            self.epoch = FIRST_EPOCH
        elif session_id == NO_SESSION:  # the broker has no sessions, or no free slot for one
            self.session_id, self.epoch = NO_SESSION, FIRST_EPOCH
        else:
            self.session_id = session_id
            self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def failed(self) -> None:
        """Start a new session after a request without a response, which the broker may have processed or not.

        The full request has the old session id, so the broker closes that session.
        """
        self.epoch = FIRST_EPOCH

    def end(self) -> SessionRequest | None:
        """Return the request that closes the session, or None if there is no session."""
        if self.session_id == NO_SESSION:
            return None
        ending = SessionRequest(self.session_id, FINAL_EPOCH, {}, ())
        self.session_id, self.epoch = NO_SESSION, FIRST_EPOCH
        return ending
