"""The connections of one client: at most one to each node, opened when needed, with a pause after a failure.

Nodes have the ids that the cluster gave them. Before the cluster is known, the addresses of bootstrap.servers stand in
with ids below zero. And a group's coordinator gets a connection of its own under `coordinator_node(id)`, because a
broker answers one connection in order: a heartbeat must not wait behind a fetch that waits for records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from moldau.client.backoff import Backoff
from moldau.client.connection import ANSWERS_MEMORY_BYTES, Connection, tls_port
from moldau.client.handshake import introduce
from moldau.client.model import Node
from moldau.client.own_errors import BrokerUnavailable, ClosedError, MoldauError, NotKafka, TimedOut, another
from moldau.client.settings import Address, ClientSettings
from moldau.host.clock import Randomness
from moldau.net.connect import NoSuchHostError, canonical_names, connect, speaks_tls
from moldau.net.framing import FrameMemory

COORDINATOR_BASE: Final = 1 << 32
"""Node ids are 32 bits wide: what is above them names the same nodes again, on a second connection."""

LAST_WORDS_S: Final = 2.0
"""How long a closing client waits for brokers to take in what it has sent."""

LAST_ANSWERS_S: Final = 3.0
"""How long a broker that is not in the cluster any more may take over what it was asked before."""

MIN_IDLE_LOOK_S: Final = 0.1

TLS_ANSWER_S: Final = 2.0
"""How long a peer has to answer when it is asked whether it speaks TLS: an error message waits for it."""


def coordinator_node(node_id: int) -> int:
    """The id under which a broker is reached on the connection for its coordinator's work."""
    return COORDINATOR_BASE + node_id


def real_node(node_id: int) -> int:
    """The broker's own id."""
    return node_id - COORDINATOR_BASE if node_id >= COORDINATOR_BASE else node_id


class _Attempts:
    """What became of the last attempts to reach a node."""

    __slots__ = ("error", "failures", "not_before", "silent")

    def __init__(self) -> None:
        self.failures = 0
        self.not_before = 0.0
        self.error: MoldauError | None = None
        self.silent = False
        """Whether there is a connection that the peer has not said a word on yet."""


class ConnectionPool:
    """All connections of one client."""

    def __init__(
        self, settings: ClientSettings, client_id: str, randomness: Randomness, on_lost: Callable[[Connection], None]
    ) -> None:
        self._settings = settings
        self._client_id = client_id
        self._random = randomness.random
        self._on_lost = on_lost
        self._memory = FrameMemory(ANSWERS_MEMORY_BYTES)
        self._nodes: dict[int, Node] = {}
        self._bootstrap: dict[int, Node] = {
            -1 - i: Node(-1 - i, address.host, address.port) for i, address in enumerate(settings.addresses)
        }
        self._resolved = settings["client.dns.lookup"] == "use_all_dns_ips"
        self._ready: dict[int, Connection] = {}
        self._opening: dict[int, asyncio.Task[Connection]] = {}
        self._attempts: dict[int, _Attempts] = {}
        self._reconnect = Backoff(
            settings.seconds("reconnect.backoff.ms"), settings.seconds("reconnect.backoff.max.ms")
        )
        self._setup = Backoff(
            settings.seconds("socket.connection.setup.timeout.ms"),
            settings.seconds("socket.connection.setup.timeout.max.ms"),
        )
        self._idle_s = settings.seconds("connections.max.idle.ms")
        self._idle_timer: asyncio.TimerHandle | None = None
        self._retired: list[Connection] = []
        self._never_connected = True
        self._closed = False

    # -- who is there ----------------------------------------------------------------------------------------------

    def know(self, nodes: Iterable[Node]) -> None:
        """The brokers of the cluster, as the last answer named them. Connections to addresses that are no longer
        theirs take no new requests; what is in flight on them may still be answered, for a moment.
        """
        self._nodes = {node.id: node for node in nodes}
        self._adopt()
        for node_id, connection in list(self._ready.items()):
            node = self._nodes.get(real_node(node_id))
            if node_id >= 0 and (node is None or connection.name != str(node)):
                del self._ready[node_id]
                self._retire(connection)

    def learn(self, node: Node) -> None:
        """One more broker, named by an answer to another question."""
        self._nodes.setdefault(node.id, node)

    def forget(self) -> None:
        """Start anew from bootstrap.servers: every connection is given up, and every pause."""
        self._nodes = {}
        self._attempts.clear()
        for connection in list(self._ready.values()):
            connection.close(BrokerUnavailable(f"no known broker answered; {connection.name} was given up"))

    @property
    def nodes(self) -> dict[int, Node]:
        """Whom one may ask: the cluster's brokers, or else the addresses of bootstrap.servers."""
        return self._nodes or self._bootstrap

    @property
    def bootstrapping(self) -> bool:
        """Whether nothing is known yet but bootstrap.servers."""
        return not self._nodes

    def connected(self, node_id: int) -> Connection | None:
        """The connection to a node, if there is one that can be used now."""
        return self._ready.get(node_id)

    def failing(self, node_id: int) -> bool:
        """Whether the last attempt to reach the node was in vain."""
        attempts = self._attempts.get(node_id)
        return attempts is not None and attempts.failures > 0

    def by_preference(self) -> list[int]:
        """Nodes to ask what any of them can answer: connected ones first, the least busy of them before the others;
        then in an order of chance those that can be tried at once; then those that failed a moment ago.
        """
        now = asyncio.get_running_loop().time()

        def preference(node_id: int) -> tuple[int, float, float]:
            connection = self._ready.get(node_id)
            if connection is not None:
                return (0, connection.in_flight, self._random())
            attempts = self._attempts.get(node_id)
            if attempts is None or attempts.not_before <= now:
                return (1, 0, self._random())
            return (2, attempts.not_before, self._random())

        return sorted(self.nodes, key=preference)

    # -- connecting ------------------------------------------------------------------------------------------------

    async def connection(self, node_id: int, deadline: float) -> Connection:
        """A connection to that node: the one there is, or a new one. One attempt; all who want it share it."""
        ready = self._ready.get(node_id)
        if ready is not None:
            return ready
        if self._closed:
            raise ClosedError("the client is closed")
        opening = self._opening.get(node_id)
        if opening is None:
            await self._pause(node_id, deadline)
            if (ready := self._ready.get(node_id)) is not None:
                return ready
            opening = self._opening.get(node_id) or self._begin(node_id)
        try:
            # Whoever gives up waiting leaves the attempt to the others: its end is noted for them.
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(opening)
        except TimeoutError as error:
            if isinstance(error, MoldauError):
                raise
            raise self._not_in_time(node_id) from error
        except asyncio.CancelledError:
            # The attempt was cancelled, or we were: `close` may have done both in one turn, and ours goes first.
            task = asyncio.current_task()
            ours = task is not None and task.cancelling() > 0
            if not ours and opening.cancelled() and self._closed:
                raise ClosedError("the client was closed") from None
            raise

    def _not_in_time(self, node_id: int) -> TimedOut:
        attempts = self._attempts.get(node_id)
        if attempts is not None and attempts.silent:
            return TimedOut(
                f"{self._name(node_id)} took the connection, but did not answer in time: it hangs, is overloaded, or "
                "is no Kafka broker"
            )
        return TimedOut(f"no connection to {self._name(node_id)} in time")

    def _begin(self, node_id: int) -> asyncio.Task[Connection]:
        if self._closed:
            raise ClosedError("the client is closed")
        task = asyncio.get_running_loop().create_task(self._open(node_id), name=f"connect to {self._name(node_id)}")
        self._opening[node_id] = task
        task.add_done_callback(lambda done: self._opened(node_id, done))
        return task

    def _opened(self, node_id: int, task: asyncio.Task[Connection]) -> None:
        if self._opening.get(node_id) is task:
            del self._opening[node_id]
        if not task.cancelled():
            task.exception()  # it was noted; nobody may be waiting for it any more

    async def _pause(self, node_id: int, deadline: float) -> None:
        """Wait until the node may be tried again; when that is too late, fail with what was wrong the last time."""
        attempts = self._attempts.get(node_id)
        loop = asyncio.get_running_loop()
        if attempts is None or attempts.not_before <= loop.time():
            return
        if attempts.not_before >= deadline:
            assert attempts.error is not None
            raise another(attempts.error)
        await asyncio.sleep(attempts.not_before - loop.time())

    async def _open(self, node_id: int) -> Connection:
        await self._resolve_bootstrap()
        node = self.nodes.get(real_node(node_id))
        if node is None:
            raise BrokerUnavailable(f"broker {real_node(node_id)} is not in the cluster (any more)")
        attempts = self._attempts.setdefault(node_id, _Attempts())
        loop = asyncio.get_running_loop()
        try:
            connection = await self._reach(node_id, node, attempts)
        except MoldauError as error:
            attempts.silent = False
            attempts.failures += 1
            attempts.not_before = loop.time() + self._reconnect.pause(attempts.failures, self._random())
            attempts.error = error
            raise
        self._attempts.pop(node_id, None)
        self._never_connected = False
        adopted = self._ready.get(node_id)
        if adopted is not None and not adopted.closed:
            # While this one was being opened, that of a bootstrap server turned out to lead to the same broker. It may
            # be in use; one that nobody has seen yet can go.
            connection.close()
            return adopted
        self._ready[node_id] = connection
        self._watch_idle()
        return connection

    async def _reach(self, node_id: int, node: Node, attempts: _Attempts) -> Connection:
        """Connect and introduce ourselves. Any failure is an error that says what is wrong with that address."""
        timeout_s = self._setup.pause(attempts.failures + 1, self._random())
        address = Address(node.host, node.port)
        name = str(node) if node.id >= 0 else str(address)
        connection = Connection(node_id, name, self._client_id, self._memory, self._lost)
        try:
            await connect(
                lambda: connection.protocol,
                node.host,
                node.port,
                timeout_s=timeout_s,
                send_buffer=self._settings["send.buffer.bytes"],
                receive_buffer=self._settings["receive.buffer.bytes"],
            )
            attempts.silent = True
            deadline = asyncio.get_running_loop().time() + self._settings.seconds("request.timeout.ms")
            await introduce(connection, deadline)
            if connection.failure is not None:
                # Lost after its answer came and before we were told of it: nobody else will hear of the loss.
                raise another(connection.failure)
        except BrokerUnavailable as error:
            connection.close()
            # Hung up on without a word: a TLS server does that to plain text. It is asked only by a client that has
            # never met a broker, and once for each address.
            ask = self._never_connected and not attempts.failures
            if ask and await speaks_tls(node.host, node.port, min(timeout_s, TLS_ANSWER_S)):
                raise NotKafka(tls_port(name)) from error
            raise
        except MoldauError:
            connection.close()
            raise
        except OSError as error:
            connection.close()
            raise _unreachable(name, node, error, timeout_s) from error
        except BaseException:
            connection.close()
            raise
        return connection

    async def _resolve_bootstrap(self) -> None:
        """With client.dns.lookup=resolve_canonical_bootstrap_servers_only: names stand for what they resolve to."""
        if self._resolved:
            return
        found: list[Node] = []
        for node in self._bootstrap.values():
            try:
                names: Sequence[str] = await canonical_names(node.host)
            except OSError:
                names = (node.host,)
            found += [Node(-1 - len(found) - i, name, node.port) for i, name in enumerate(names)]
        self._bootstrap = {node.id: node for node in found}
        self._resolved = True

    # -- losing ----------------------------------------------------------------------------------------------------

    def _lost(self, connection: Connection) -> None:
        if self._ready.get(connection.node_id) is connection:
            del self._ready[connection.node_id]
            attempts = self._attempts.setdefault(connection.node_id, _Attempts())
            attempts.failures = 1
            attempts.error = connection.failure
            attempts.not_before = asyncio.get_running_loop().time() + self._reconnect.pause(1, self._random())
            self._on_lost(connection)

    def _adopt(self) -> None:
        """A connection to an address of bootstrap.servers is one to the broker that the cluster names there."""
        for stand_in, at_first in self._bootstrap.items():
            connection = self._ready.get(stand_in)
            if connection is None:
                continue
            for node in self._nodes.values():
                if (node.host, node.port) == (at_first.host, at_first.port) and node.id not in self._ready:
                    del self._ready[stand_in]
                    connection.node_id = node.id
                    connection.name = str(node)
                    self._ready[node.id] = connection
                    break

    def _retire(self, connection: Connection) -> None:
        self._retired.append(connection)
        self._close_retired()
        if not connection.closed:
            asyncio.get_running_loop().call_later(LAST_ANSWERS_S, self._give_up, connection)

    def _give_up(self, connection: Connection) -> None:
        """A broker that stops answers what it has taken; one that is frozen never will, and its work is elsewhere."""
        if not connection.closed:
            connection.close(BrokerUnavailable(f"{connection.name} has left the cluster, and does not answer"))
        self._close_retired()

    def _close_retired(self) -> None:
        for connection in self._retired:
            if connection.in_flight == 0:
                connection.close()
        self._retired = [connection for connection in self._retired if not connection.closed]

    def _name(self, node_id: int) -> str:
        node = self.nodes.get(real_node(node_id))
        if node is None:
            return f"broker {real_node(node_id)}"
        return str(node) if node.id >= 0 else str(Address(node.host, node.port))

    # -- idle connections ------------------------------------------------------------------------------------------

    def _watch_idle(self) -> None:
        if self._idle_s < 0 or self._idle_timer is not None or self._closed:
            return
        loop = asyncio.get_running_loop()
        self._idle_timer = loop.call_later(max(self._idle_s / 2, MIN_IDLE_LOOK_S), self._close_idle)

    def _close_idle(self) -> None:
        self._idle_timer = None
        now = asyncio.get_running_loop().time()
        for node_id, connection in list(self._ready.items()):
            if connection.in_flight == 0 and now - connection.last_used >= self._idle_s:
                del self._ready[node_id]  # first: a connection that was not needed is no failure
                connection.close()
        self._close_retired()
        if self._ready or self._retired:
            self._watch_idle()

    async def close(self) -> None:
        """End every connection, and every attempt at one."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        connections, self._ready = [*self._ready.values(), *self._retired], {}
        closed = ClosedError("the client was closed")
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        try:
            await asyncio.gather(*(connection.finish(closed, LAST_WORDS_S) for connection in connections))
            if opening:
                await asyncio.wait(opening)
        finally:
            for connection in connections:
                connection.close(closed)


def _unreachable(name: str, node: Node, error: OSError, timeout_s: float) -> MoldauError:
    """Why an address cannot be reached, in words."""
    if isinstance(error, NoSuchHostError):
        return BrokerUnavailable(f"{name}: there is no host {node.host!r}; check bootstrap.servers")
    if isinstance(error, ConnectionRefusedError):
        return BrokerUnavailable(f"{name} refused the connection: is the broker running, and is this its port?")
    if isinstance(error, TimeoutError):
        return TimedOut(
            f"{name} did not take the connection in {timeout_s:.1f} s (socket.connection.setup.timeout.ms): "
            "the host is away, or a firewall drops what is sent to it"
        )
    return BrokerUnavailable(f"{name} cannot be reached: {error.strerror or error}")
