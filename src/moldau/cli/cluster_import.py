"""`moldau cluster import`: a broker that was alone becomes the first of a cluster, with everything it has.

Its metadata goes from the file in its data directory into ZooKeeper: topics with their ids and settings, the cluster's
id, the numbers of producers. Records, committed offsets and transactions are in its logs, which stay where they are.
The broker must not be running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from moldau.cli.output import complain, usage_error

if TYPE_CHECKING:
    from moldau.cluster.store import OpenStore, Store
    from moldau.host.threads import Threads

T = TypeVar("T")


def import_broker(
    zookeeper: Annotated[
        str, typer.Option(metavar="HOST:PORT,.../CHROOT", help="The ensemble of the new cluster; nothing may be there.")
    ],
    data: Annotated[Path, typer.Option(help="The data directory of the broker; its first one, where it has several.")],
) -> None:
    """Make a broker that was alone the first of a cluster, with its topics, offsets, transactions and settings.

    The broker must be stopped. Interrupted, the command can be run again. Example: moldau cluster import --data
    moldau-data --zookeeper localhost:2181/moldau
    """
    from moldau.cli.serve import EXIT_OK, describe, fail

    if not zookeeper.strip():
        usage_error("--zookeeper: names no server; write HOST:PORT,HOST:PORT/CHROOT")
    from moldau.cluster.store import StoreError
    from moldau.log.errors import LogError
    from moldau.settings import SettingError

    try:
        asyncio.run(_import(data.absolute(), zookeeper))
    except (StoreError, LogError, SettingError, _Refused) as error:
        raise typer.Exit(fail(str(error))) from None
    except OSError as error:
        raise typer.Exit(fail(describe(error))) from None
    raise typer.Exit(EXIT_OK)


class _Refused(Exception):
    """Why nothing was done, for a person."""


async def _import(data: Path, zookeeper: str) -> None:
    from moldau.broker.assembly import IMPORTED_FILE, METADATA_FILE, open_zookeeper
    from moldau.cluster.transfer import require_done, transfer
    from moldau.host.clock import SystemClock, SystemRandomness
    from moldau.host.fs import LocalFileSystem
    from moldau.host.threads import Threads
    from moldau.log.checkpoints import META_PROPERTIES
    from moldau.log.dirs import LogDirs
    from moldau.settings import BrokerSettings

    metadata, imported = data / METADATA_FILE, data / IMPORTED_FILE
    settings = BrokerSettings({"log.dirs": str(data), "zookeeper.connect": zookeeper})
    open_store = open_zookeeper(settings)
    if not metadata.exists() and not imported.exists():
        if (data / META_PROPERTIES).exists():
            raise _Refused(f"{data} is of a broker that was never alone: start it in the cluster that it belongs to")
        raise _Refused(
            f"{data} has no metadata of a broker ({METADATA_FILE}); --data is the directory it is started with"
        )
    threads = Threads()
    if not metadata.exists():
        try:
            await _between(imported, zookeeper, open_store, threads, require_done)
        finally:
            await threads.close()
        print(f"{data} was imported before; nothing is left to do")
        return
    dirs = LogDirs([str(data)], LocalFileSystem(), SystemClock(), SystemRandomness())
    try:
        node_id = dirs.open()  # and keeps a broker from starting meanwhile; one that runs is told
        try:
            done = await _between(metadata, zookeeper, open_store, threads, transfer)
            metadata.rename(imported)
            LocalFileSystem().sync_dir(str(data))
        finally:
            dirs.release()
    finally:
        await threads.close()
    print(f"imported broker {node_id}: cluster {done.cluster_id}, {done.topics} topics; its old metadata is {imported}")
    print(f"  start   moldau broker --data {data} --zookeeper {zookeeper} --listen HOST:PORT")
    if done.already:
        complain("the metadata was in ZooKeeper already: an earlier import had come to its end there")


async def _between(
    metadata: Path,
    zookeeper: str,
    open_store: OpenStore,
    threads: Threads,
    work: Callable[[Store, Store], Coroutine[Any, Any, T]],
) -> T:
    """Does something with the broker's own store and the cluster's."""
    from moldau.cluster.sqlite_store import SqliteStore
    from moldau.cluster.transfer import TransferRefused

    source = await SqliteStore.open(str(metadata), threads)
    try:
        target = await open_store()
        try:
            return await work(source, target)
        except TransferRefused as refused:
            raise _Refused(f"nothing was imported into {zookeeper}: {refused}") from None
        finally:
            await target.close()
    finally:
        await source.close()
