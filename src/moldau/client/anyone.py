"""Whichever broker can be had: a connection to one of them, or an answer that any of them can give, by a race.

A broker may refuse connections, swallow them, or take them and say nothing (it is frozen, or its machine swaps). None
of that may cost a client its time-outs while another broker would have answered: the next one is tried beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator
from functools import partial
from typing import Any, Final, TypeVar

from moldau.client.connection import Connection
from moldau.client.own_errors import BrokerUnavailable, ClosedError, MoldauError
from moldau.client.pool import ConnectionPool
from moldau.client.settings import ClientSettings
from moldau.net.race import AllFailed, race

T = TypeVar("T")

MAX_ASKED: Final = 3
"""So many brokers are asked the same question, one after another, while none of them answers."""

SLOW_ANSWER_S: Final = 1.0
"""After so long without an answer another broker is asked, too."""


class _Passed(Exception):
    """A broker is out of the race, and another may do. Without an error: there is no other one."""

    def __init__(self, error: MoldauError | None) -> None:
        super().__init__(str(error))
        self.error = error


class AnyBroker:
    """The brokers that a client knows, as far as it does not matter which one it is."""

    def __init__(self, settings: ClientSettings, pool: ConnectionPool) -> None:
        self._pool = pool
        self._addresses = len(settings.addresses)
        self._rebootstraps = settings["metadata.recovery.strategy"] == "rebootstrap"
        request_timeout_s = settings.seconds("request.timeout.ms")
        self._per_node_s = settings.seconds("socket.connection.setup.timeout.ms") + request_timeout_s
        self._per_node_at_most_s = settings.seconds("socket.connection.setup.timeout.max.ms") + request_timeout_s

    async def connection(self, deadline: float, avoiding: Collection[int] = ()) -> Connection:
        """To one of all that are known, the likeliest first; where none can be had, of bootstrap.servers."""
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
        """What one of them says to a question that does no harm if several are asked."""
        asked: dict[int, None] = {}
        try:
            return await race([partial(self._ask, ask, asked)] * MAX_ASKED, losing=_Passed, stagger_s=SLOW_ANSWER_S)
        except AllFailed as lost:
            errors = [passed.error for passed in lost.errors if passed.error is not None]
            raise errors[0] from None

    # -- runners ---------------------------------------------------------------------------------------------------

    def _ways(
        self, deadline: float, avoiding: Collection[int]
    ) -> Iterator[Callable[[], Coroutine[Any, Any, Connection]]]:
        """Each node once, the likeliest of that moment first: while one is tried, the cluster may become known."""
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
        # A bound for one round: every broker may swallow the connection, and then the question.
        round_s = self._per_node_at_most_s * (len(self._pool.nodes) + self._addresses)
        try:
            connection = await self.connection(asyncio.get_running_loop().time() + round_s, tuple(asked))
            asked[connection.node_id] = None
            return await ask(connection)
        except ClosedError:
            raise
        except MoldauError as error:
            raise _Passed(error) from error


def _of_all(errors: list[MoldauError]) -> MoldauError:
    """One error for a round in which nobody could be reached."""
    if len(errors) == 1:
        return errors[0]
    reasons = "; ".join(dict.fromkeys(str(error) for error in errors)) or "none is known"
    lasting = [error for error in errors if not error.retriable]
    if errors and len(lasting) == len(errors):
        return type(errors[0])(f"no broker could be used: {reasons}")
    return BrokerUnavailable(f"no broker could be reached: {reasons}")
