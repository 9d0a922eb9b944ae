"""Putting a broker together from its settings: on this machine's files and clock, or on those a test hands in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from posixpath import join

from moldau.broker.broker import Broker, Host
from moldau.cluster.sqlite_store import SqliteStore
from moldau.cluster.store import OpenStore
from moldau.host import machine
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
    threads: Threads | None = None,
    boot_id: str | None = None,
    open_store: OpenStore | None = None,
) -> Broker:
    """A broker that is ready to `start`, its metadata in a file of the first data directory unless a store is given.

    Raises SettingError, LogError or OSError, each with a text for people; so does `start`, and StoreError.
    """
    settings = BrokerSettings(texts)
    settings.listener_plan()  # whatever is wrong with the settings is said before the disk is touched
    clock = clock or SystemClock()
    randomness = randomness or SystemRandomness()
    fs = fs or LocalFileSystem()
    threads = threads or Threads(settings["moldau.threads"])
    boot_id = boot_id if boot_id is not None else machine.boot_id()
    paths = settings.log_dirs
    dirs = LogDirs(list(paths), fs, clock, randomness)
    try:
        settings = settings.with_node_id(dirs.open(settings.node_id))
        if open_store is None:
            open_store = partial(SqliteStore.open, join(paths[0], METADATA_FILE), threads)
        return Broker(settings, Host(clock, randomness, threads, boot_id), dirs, open_store)
    except BaseException:
        dirs.release()
        await threads.close()
        raise
