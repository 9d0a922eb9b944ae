"""The client's side of a fetch session (KIP-227): a broker remembers what is asked of it, and is told what changed.

Pure. One a broker, with one request on its way at a time: `begin` says what to send, and the answer goes to `answered`,
or what happened instead to `failed`. Whatever goes wrong ends in a full request, which starts a new session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from moldau.client.model import TopicPartition
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
"""Errors of an answer as a whole after which the next request is a full one."""


class Wanted(NamedTuple):
    """What is asked of a broker for one partition."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int


class SessionRequest(NamedTuple):
    """What to send: the session, what is new or has changed in it, what is no longer wanted."""

    session_id: int
    epoch: int
    send: Mapping[TopicPartition, Wanted]
    forget: tuple[tuple[TopicPartition, bytes], ...]  # with the topic's id

    @property
    def full(self) -> bool:
        return self.epoch in (FIRST_EPOCH, FINAL_EPOCH)


class FetchSession:
    """The session with one broker."""

    __slots__ = ("_partitions", "epoch", "session_id")

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = FIRST_EPOCH
        self._partitions: dict[TopicPartition, Wanted] = {}

    def begin(self, wanted: Mapping[TopicPartition, Wanted]) -> SessionRequest:
        """The request by which the broker gets to know that exactly `wanted` is wanted."""
        if self.epoch == FIRST_EPOCH:
            self._partitions = dict(wanted)
            return SessionRequest(self.session_id, FIRST_EPOCH, wanted, ())
        known = self._partitions
        send = {partition: want for partition, want in wanted.items() if known.get(partition) != want}
        forget = tuple(
            (partition, have.topic_id)
            for partition, have in known.items()
            if partition not in wanted or wanted[partition].topic_id != have.topic_id  # made anew under its name
        )
        # As the broker keeps them: those that are sent again go to the end of the turn.
        for partition, _ in forget:
            del known[partition]
        for partition, want in send.items():
            known.pop(partition, None)
            known[partition] = want
        return SessionRequest(self.session_id, self.epoch, send, forget)

    def knows(self, partition: TopicPartition) -> bool:
        """Whether an answer may speak of this partition."""
        return partition in self._partitions

    def partitions(self) -> Iterable[TopicPartition]:
        return self._partitions.keys()

    def answered(self, error: ErrorCode, session_id: int) -> None:
        """The answer's head came: go on with the session, or begin anew."""
        if error is not ErrorCode.NONE:
            if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = NO_SESSION  # the broker has let go of it: there is nothing to close
            self.epoch = FIRST_EPOCH
        elif session_id == NO_SESSION:  # the broker keeps no sessions, or has no room
            self.session_id, self.epoch = NO_SESSION, FIRST_EPOCH
        else:
            self.session_id = session_id
            self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def failed(self) -> None:
        """No answer: the broker may have taken the request or not. A full one under the old id closes that session."""
        self.epoch = FIRST_EPOCH

    def end(self) -> SessionRequest | None:
        """The request that closes the session, where there is one."""
        if self.session_id == NO_SESSION:
            return None
        ending = SessionRequest(self.session_id, FINAL_EPOCH, {}, ())
        self.session_id, self.epoch = NO_SESSION, FIRST_EPOCH
        return ending
