"""Assembly of a broker from its settings, with the real files and clock or with those of a test."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from posixpath import join

from moldau.broker.broker import Broker, Host
from moldau.broker.connection.listener_security import ListenerSecurity
from moldau.cluster.sqlite_store import SqliteStore
from moldau.cluster.store import OpenStore
from moldau.host import boot
from moldau.host.clock import Clock, Randomness, SystemClock, SystemRandomness
from moldau.host.fs import FileSystem, LocalFileSystem
from moldau.host.reference_files import resolve_references
from moldau.host.threads import Threads
from moldau.log.dirs import LogDirs
from moldau.settings import BrokerSettings, SettingError

METADATA_FILE = "moldau-metadata.sqlite"
"""File in the first data directory, with the topics, their ids and settings, and the id of the cluster."""
IMPORTED_FILE = f"{METADATA_FILE}.imported"
"""Its name after its contents were imported into the store of a cluster."""


async def assemble(
    texts: Mapping[str, str],
    *,
    fs: FileSystem | None = None,
    clock: Clock | None = None,
    randomness: Randomness | None = None,
    threads: Threads | None = None,
    boot_id: str | None = None,
    open_store: OpenStore | None = None,
) -> Broker:
    """A broker that is ready to `start`. Without `open_store`, its metadata is in the store of `zookeeper.connect`.

    Raises SettingError, LogError or OSError, each with a message for the user. `start` raises these and StoreError.
    """
    settings = BrokerSettings(resolve_references(texts))
    for listener in settings.listener_plan().bound:  # report errors in the settings before the disk is touched
        ListenerSecurity(listener.name, listener.protocol).check(settings)
    clock = clock or SystemClock()
    randomness = randomness or SystemRandomness()
    fs = fs or LocalFileSystem()
    threads = threads or Threads(settings["moldau.threads"])
    boot_id = boot_id if boot_id is not None else boot.boot_id()
    paths = settings.log_dirs
    dirs = LogDirs(list(paths), fs, clock, randomness)
    try:
        settings = settings.with_node_id(dirs.open(settings.node_id))
        if open_store is None:
            open_store = _store(settings, paths[0], fs, threads)
        return Broker(settings, Host(clock, randomness, threads, boot_id), dirs, open_store)
    except BaseException:
        dirs.release()
        await threads.close()
        raise


def _store(settings: BrokerSettings, directory: str, fs: FileSystem, threads: Threads) -> OpenStore:
    """ZooKeeper if the settings name one, otherwise a file in the directory. Refuses to start with the other store than
    before, because all topics would seem to be deleted."""
    connect: str | None = settings["zookeeper.connect"]
    path = join(directory, METADATA_FILE)
    if not connect:
        if fs.exists(join(directory, IMPORTED_FILE)):
            raise SettingError(
                "zookeeper.connect",
                f"is needed: {directory} was imported into a cluster, whose ZooKeeper has its topics",
            )
        return partial(SqliteStore.open, path, threads)
    if fs.exists(path):
        raise SettingError(
            "zookeeper.connect",
            f"{directory} has the metadata of a broker that was alone; take it into the cluster first: "
            f"moldau cluster import --data {directory} --zookeeper {connect}",
        )
    return open_zookeeper(settings)


def open_zookeeper(settings: BrokerSettings) -> OpenStore:
    """Open sessions with the ensemble of `zookeeper.connect`."""
    try:
        from moldau.cluster.zookeeper_security import zookeeper_security
        from moldau.cluster.zookeeper_store import ZookeeperStore
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("kazoo"):
            raise
        raise SettingError(
            "zookeeper.connect",
            "needs kazoo, ZooKeeper's client, which is not installed: pip install 'moldau[cluster]'",
        ) from None
    session_timeout_ms: int = settings["zookeeper.session.timeout.ms"]
    connection_timeout_ms: int | None = settings["zookeeper.connection.timeout.ms"]
    return partial(
        ZookeeperStore.open,
        settings["zookeeper.connect"],
        session_timeout_s=session_timeout_ms / 1000,
        connection_timeout_s=(connection_timeout_ms or session_timeout_ms) / 1000,
        security=zookeeper_security(settings),
    )
