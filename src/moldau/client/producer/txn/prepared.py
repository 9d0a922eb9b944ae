"""Name of a prepared transaction: what another process needs to commit or abort it."""

from __future__ import annotations

from typing import NamedTuple

from moldau.client import arguments
from moldau.records.batch_layout import NO_PRODUCER_ID


class PreparedTransaction(NamedTuple):
    """The name of a prepared transaction, as `prepare_transaction` returns it.

    Store `str(prepared)` where you store the decision, for example in a database. `PreparedTransaction.parse` reads
    that text.
    """

    transactional_id: str
    producer_id: int
    epoch: int

    @property
    def empty(self) -> bool:
        """Whether nothing was sent in the transaction, so that there is nothing to commit or abort."""
        return self.producer_id == NO_PRODUCER_ID

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}:{self.transactional_id}"

    @classmethod
    def parse(cls, text: str) -> PreparedTransaction:
        """Return the prepared transaction for a text that `str` returned.

        Raises ArgumentError, which is a ValueError, for any other text.
        """
        arguments.text("text", text)
        producer_id, first, rest = text.partition(":")
        epoch, second, transactional_id = rest.partition(":")
        try:
            found = cls(transactional_id, int(producer_id), int(epoch))
        except ValueError:
            found = cls("", 0, 0)
        if not first or not second or not found.transactional_id or str(found) != text:
            arguments.refuse("text", text, "a prepared transaction, PRODUCER_ID:EPOCH:TRANSACTIONAL_ID")
        return found
