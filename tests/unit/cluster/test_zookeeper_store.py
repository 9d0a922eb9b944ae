"""ZooKeeper store: servers that die and return, sessions that end, addresses."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.broker.assembly import open_zookeeper
from moldau.cli.zookeeper.server import ZooKeeperEnsemble
from moldau.cluster import kazoo_session, zookeeper_store
from moldau.cluster.kazoo_session import KazooSession
from moldau.cluster.store import (
    MAX_VALUE_BYTES,
    Check,
    Conflict,
    Create,
    Event,
    EventKind,
    SessionEvent,
    Set,
    Store,
    StoreError,
)
from moldau.cluster.zookeeper_store import ZookeeperStore
from moldau.settings import BrokerSettings, SettingError
from tests.support.waiting import loop_turns, wait_until_async
from tests.unit.cluster.support import ZookeeperEngine, run

pytestmark = pytest.mark.needs_java

TOPICS = 2_000


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    """A server that tests may kill, and must start again."""
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("mortal")) as ensemble:
        yield ensemble


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    assert [one.name for one in threading.enumerate() if one.name == "moldau-zookeeper"] == []


def told(store: Store) -> asyncio.Queue[SessionEvent]:
    """The events of the session, in order."""
    events: asyncio.Queue[SessionEvent] = asyncio.Queue()
    store.on_session(events.put_nowait)
    return events


def start_again(ensemble: ZooKeeperEnsemble) -> None:
    ensemble.servers[0].launch()
    ensemble.wait_until_serving()


def freeze(ensemble: ZooKeeperEnsemble) -> None:
    """Pause the server, and return when it has stopped, which is a little after the signal."""
    os.kill(ensemble.servers[0].child.pid, signal.SIGSTOP)
    os.waitpid(ensemble.servers[0].child.pid, os.WUNTRACED)


def test_a_session_survives_the_death_of_its_server(mortal: ZooKeeperEnsemble) -> None:
    async def scenario() -> None:
        engine = ZookeeperEngine(mortal.connect)
        store = await engine.open()
        await store.commit([Create("/e", b"mine", ephemeral=True), Create("/kept", b"1")])
        session, before = told(store), await store.get("/e")
        heard: asyncio.Queue[Event] = asyncio.Queue()
        store.watch("/", heard.put_nowait)

        mortal.servers[0].kill()
        assert await session.get() is SessionEvent.SUSPENDED
        with pytest.raises(StoreError, match=f"{mortal.connect}.* the connection is down"):
            await store.get("/kept")
        with pytest.raises(StoreError, match="the connection is down"):
            await store.commit([Set("/kept", b"2")])
        start_again(mortal)
        assert await session.get() is SessionEvent.RESUMED

        await store.sync()
        assert await store.get("/e") == before, "an ephemeral node must exist as long as its session"
        # The watch was set again before RESUMED, so that a change right after it is reported.
        other = await engine.open()
        await other.commit([Set("/kept", b"3", 0)])
        assert await heard.get() == Event(EventKind.CHANGED, "/kept")
        await other.close()
        await store.close()
        assert session.empty()

    run(scenario())


def test_a_commit_whose_server_dies_before_the_answer_is_uncertain(mortal: ZooKeeperEnsemble) -> None:
    async def scenario() -> None:
        store = await ZookeeperEngine(mortal.connect).open()
        session = told(store)
        freeze(mortal)
        commit = asyncio.ensure_future(store.commit([Create("/perhaps", b"")]))
        await loop_turns()
        mortal.servers[0].kill()
        with pytest.raises(StoreError, match="may or may not have happened") as raised:
            await commit
        assert not isinstance(raised.value, Conflict)
        start_again(mortal)
        assert [await session.get(), await session.get()] == [SessionEvent.SUSPENDED, SessionEvent.RESUMED]
        await store.ensure(["/perhaps"])  # either result is possible
        await store.close()

    run(scenario())


def test_a_session_ended_from_outside_is_expired_and_its_store_is_closed(zookeeper: ZooKeeperEnsemble) -> None:
    async def scenario() -> None:
        engine = ZookeeperEngine(zookeeper.connect)
        store, witness = await engine.open(), await engine.open()
        await store.commit([Create("/e", b"", ephemeral=True)])
        session = told(store)
        gone: asyncio.Queue[Event] = asyncio.Queue()
        await witness.sync()  # the creation may still be in flight
        witness.watch("/e", gone.put_nowait)

        await end_session_of(store, zookeeper)
        seen = [await session.get()]
        while seen[-1] is not SessionEvent.EXPIRED:
            if seen[-1] is SessionEvent.RESUMED:  # it reconnected before it could be ended
                await end_session_of(store, zookeeper)
            seen.append(await session.get())
        assert seen[0] is SessionEvent.SUSPENDED
        assert await gone.get() == Event(EventKind.DELETED, "/e")
        for attempt in (store.get("/e"), store.commit([Create("/e", b"")]), store.sync()):
            with pytest.raises(StoreError, match="this session has expired"):
                await attempt
        await store.close()
        await witness.close()
        assert session.empty(), "an ended session must not continue"

    run(scenario())


async def end_session_of(store: ZookeeperStore, ensemble: ZooKeeperEnsemble) -> None:
    """Take the session over with its id and password, and close it, as if it had timed out."""
    connected = asyncio.Event()
    server = ensemble.servers[0]
    thief = KazooSession(
        [(server.host, server.port)], 10.0, heard=lambda *_: None, state_changed=lambda _state: connected.set()
    )
    thief._session_id, thief._session_passwd = store._session.client_id
    thief.begin()
    await connected.wait()
    assert await thief.end(10.0)


def test_two_thousand_nodes_are_read_in_a_few_messages(
    zookeeper: ZooKeeperEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        store = await ZookeeperEngine(zookeeper.connect).open()
        await store.ensure(["/topics"])
        names = [f"topic-{number:05}" for number in range(TOPICS)]
        for start in range(0, TOPICS, 500):
            await store.commit([Create(f"/topics/{name}", name.encode() * 20) for name in names[start : start + 500]])
        messages = 0
        send = store._session._call

        def counted(request: object, result: object) -> object:
            nonlocal messages
            messages += 1
            return send(request, result)

        monkeypatch.setattr(store._session, "_call", counted)
        began = time.monotonic()
        nodes = await store.read_children("/topics")
        took_s = time.monotonic() - began
        assert list(nodes) == names
        assert all(node.value == name.encode() * 20 for name, node in nodes.items())
        assert messages <= 1 + TOPICS / zookeeper_store.PATHS_A_MESSAGE
        assert took_s < 2.0, "reading took too long; on an idle machine it takes 20 ms"
        each = await store.get_each([f"/topics/{names[7]}", "/topics/none", f"/topics/{names[3]}"])
        assert each == [nodes[names[7]], None, nodes[names[3]]]
        await store.close()

    run(scenario())


def test_a_commit_that_zookeeper_would_not_take_is_refused_before_it_costs_the_connection(
    zookeeper: ZooKeeperEnsemble,
) -> None:
    async def scenario() -> None:
        store = await ZookeeperEngine(zookeeper.connect).open()
        session = told(store)
        half = bytes(MAX_VALUE_BYTES // 2)
        with pytest.raises(StoreError, match=r"1048575 \(jute.maxbuffer\); nothing was changed"):
            await store.commit([Create(f"/{name}", half) for name in "abc"])
        await store.commit([Create(f"/{name}", half) for name in "ab"])
        assert await store.children("/") == ["a", "b"]
        await store.close()
        assert session.empty()

    run(scenario())


def test_the_chroot_is_made_and_hides_everything_else(zookeeper: ZooKeeperEnsemble) -> None:
    async def scenario() -> None:
        engine = ZookeeperEngine(zookeeper.connect)
        deep, deeper = ZookeeperEngine(engine.connect), ZookeeperEngine(engine.connect)
        one, two, above = await deep.open(), await deeper.open(), await engine.open()
        heard: list[Event] = []
        one.watch("/", heard.append)
        await two.commit([Create("/other", b"")])
        await one.commit([Create("/own", b"")])
        assert heard == [Event(EventKind.CREATED, "/own")]
        assert await one.children("/") == ["own"]
        assert await above.children("/") == sorted(one.connect.rpartition("/")[2] for one in (deep, deeper))
        whole = await ZookeeperStore.open(zookeeper.connect, session_timeout_s=10, connection_timeout_s=10)
        assert "zookeeper" not in await whole.children("/")
        for store in (one, two, above, whole):
            await store.close()

    run(scenario())


def test_the_session_time_out_is_the_one_that_the_server_granted(zookeeper: ZooKeeperEnsemble) -> None:
    async def scenario() -> None:
        engine = ZookeeperEngine(zookeeper.connect)
        granted = []
        for wanted_s in (0.01, 3.0):
            store = await engine.open(wanted_s)
            granted.append(store.session_timeout_s)
            await store.close()
        assert granted == [0.5, 3.0]

    run(scenario())


def test_a_session_that_asks_for_nothing_knows_when_it_was_last_in_touch(zookeeper: ZooKeeperEnsemble) -> None:
    async def scenario() -> None:
        began = asyncio.get_running_loop().time()
        store = await ZookeeperEngine(zookeeper.connect).open(1.0)
        opened = store.last_contact
        assert began <= opened <= asyncio.get_running_loop().time()
        await wait_until_async(lambda: store.last_contact > opened)  # pings are answered
        await store.sync()
        assert store.last_contact <= asyncio.get_running_loop().time()
        await store.close()

    run(scenario())


def test_the_error_of_an_unreachable_ensemble_names_it_and_what_to_do() -> None:
    async def scenario(connect: str) -> None:
        with pytest.raises(
            StoreError, match=rf"ZooKeeper {connect}: no server answers within 0.3 s; .*moldau zookeeper"
        ):
            await ZookeeperStore.open(connect, session_timeout_s=5, connection_timeout_s=0.3)

    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and sends nothing
        run(scenario(f"127.0.0.1:{silent.getsockname()[1]}/chroot"))
    run(scenario("127.0.0.1:1"))


def test_a_server_that_takes_a_connection_and_never_answers_does_not_cost_the_session(
    zookeeper: ZooKeeperEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server that is still starting does. The second attempt finds it ready."""
    monkeypatch.setattr(kazoo_session, "HANDSHAKE_SHARE", 0.01)
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        if connections == 1:
            await reader.read()  # until the client closes the connection
        else:
            there, out = await asyncio.open_connection(zookeeper.servers[0].host, zookeeper.servers[0].port)
            await asyncio.gather(pass_on(reader, out), pass_on(there, writer))
        writer.close()

    async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                target.write(data)
        except ConnectionError:
            pass
        target.close()

    async def scenario() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as proxy:
            port = proxy.sockets[0].getsockname()[1]
            store = await ZookeeperStore.open(
                f"127.0.0.1:{port}/proxied", session_timeout_s=60, connection_timeout_s=30
            )
            await store.ensure(["/a"])
            await store.close()
        assert connections == 2

    run(scenario())


def test_malformed_ensemble_addresses_are_refused() -> None:
    async def scenario() -> None:
        with pytest.raises(StoreError, match="write HOST:PORT,HOST:PORT/CHROOT"):
            await ZookeeperStore.open("host:port", session_timeout_s=5, connection_timeout_s=1)

    run(scenario())


def test_a_store_can_be_closed_while_its_server_is_frozen(
    mortal: ZooKeeperEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_store, "CLOSE_GRACE_S", 0.2)

    async def scenario() -> None:
        store = await ZookeeperEngine(mortal.connect).open()
        freeze(mortal)
        try:
            reading = asyncio.ensure_future(store.get("/a"))
            await loop_turns()
            await store.close()
            with pytest.raises(StoreError, match="before the answer arrived"):
                await reading
        finally:
            mortal.servers[0].child.process.send_signal(signal.SIGCONT)

    run(scenario())


def test_a_check_in_a_commit_fences_another_session(zookeeper: ZooKeeperEnsemble) -> None:
    async def scenario() -> None:
        engine = ZookeeperEngine(zookeeper.connect)
        old, new = await engine.open(), await engine.open()
        await old.commit([Create("/epoch", b"1"), Create("/state", b"old")])
        await new.commit([Set("/epoch", b"2", 0)])
        with pytest.raises(Conflict) as conflict:
            await old.commit([Set("/state", b"stale"), Check("/epoch", 0), Set("/state", b"later")])
        assert conflict.value.path == "/epoch"
        await old.sync()
        node = await old.get("/state")
        assert node is not None
        assert node.value == b"old"
        await old.close()
        await new.close()

    run(scenario())


def test_a_session_whose_loop_was_closed_under_it_ends_its_thread(zookeeper: ZooKeeperEnsemble) -> None:
    engine = ZookeeperEngine(zookeeper.connect)
    loop = asyncio.new_event_loop()
    store = loop.run_until_complete(engine.open())
    loop.close()

    async def make_an_event() -> None:
        other = await engine.open()
        await other.commit([Create("/event", b"")])
        await other.close()

    run(make_an_event())
    thread = store._session.handler._thread
    assert thread is not None
    thread.join(20)
    assert not thread.is_alive()
    store._session.handler.close()
    store._session.close()


def test_without_kazoo_the_broker_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in [name for name in sys.modules if name.startswith("kazoo")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "kazoo", None)
    for module in ("zookeeper_store", "kazoo_session"):
        monkeypatch.delitem(sys.modules, f"moldau.cluster.{module}")
    settings = BrokerSettings({"zookeeper.connect": "127.0.0.1:2181", "log.dirs": str(tmp_path)})
    with pytest.raises(SettingError, match=r"pip install 'moldau\[cluster\]'"):
        open_zookeeper(settings)
