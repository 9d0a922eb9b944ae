"""A prepared transaction, by name: all that another process needs to commit or abort it."""

from __future__ import annotations

from typing import NamedTuple

from moldau.records.model import NO_PRODUCER_ID


class PreparedTransaction(NamedTuple):
    """What `prepare_transaction` gives. Keep `str(prepared)` where the outcome will be decided, a database for example.

    `PreparedTransaction.parse` reads the text again.
    """

    transactional_id: str
    producer_id: int
    epoch: int

    @property
    def empty(self) -> bool:
        """Nothing was sent in it: there is nothing to commit or abort."""
        return self.producer_id == NO_PRODUCER_ID

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}:{self.transactional_id}"

    @classmethod
    def parse(cls, text: str) -> PreparedTransaction:
        """From what `str` gave; ValueError where it did not give this."""
        producer_id, first, rest = text.partition(":")
        epoch, second, transactional_id = rest.partition(":")
        try:
            found = cls(transactional_id, int(producer_id), int(epoch))
        except ValueError:
            found = cls("", 0, 0)
        if not first or not second or not found.transactional_id or str(found) != text:
            raise ValueError(f"{text!r} is no prepared transaction; it reads PRODUCER_ID:EPOCH:TRANSACTIONAL_ID")
        return found
