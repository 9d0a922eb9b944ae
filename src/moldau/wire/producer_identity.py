"""Producer identity: the id and epoch of a producer, as idempotent and transactional requests carry them.

Coordinator, log and clients share it. The pair is one value, so that an id is never used with the epoch of another.
"""

from __future__ import annotations

from typing import Final, NamedTuple

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
MAX_PRODUCER_EPOCH: Final = 2**15 - 1
LAST_PRODUCER_EPOCH: Final = MAX_PRODUCER_EPOCH - 1
"""The last epoch that a client receives. One more is reserved for the markers that fence the producer."""


class ProducerIdentity(NamedTuple):
    """A producer's id and epoch, as the coordinator assigned them."""

    producer_id: int
    epoch: int

    @property
    def known(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    @property
    def exhausted(self) -> bool:
        """Whether this is the last epoch: the next identity needs a new producer id."""
        return self.epoch >= LAST_PRODUCER_EPOCH

    def next(self) -> ProducerIdentity:
        assert self.epoch < MAX_PRODUCER_EPOCH
        return ProducerIdentity(self.producer_id, self.epoch + 1)


NO_IDENTITY: Final = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
