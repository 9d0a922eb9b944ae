"""Connection pool of a client: at most one connection per node, with a pause after a failure.

Nodes have their broker ids. Before the first metadata, the addresses of bootstrap.servers have negative ids. A group's
coordinator has a second connection with the id `coordinator_node(id)`, because a broker answers the requests of one
connection in order: a heartbeat must not wait for a fetch that waits for records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from moldau.client.backoff import Backoff
from moldau.client.client_errors import (
    BrokerUnavailable,
    ClosedError,
    ConfigurationError,
    MoldauError,
    NotKafka,
    TimedOut,
    TlsAuthenticationError,
    error_copy,
)
from moldau.client.connection import ANSWERS_MEMORY_BYTES, Connection, tls_port
from moldau.client.data_types import Node
from moldau.client.handshake import check_no_login, introduce
from moldau.client.settings import Address, ClientSettings
from moldau.client.unreachable import UnreachableWarning
from moldau.host.clock import Randomness
from moldau.net.connect import (
    NoSuchHostError,
    TlsHandshakeCut,
    canonical_names,
    connect,
    speaks_plain_text,
    speaks_tls,
)
from moldau.net.framing import FrameMemory
from moldau.net.tls_errors import TlsFailure, is_lasting, is_plain_text, plain_port, tls_problem
from moldau.settings.setting import SettingError

if TYPE_CHECKING:
    from ssl import SSLContext

    from moldau.net.client_logins import LoginSource
    from moldau.net.tls_client import ClientTls

COORDINATOR_BASE: Final = 1 << 32
"""Node ids have 32 bits. Ids from here on stand for the same nodes, on a second connection."""

LAST_WORDS_S: Final = 2.0
"""How long `close` waits until the brokers have received what was sent."""

LAST_ANSWERS_S: Final = 3.0
"""How long a broker that has left the cluster may take to answer earlier requests."""

MIN_IDLE_LOOK_S: Final = 0.1

TLS_ANSWER_S: Final = 2.0
"""The time limit for the test whether a peer speaks TLS. It delays an error message."""


def coordinator_node(node_id: int) -> int:
    """Return the node id of the second connection to a broker, for requests to it as a coordinator."""
    return COORDINATOR_BASE + node_id


def real_node(node_id: int) -> int:
    """Return the broker id of a node id."""
    return node_id - COORDINATOR_BASE if node_id >= COORDINATOR_BASE else node_id


class _ConnectAttempts:
    """The state of the attempts to connect to a node."""

    __slots__ = ("error", "failures", "not_before", "silent")

    def __init__(self) -> None:
        self.failures = 0
        self.not_before = 0.0
        self.error: MoldauError | None = None
        self.silent = False
        """Whether the connection is open, but the peer has not sent anything yet."""


class ConnectionPool:
    """All connections of one client."""

    def __init__(
        self, settings: ClientSettings, client_id: str, randomness: Randomness, on_lost: Callable[[Connection], None]
    ) -> None:
        self._settings = settings
        self._client_id = client_id
        self._random = randomness.random
        self._on_lost = on_lost
        self._tls: ClientTls | None = None
        self._login: LoginSource | None = None
        if settings["security.protocol"] != "PLAINTEXT":
            from moldau.client.security import client_security  # imported late: most clients need none of it

            self._tls, self._login = client_security(settings, self._random)
        self._described = False
        """Whether a broker has ever answered a request for metadata."""
        self._lost_unknown = False
        """Whether a broker closed a connection after the handshake, before any answer to a request."""
        self._memory = FrameMemory(ANSWERS_MEMORY_BYTES)
        self._nodes: dict[int, Node] = {}
        self._bootstrap: dict[int, Node] = {
            -1 - i: Node(-1 - i, address.host, address.port) for i, address in enumerate(settings.addresses)
        }
        self._resolved = settings["client.dns.lookup"] == "use_all_dns_ips"
        self._ready: dict[int, Connection] = {}
        self._opening: dict[int, asyncio.Task[Connection]] = {}
        self._attempts: dict[int, _ConnectAttempts] = {}
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
        self._warning = UnreachableWarning(client_id, self._why_unreachable)
        self._closed = False

    # -- known nodes -----------------------------------------------------------------------------------------------

    def know(self, nodes: Iterable[Node]) -> None:
        """Set the brokers of the cluster from the last metadata.

        Connections to brokers that are gone or have another address get no new requests. Requests in flight on them
        may still be answered for LAST_ANSWERS_S.
        """
        self._nodes = {node.id: node for node in nodes}
        self._described = True
        self._adopt()
        for node_id, connection in list(self._ready.items()):
            node = self._nodes.get(real_node(node_id))
            if node_id >= 0 and (node is None or connection.name != str(node)):
                del self._ready[node_id]
                self._retire(connection)

    def learn(self, node: Node) -> None:
        """Add a broker that another response names."""
        self._nodes.setdefault(node.id, node)

    def forget(self) -> None:
        """Start again from bootstrap.servers: close all connections, and reset all pauses."""
        self._nodes = {}
        self._attempts.clear()
        for connection in list(self._ready.values()):
            connection.close(
                BrokerUnavailable(
                    f"the connection to {connection.name} was closed, because the client connects again through "
                    "bootstrap.servers"
                )
            )

    @property
    def nodes(self) -> dict[int, Node]:
        """The brokers of the cluster, or the addresses of bootstrap.servers before the first metadata."""
        return self._nodes or self._bootstrap

    @property
    def bootstrapping(self) -> bool:
        """Whether only bootstrap.servers are known."""
        return not self._nodes

    def connected(self, node_id: int) -> Connection | None:
        """Return the open connection to the node, or None."""
        return self._ready.get(node_id)

    def failing(self, node_id: int) -> bool:
        """Whether the last attempt to reach the node failed."""
        attempts = self._attempts.get(node_id)
        return attempts is not None and attempts.failures > 0

    def by_preference(self) -> list[int]:
        """Return all nodes in order of preference, for a request that any broker can answer.

        Connected nodes come first, those with the fewest requests in flight before the others. Then come nodes that
        can be tried at once, in random order, and then nodes that are in a pause after a failure.
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
        """Return the connection to a node, opened if necessary. One attempt, which concurrent callers share."""
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
            # A caller that times out does not cancel the attempt, because other callers wait for it too.
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(opening)
        except TimeoutError as error:
            if isinstance(error, MoldauError):
                raise
            raise self._not_in_time(node_id) from error
        except asyncio.CancelledError:
            # Either the attempt was cancelled, or this task. If `close` did both, the cancellation of this task wins.
            task = asyncio.current_task()
            ours = task is not None and task.cancelling() > 0
            if not ours and opening.cancelled() and self._closed:
                raise ClosedError("the client was closed") from None
            raise

    def _not_in_time(self, node_id: int) -> TimedOut:
        attempts = self._attempts.get(node_id)
        if attempts is not None and attempts.silent:
            return TimedOut(
                f"{self._name(node_id)} accepted the connection, but did not answer in time: it hangs, is overloaded, "
                "or is not a Kafka broker"
            )
        return TimedOut(f"no connection to {self._name(node_id)} in time")

    def _begin(self, node_id: int) -> asyncio.Task[Connection]:
        if self._closed:
            raise ClosedError("the client is closed")
        if not self._ready:
            self._warning.watch()
        task = asyncio.get_running_loop().create_task(self._open(node_id), name=f"connect to {self._name(node_id)}")
        self._opening[node_id] = task
        task.add_done_callback(lambda done: self._opened(node_id, done))
        return task

    def _opened(self, node_id: int, task: asyncio.Task[Connection]) -> None:
        if self._opening.get(node_id) is task:
            del self._opening[node_id]
        if not task.cancelled():
            task.exception()  # `_open` has stored it; this avoids a warning if no caller waits any more

    def _why_unreachable(self) -> list[str]:
        """Return the error of each address that was tried; empty if a broker is connected."""
        if self._ready:
            return []
        reasons = []
        for node_id in self.nodes:
            attempts = self._attempts.get(node_id)
            if attempts is None:
                continue
            if attempts.error is not None:
                reasons.append(str(attempts.error))
            elif attempts.silent:
                reasons.append(f"{self._name(node_id)} accepted the connection, but has not answered yet")
            else:
                reasons.append(f"{self._name(node_id)} has not accepted the connection yet")
        return reasons

    async def _pause(self, node_id: int, deadline: float) -> None:
        """Wait until the node may be tried again. If that is after the deadline, raise the last error."""
        attempts = self._attempts.get(node_id)
        loop = asyncio.get_running_loop()
        if attempts is None or attempts.not_before <= loop.time():
            return
        if attempts.not_before >= deadline:
            assert attempts.error is not None
            raise error_copy(attempts.error)
        await asyncio.sleep(attempts.not_before - loop.time())

    async def _open(self, node_id: int) -> Connection:
        await self._resolve_bootstrap()
        node = self.nodes.get(real_node(node_id))
        if node is None:
            raise BrokerUnavailable(f"broker {real_node(node_id)} is not in the cluster")
        attempts = self._attempts.setdefault(node_id, _ConnectAttempts())
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
        self._warning.reached()
        adopted = self._ready.get(node_id)
        if adopted is not None and not adopted.closed:
            # While this connection was being opened, `_adopt` assigned a bootstrap connection to the same broker. That
            # one may be in use already, so the new one is closed.
            connection.close()
            return adopted
        self._ready[node_id] = connection
        self._watch_idle()
        return connection

    async def _reach(self, node_id: int, node: Node, attempts: _ConnectAttempts) -> Connection:
        """Connect and do the handshake. Raises an error that says what is wrong with the address."""
        timeout_s = self._setup.pause(attempts.failures + 1, self._random())
        address = Address(node.host, node.port)
        name = str(node) if node.id >= 0 else str(address)
        tls = await self._tls_context()
        connection = Connection(node_id, name, self._client_id, self._memory, self._lost, encrypted=tls is not None)
        try:
            await connect(
                lambda: connection.protocol,
                node.host,
                node.port,
                timeout_s=timeout_s,
                send_buffer=self._settings["send.buffer.bytes"],
                receive_buffer=self._settings["receive.buffer.bytes"],
                tls=tls,
            )
            attempts.silent = True
            request_timeout_s = self._settings.seconds("request.timeout.ms")
            deadline = asyncio.get_running_loop().time() + request_timeout_s
            await introduce(connection, deadline)
            if self._login is not None:
                await connection.log_in(self._login, deadline, request_timeout_s, self._random)
            elif self._lost_unknown:
                await check_no_login(connection, deadline)
            if connection.failure is not None:
                # The connection was lost right after the answer, before it is in `_ready`: `_lost` does not handle it.
                raise error_copy(connection.failure)
        except BrokerUnavailable as error:
            connection.close()
            # The peer closed the connection without an answer, as a TLS server does with plain text. Only a client
            # that has never reached a broker tests this, once per address.
            ask = self._never_connected and not attempts.failures and tls is None
            if ask and await speaks_tls(node.host, node.port, min(timeout_s, TLS_ANSWER_S)):
                raise NotKafka(tls_port(name)) from error
            raise
        except MoldauError:
            connection.close()
            raise
        except (TlsFailure, TlsHandshakeCut) as error:
            connection.close()
            raise await self._tls_failed(name, node, error, min(timeout_s, TLS_ANSWER_S)) from error
        except OSError as error:
            connection.close()
            raise _unreachable(name, node, error, timeout_s) from error
        except BaseException:
            connection.close()
            raise
        return connection

    async def _tls_context(self) -> SSLContext | None:
        if self._tls is None:
            return None
        try:
            return await self._tls.context()
        except SettingError as error:
            raise ConfigurationError(str(error)) from None

    async def _tls_failed(self, name: str, node: Node, error: OSError, timeout_s: float) -> MoldauError:
        """Return the error for a TLS handshake that failed or was cut off."""
        if is_lasting(error):
            if is_plain_text(error):
                return NotKafka(plain_port(name))
            return TlsAuthenticationError(tls_problem(name, node.host, error))
        # A broker that expects plain text takes the first TLS message for a huge request, and closes the connection.
        if self._never_connected and await speaks_plain_text(node.host, node.port, timeout_s):
            return NotKafka(plain_port(name))
        return BrokerUnavailable(
            f"{name} closed the connection during the TLS handshake ({error}): it is stopping, overloaded, or does "
            "not speak TLS; check the port in bootstrap.servers"
        )

    async def _resolve_bootstrap(self) -> None:
        """Replace names by canonical names, with client.dns.lookup=resolve_canonical_bootstrap_servers_only."""
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

    # -- lost connections ------------------------------------------------------------------------------------------

    def _lost(self, connection: Connection) -> None:
        if self._ready.get(connection.node_id) is connection:
            self._lost_unknown = not self._described
            del self._ready[connection.node_id]
            attempts = self._attempts.setdefault(connection.node_id, _ConnectAttempts())
            attempts.failures = 1
            attempts.error = connection.failure
            attempts.not_before = asyncio.get_running_loop().time() + self._reconnect.pause(1, self._random())
            self._on_lost(connection)

    def _adopt(self) -> None:
        """Assign each connection to an address of bootstrap.servers to the broker with the same address."""
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
        """Close a retired connection. A broker that stops has answered by now; one that is frozen never will."""
        if not connection.closed:
            connection.close(BrokerUnavailable(f"{connection.name} has left the cluster and does not answer"))
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
                del self._ready[node_id]  # before `close`, so that `_lost` does not count it as a failure
                connection.close()
        self._close_retired()
        if self._ready or self._retired:
            self._watch_idle()

    async def close(self) -> None:
        """Close all connections, and cancel all attempts to connect."""
        self._closed = True
        self._warning.stop()
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
    """Return the error for an address that cannot be reached."""
    if isinstance(error, NoSuchHostError):
        return BrokerUnavailable(f"{name}: there is no host {node.host!r}; check bootstrap.servers")
    if isinstance(error, ConnectionRefusedError):
        return BrokerUnavailable(f"{name} refused the connection: is the broker running, and is this its port?")
    if isinstance(error, TimeoutError):
        return TimedOut(
            f"{name} did not accept the connection within {timeout_s:.1f} s (socket.connection.setup.timeout.ms): "
            "the host is down, or a firewall drops the packets"
        )
    return BrokerUnavailable(f"{name} cannot be reached: {error.strerror or error}")
