"""Putting a broker together from its settings: on this machine's files and clock, or on those a test hands in."""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import join

from moldau.broker.broker import Broker, Host
from moldau.cluster.sqlite_store import SqliteStore
from moldau.cluster.store import Store
from moldau.host.clock import Clock, Randomness, SystemClock, SystemRandomness
from moldau.host.fs import FileSystem, LocalFileSystem
from moldau.host.threads import Threads
from moldau.log.dirs import LogDirs
from moldau.settings import BrokerSettings

METADATA_FILE = "moldau-metadata.sqlite"
"""In the first data directory: topics, their ids and settings, the cluster's id."""


async def assemble(
    texts: Mapping[str, str],
    *,
    fs: FileSystem | None = None,
    clock: Clock | None = None,
    randomness: Randomness | None = None,
    store: Store | None = None,
) -> Broker:
    """A broker that is ready to `start`, its metadata in a file of the first data directory unless a store is given.

    Raises SettingError, StoreError, LogError or OSError, each with a text for people.
    """
    settings = BrokerSettings(texts)
    settings.listener_plan()  # whatever is wrong with the settings is said before the disk is touched
    clock = clock or SystemClock()
    randomness = randomness or SystemRandomness()
    fs = fs or LocalFileSystem()
    threads = Threads(settings["moldau.threads"])
    paths = settings.log_dirs
    dirs = LogDirs(list(paths), fs, clock, randomness)
    try:
        settings = settings.with_node_id(dirs.open(settings.node_id))
        if store is None:
            store = await SqliteStore.open(join(paths[0], METADATA_FILE), threads)
        try:
            return Broker(settings, Host(clock, randomness, threads), dirs, store)
        except BaseException:
            await store.close()
            raise
    except BaseException:
        dirs.release()
        await threads.close()
        raise
