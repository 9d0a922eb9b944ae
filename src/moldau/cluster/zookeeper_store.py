"""Metadata store in ZooKeeper (3.6 or later), shared by the brokers of a cluster.

A store object is a ZooKeeper session. The rules of the store are those of ZooKeeper, so each operation is one ZooKeeper
operation and a commit is one transaction. One recursive watch over the whole tree reports every change. It ends with
the connection and is set again on the next connection *before* listeners get RESUMED. So a reader that reads again
after RESUMED misses nothing.

Reads go to the server of this session and may lag behind; `sync` catches up. While the connection is down, every call
fails at once with a StoreError. kazoo tries to reconnect until the session has expired; after that this object cannot
be used any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, ClassVar, Final

from kazoo import exceptions as kazoo_errors
from kazoo.protocol.states import KazooState, ZnodeStat

from moldau.cluster.kazoo_session import AddWatch, KazooSession, ReadMany
from moldau.cluster.security_nodes import SECRET_FOLDERS
from moldau.cluster.store import (
    Check,
    Conflict,
    Create,
    Delete,
    Event,
    EventKind,
    Listener,
    Operation,
    SessionEvent,
    SessionListener,
    Set,
    Store,
    StoredNode,
    StoreError,
    Watches,
    check_operations,
    split,
)
from moldau.cluster.zookeeper_security import ZookeeperSecurity
from moldau.host.event_log import event_logger
from moldau.settings.zookeeper import EnsembleAddress

log = event_logger(__name__)

MAX_MESSAGE_BYTES: Final = 0xFFFFF
"""ZooKeeper's `jute.maxbuffer`: a server closes a connection that sends a larger message."""
PATHS_A_MESSAGE: Final = 200
MESSAGES_AT_A_TIME: Final = 8
MAX_IN_FLIGHT: Final = 128
"""Limit of requests without an answer; further requests wait. kazoo wakes its thread with one byte per request, in a
pipe that holds a few hundred bytes. If the server hangs, the thread hangs, and one more byte would block the loop."""
CLOSE_GRACE_S: Final = 3.0
RESERVED: Final = "zookeeper"
"""ZooKeeper's own node in the root."""

_EVENT_KINDS: Final = {1: EventKind.CREATED, 2: EventKind.DELETED, 3: EventKind.CHANGED}

# Bytes of an operation in addition to its path and value.
_OVERHEAD: Final[dict[type[Operation], int]] = {Create: 48, Set: 21, Delete: 17, Check: 17}
_COMMIT_OVERHEAD: Final = 17


class _Phase(Enum):
    OPENING = auto()
    CONNECTED = auto()
    SUSPENDED = auto()
    EXPIRED = auto()
    CLOSED = auto()


class ZookeeperStore(Store):
    """The tree below a path of a ZooKeeper ensemble. Created by `await ZookeeperStore.open(connect, ...)`."""

    shared: ClassVar[bool] = True

    def __init__(self, connect: str, session_timeout_s: float, security: ZookeeperSecurity | None = None) -> None:
        self._connect = connect
        self._security = security or ZookeeperSecurity()
        try:
            ensemble = EnsembleAddress.parse(connect)
        except ValueError as error:
            raise self._error(f"{error}; write HOST:PORT,HOST:PORT/CHROOT") from None
        self._root = ensemble.root
        self._phase = _Phase.OPENING
        self._session = KazooSession(
            ensemble.hosts,
            session_timeout_s,
            heard=self._heard,
            state_changed=self._state_changed,
            security=self._security,
        )
        self._watches = Watches()
        self._session_listeners: dict[int, SessionListener] = {}
        self._next_listener = 0
        self._turns = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._in_flight: dict[asyncio.Future[Any], None] = {}
        self._answered = 0.0
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._preparing: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        connect: str,
        *,
        session_timeout_s: float,
        connection_timeout_s: float,
        security: ZookeeperSecurity | None = None,
    ) -> ZookeeperStore:
        """Open a new session, and create the chroot if it is missing. `StoreError` if no server answers in time."""
        store = cls(connect, session_timeout_s, security)
        store._session.begin()
        try:
            async with asyncio.timeout(connection_timeout_s):
                await store._opened
        except TimeoutError:
            await store.close()
            if store._session.handler.tls_error:
                raise store._error(
                    f"no TLS connection within {connection_timeout_s:g} s: {store._session.handler.tls_error}; check "
                    "the settings zookeeper.ssl.*, and that zookeeper.connect has the secureClientPort"
                ) from None
            raise store._error(
                f"no server answers within {connection_timeout_s:g} s; check the addresses of zookeeper.connect, "
                "or start one (moldau zookeeper)"
            ) from None
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def session_timeout_s(self) -> float:  # type: ignore[override]
        """The timeout that the server granted. Servers limit the requested value."""
        return float(self._session.negotiated_timeout_s)

    @property
    def last_contact(self) -> float:  # type: ignore[override]
        """Send time of the latest answered request or kazoo ping. kazoo's clock is the clock of the loop."""
        return max(self._answered, self._session.ping_answered)

    # -- reading ---------------------------------------------------------------------------------------------------

    async def get(self, path: str) -> StoredNode | None:
        split(path)
        try:
            return _node(await self._ask(self._session.get_async, self._root + path))
        except kazoo_errors.NoNodeError:
            return None
        except kazoo_errors.KazooException as error:
            raise self._explained(error) from error

    async def get_each(self, paths: Sequence[str]) -> list[StoredNode | None]:
        for path in paths:
            split(path)
        return await self._read([self._root + path for path in paths])

    async def children(self, path: str) -> list[str]:
        if path != "/":
            split(path)
        try:
            names = await self._ask(self._session.get_children_async, self._place(path))
        except kazoo_errors.NoNodeError:
            return []
        except kazoo_errors.KazooException as error:
            raise self._explained(error) from error
        return sorted(name for name in names if name != RESERVED or path != "/" or self._root)

    async def read_children(self, path: str) -> dict[str, StoredNode]:
        names = await self.children(path)
        above = "" if path == "/" else path
        nodes = await self._read([f"{self._root}{above}/{name}" for name in names])
        # A node that is None was deleted after the children were listed.
        return {name: node for name, node in zip(names, nodes, strict=True) if node is not None}

    async def sync(self) -> None:
        try:
            await self._ask(self._session.sync_async, self._place("/"))
        except kazoo_errors.KazooException as error:
            raise self._explained(error) from error

    async def _read(self, places: Sequence[str]) -> list[StoredNode | None]:
        """The nodes of many paths: hundreds of paths per message, several messages in flight."""
        messages = [places[start : start + PATHS_A_MESSAGE] for start in range(0, len(places), PATHS_A_MESSAGE)]
        nodes: list[StoredNode | None] = []
        try:
            for start in range(0, len(messages), MESSAGES_AT_A_TIME):
                together = messages[start : start + MESSAGES_AT_A_TIME]
                for answers in await asyncio.gather(
                    *(self._ask(self._session.ask, ReadMany(message)) for message in together)
                ):
                    nodes += map(_node_or_none, answers)
        except kazoo_errors.KazooException as error:
            raise self._explained(error) from error
        return nodes

    # -- changing --------------------------------------------------------------------------------------------------

    async def commit(self, operations: Sequence[Operation]) -> None:
        check_operations(operations)
        size = _COMMIT_OVERHEAD + sum(map(self._size, operations))
        if size > MAX_MESSAGE_BYTES:
            raise self._error(
                f"a commit of {size} bytes exceeds {MAX_MESSAGE_BYTES} (jute.maxbuffer); nothing was changed"
            )
        self._require_connection()
        if not operations:
            return
        transaction = self._session.transaction()
        for operation in operations:
            place = self._root + operation.path
            if isinstance(operation, Create):
                acl = self._security.acl(operation.path)
                transaction.create(place, operation.value, acl=acl, ephemeral=operation.ephemeral)
            elif isinstance(operation, Set):
                transaction.set_data(place, operation.value, operation.version)
            elif isinstance(operation, Delete):
                transaction.delete(place, operation.version)
            else:
                transaction.check(place, operation.version)
        try:
            results = await self._ask(transaction.commit_async)
        except kazoo_errors.KazooException as error:
            raise self._explained(error, "; the commit may or may not have happened: read again") from error
        for operation, result in zip(operations, results, strict=True):
            self._check_result(operation, result)

    def _size(self, operation: Operation) -> int:
        value = operation.value if isinstance(operation, Create | Set) else b""
        return _OVERHEAD[type(operation)] + len(self._root) + len(operation.path.encode()) + len(value)

    def _check_result(self, operation: Operation, result: object) -> None:
        """Raise the error of one operation. Operations before the failing one only report that they were rolled
        back."""
        if not isinstance(result, Exception) or isinstance(result, kazoo_errors.RolledBackError):
            return
        path, creating = operation.path, isinstance(operation, Create)
        if isinstance(result, kazoo_errors.NodeExistsError):
            raise Conflict(path, "exists already")
        if isinstance(result, kazoo_errors.NoNodeError):
            raise Conflict(path, "its parent does not exist" if creating else "does not exist")
        if isinstance(result, kazoo_errors.NoChildrenForEphemeralsError):
            raise Conflict(path, "its parent is ephemeral and can have no children")
        if isinstance(result, kazoo_errors.NotEmptyError):
            raise Conflict(path, "has children")
        if isinstance(result, kazoo_errors.BadVersionError):
            assert not isinstance(operation, Create)
            raise Conflict(path, f"is not at version {operation.version}, which was expected")
        raise self._explained(result, f" at {path}; nothing was changed")

    # -- watching --------------------------------------------------------------------------------------------------

    def watch(self, path: str, listener: Listener) -> Callable[[], None]:
        return self._watches.add(path, listener)

    def on_session(self, listener: SessionListener) -> Callable[[], None]:
        number = self._next_listener
        self._next_listener += 1
        self._session_listeners[number] = listener

        def end() -> None:
            self._session_listeners.pop(number, None)

        return end

    def _heard(self, kind: int, place: str) -> None:
        if self._phase is _Phase.CLOSED or kind not in _EVENT_KINDS:
            return
        path = place.removeprefix(self._root) or "/"
        if path != "/" and (self._root or path.split("/")[1] != RESERVED):
            self._watches.publish([Event(_EVENT_KINDS[kind], path)])

    def _notify(self, event: SessionEvent) -> None:
        for listener in list(self._session_listeners.values()):
            listener(event)

    # -- session lifecycle -----------------------------------------------------------------------------------------

    def _state_changed(self, state: str) -> None:
        """Handle a state that kazoo's thread reported. Runs on the loop."""
        if self._phase in (_Phase.EXPIRED, _Phase.CLOSED):
            return
        if state == KazooState.CONNECTED:
            self._preparing = asyncio.ensure_future(self._prepare())
            return
        if self._preparing is not None:
            self._preparing.cancel()
            self._preparing = None
        # kazoo has failed the requests that it knew at that time. A request sent before this side noticed the loss may
        # still be in kazoo's queue, and is sent on the next connection. Its caller must not wait for that. It is sent
        # before the requests of `_prepare`, so it has taken effect when listeners get RESUMED.
        self._fail_all(kazoo_errors.ConnectionLoss())
        if state == KazooState.LOST:
            before, self._phase = self._phase, _Phase.EXPIRED
            if not self._opened.done():
                self._opened.set_exception(self._error("it refused the session; check its log"))
            if before is not _Phase.OPENING:
                log.warning("the ZooKeeper session has expired", extra={"ensemble": self._connect})
                self._notify(SessionEvent.EXPIRED)
        elif self._phase is _Phase.CONNECTED:
            self._phase = _Phase.SUSPENDED
            log.warning("the connection to ZooKeeper is lost, trying again", extra={"ensemble": self._connect})
            self._notify(SessionEvent.SUSPENDED)

    async def _prepare(self) -> None:
        """Prepare a new connection before it is used: set the watch, and sync, so that it does not lag behind the last
        connection. Both requests are sent together and answered in order."""
        try:
            if self._phase is _Phase.OPENING:
                await self._make_root()
                await self._protect_secrets()
            await asyncio.gather(
                self._answer(self._session.ask(AddWatch(self._place("/")))),
                self._answer(self._session.sync_async(self._place("/"))),
            )
        except (kazoo_errors.ConnectionLoss, kazoo_errors.SessionExpiredError):
            return  # the loss of the connection is reported separately
        except kazoo_errors.KazooException as error:
            if not self._opened.done():
                self._opened.set_exception(self._explained(error))
            else:
                log.error("ZooKeeper accepted the connection but refused the watch", extra={"reason": repr(error)})
            return
        before, self._phase = self._phase, _Phase.CONNECTED
        if before is _Phase.OPENING:
            if not self._opened.done():
                self._opened.set_result(None)
        else:
            log.info("the connection to ZooKeeper is back", extra={"ensemble": self._connect})
            self._notify(SessionEvent.RESUMED)

    async def _make_root(self) -> None:
        """Create the chroot, beginning with its first component."""
        for place in _ancestry(self._root):
            try:
                await self._answer(self._session.create_async(place, acl=self._security.acl("/")))
            except kazoo_errors.NodeExistsError:
                continue

    async def _protect_secrets(self) -> None:
        """Close nodes with secrets that were created before there was a login."""
        if not self._security.protects_secrets:
            return
        for folder in SECRET_FOLDERS:
            try:
                names = await self._answer(self._session.get_children_async(self._root + folder))
                acl = self._security.acl(folder)
                for path in (folder, *(f"{folder}/{name}" for name in names)):
                    await self._answer(self._session.set_acls_async(self._root + path, acl))
            except kazoo_errors.NoNodeError:
                continue

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._phase = _Phase.CLOSED
        self._watches.clear()
        self._session_listeners.clear()
        if self._preparing is not None:
            self._preparing.cancel()
        self._opened.cancel()
        if not await self._session.end(CLOSE_GRACE_S):
            log.warning("the thread that talks to ZooKeeper does not end", extra={"ensemble": self._connect})
        self._fail_all(kazoo_errors.ConnectionClosedError())

    # -- requests --------------------------------------------------------------------------------------------------

    async def _ask(self, call: Callable[..., Any], *args: Any) -> Any:
        async with self._turns:
            self._require_connection()
            return await self._answer(call(*args))

    async def _answer(self, result: Any) -> Any:
        """The value of kazoo's async result. Never waits longer than the connection lasts: kazoo closes the connection
        to a server that is silent for two thirds of the session timeout."""
        loop = asyncio.get_running_loop()
        sent_at, future = loop.time(), loop.create_future()
        self._in_flight[future] = None
        result.rawlink(partial(_settle, future))
        try:
            answer = await future
        finally:
            self._in_flight.pop(future, None)
        self._answered = max(self._answered, sent_at)
        return answer

    def _fail_all(self, error: Exception) -> None:
        for future in list(self._in_flight):
            if not future.done():
                future.set_exception(error)

    def _require_connection(self) -> None:
        if self._phase is _Phase.CONNECTED:
            return
        if self._phase is _Phase.CLOSED:
            raise self._error("this session was closed")
        if self._phase is _Phase.EXPIRED:
            raise self._error("this session has expired")
        raise self._error("the connection is down, reconnecting; check that the servers are running")

    def _place(self, path: str) -> str:
        """The path in ZooKeeper's tree of a path of the store, or of its root."""
        return (self._root or "/") if path == "/" else self._root + path

    def _error(self, text: str) -> StoreError:
        return StoreError(f"the metadata store at ZooKeeper {self._connect}: {text}")

    def _explained(self, error: Exception, and_so: str = "") -> StoreError:
        if isinstance(error, kazoo_errors.SessionExpiredError):
            return self._error(f"the session ended before the answer arrived{and_so}")
        if isinstance(error, kazoo_errors.ConnectionLoss):
            return self._error(f"the connection was lost before the answer arrived{and_so}")
        if isinstance(error, kazoo_errors.NoAuthError):
            return self._error(
                f"no permission{and_so}; give this broker the moldau.zookeeper.digest or key store of the others, or "
                "allow it in the access control lists of ZooKeeper"
            )
        if isinstance(error, kazoo_errors.UnimplementedError):
            return self._error("it is older than 3.6, which is needed for recursive watches; use a newer one")
        return self._error(f"it refused the request ({type(error).__name__}){and_so}; check its log")


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if result.exception is None:
        future.set_result(result.value)
    else:
        future.set_exception(result.exception)


def _node(answer: tuple[bytes | None, ZnodeStat]) -> StoredNode:
    value, stat = answer
    return StoredNode(value or b"", stat.version, stat.czxid, stat.ephemeralOwner != 0)


def _node_or_none(answer: tuple[bytes, ZnodeStat] | Exception) -> StoredNode | None:
    if isinstance(answer, kazoo_errors.NoNodeError):
        return None
    if isinstance(answer, Exception):
        raise answer
    return _node(answer)


def _ancestry(path: str) -> Iterator[str]:
    """`/a`, `/a/b` and `/a/b/c` for `/a/b/c`."""
    parts = path.split("/")[1:]
    for count in range(1, len(parts) + 1):
        yield "/" + "/".join(parts[:count])
