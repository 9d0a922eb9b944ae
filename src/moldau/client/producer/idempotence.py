"""Producer id of an idempotent producer: requested from a broker, with a higher epoch when numbers begin again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.client.errors import MoldauError, error_for
from moldau.client.network import ANY_NODE
from moldau.client.producer.transaction_hooks import TransactionHooks
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.wire.producer_identity import LAST_PRODUCER_EPOCH, NO_IDENTITY, ProducerIdentity

if TYPE_CHECKING:
    from moldau.client.network import Network

_WHAT = "asking for a producer id"
ASKING_S = 60.0
"""The time limit of one round of requests. The next round begins if there are records to send."""


class IdentityKeeper:
    """The identity with which batches are sent: that of the transactions if there are any, otherwise its own."""

    def __init__(
        self,
        network: Network,
        loop: asyncio.AbstractEventLoop,
        idempotent: bool,
        transactions: TransactionHooks,
        on_identity: Callable[[], None],
        on_refused: Callable[[MoldauError], None],
    ) -> None:
        self._network = network
        self._loop = loop
        self.idempotent = idempotent
        self._transactions = transactions
        self._own = NO_IDENTITY
        self._asking: asyncio.Task[None] | None = None
        self._on_identity = on_identity
        self._on_refused = on_refused

    @property
    def current(self) -> ProducerIdentity:
        if self._transactions.transactional_id is not None:
            return ProducerIdentity(self._transactions.producer_id, self._transactions.epoch)
        return self._own

    @property
    def ready(self) -> bool:
        """Whether batches can be sent. If not, request an identity and call `on_identity` when it is there."""
        if not self.idempotent or self.current.known:
            return True
        if self._transactions.transactional_id is None and self._asking is None:
            self._asking = self._loop.create_task(self._ask(), name=_WHAT)
        return False

    def raise_epoch(self) -> None:
        """Raise the epoch so that sequence numbers begin again; after the last epoch a new id is requested.

        A producer without transactions may raise its epoch itself: no other producer has its id, and a broker accepts
        a higher epoch that begins at 0.
        """
        producer_id, epoch = self._own
        self._own = ProducerIdentity(producer_id, epoch + 1) if epoch < LAST_PRODUCER_EPOCH else NO_IDENTITY

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _ask(self) -> None:
        deadline = self._loop.time() + ASKING_S
        try:
            response = await self._network.retrying(lambda: self._once(deadline), deadline=deadline, what=_WHAT)
        except MoldauError as error:
            self._asking = None
            if error.retriable:
                self._on_identity()  # requests the identity again if there is something to send
            else:
                self._on_refused(error)
            return
        self._asking = None
        self._own = ProducerIdentity(response.producer_id, response.producer_epoch)
        self._on_identity()

    async def _once(self, deadline: float) -> InitProducerIdResponse:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        response: InitProducerIdResponse = await self._network.call(ANY_NODE, request, deadline=deadline, what=_WHAT)
        if response.error_code:
            raise error_for(response.error_code, _WHAT)
        return response
