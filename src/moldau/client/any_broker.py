"""Requests to any broker: a race for a connection or an answer between all known brokers.

A broker may refuse connections, drop them, or accept them and not answer (it is frozen, or its machine swaps). The
client must not wait for its timeouts while another broker would answer. It therefore tries the next one in parallel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator
from functools import partial
from typing import Any, Final, TypeVar

from moldau.client.client_errors import AuthenticationError, BrokerUnavailable, ClosedError, MoldauError
from moldau.client.connection import Connection
from moldau.client.pool import ConnectionPool
from moldau.client.settings import ClientSettings
from moldau.net.happy_eyeballs import AllFailed, race

T = TypeVar("T")

MAX_ASKED: Final = 3
"""The maximum number of brokers that get the same request, one after another, while none of them answers."""

SLOW_ANSWER_S: Final = 1.0
"""The time without an answer after which the next broker gets the request too."""


class _Passed(Exception):
    """A broker has failed, and the race continues. Without an error: there is no other broker."""

    def __init__(self, error: MoldauError | None) -> None:
        super().__init__(str(error))
        self.error = error


class AnyBroker:
    """Access to any of the known brokers of a client."""

    def __init__(self, settings: ClientSettings, pool: ConnectionPool) -> None:
        self._pool = pool
        self._addresses = len(settings.addresses)
        self._rebootstraps = settings["metadata.recovery.strategy"] == "rebootstrap"
        request_timeout_s = settings.seconds("request.timeout.ms")
        self._per_node_s = settings.seconds("socket.connection.setup.timeout.ms") + request_timeout_s
        self._per_node_at_most_s = settings.seconds("socket.connection.setup.timeout.max.ms") + request_timeout_s

    async def connection(self, deadline: float, avoiding: Collection[int] = ()) -> Connection:
        """Return a connection to a known broker, the best one first. If none can be reached, use bootstrap.servers."""
        nodes = [node for node in self._pool.by_preference() if node not in avoiding]
        if nodes and (ready := self._pool.connected(nodes[0])) is not None:
            return ready
        try:
            return await race(self._ways(deadline, avoiding), losing=_Passed)
        except AllFailed as lost:
            errors: list[MoldauError] = [passed.error for passed in lost.errors]
        left = asyncio.get_running_loop().time() < deadline
        if self._rebootstraps and not self._pool.bootstrapping and left and not avoiding:
            self._pool.forget()
            return await self.connection(deadline)
        raise _of_all(errors)

    async def answer(self, ask: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        """Return the first answer to a request that may be sent to several brokers."""
        asked: dict[int, None] = {}
        try:
            return await race([partial(self._ask, ask, asked)] * MAX_ASKED, losing=_Passed, stagger_s=SLOW_ANSWER_S)
        except AllFailed as lost:
            errors = [passed.error for passed in lost.errors if passed.error is not None]
            raise errors[0] from None

    # -- participants of the race ----------------------------------------------------------------------------------

    def _ways(
        self, deadline: float, avoiding: Collection[int]
    ) -> Iterator[Callable[[], Coroutine[Any, Any, Connection]]]:
        """Each node once, the best one first at each step: new metadata may arrive while one is tried."""
        tried = set(avoiding)
        while True:
            node = next((node for node in self._pool.by_preference() if node not in tried), None)
            if node is None:
                return
            tried.add(node)
            yield partial(self._come_to, node, deadline)

    async def _come_to(self, node: int, deadline: float) -> Connection:
        try:
            return await self._pool.connection(
                node, min(deadline, asyncio.get_running_loop().time() + self._per_node_s)
            )
        except ClosedError:
            raise
        except MoldauError as error:
            raise _Passed(error) from error

    async def _ask(self, ask: Callable[[Connection], Coroutine[Any, Any, T]], asked: dict[int, None]) -> T:
        if asked and not self._pool.nodes.keys() - asked.keys():
            raise _Passed(None)
        # The time limit of one round: each broker may let both the connection and the request time out.
        round_s = self._per_node_at_most_s * (len(self._pool.nodes) + self._addresses)
        try:
            connection = await self.connection(asyncio.get_running_loop().time() + round_s, tuple(asked))
            asked[connection.node_id] = None
            return await ask(connection)
        except (ClosedError, AuthenticationError):
            raise
        except MoldauError as error:
            raise _Passed(error) from error


def _of_all(errors: list[MoldauError]) -> MoldauError:
    """Return one error for a round in which no broker could be reached."""
    if len(errors) == 1:
        return errors[0]
    reasons = "; ".join(dict.fromkeys(str(error) for error in errors)) or "none is known"
    lasting = [error for error in errors if not error.retriable]
    refused = next((error for error in errors if isinstance(error, AuthenticationError)), None)
    if refused is not None:
        # It would be refused again. Not a matter of time, even if another broker is down.
        return type(refused)(f"no broker could be used: {reasons}")
    if errors and len(lasting) == len(errors):
        return type(errors[0])(f"no broker could be used: {reasons}")
    return BrokerUnavailable(f"no broker could be reached: {reasons}")
