"""Command `moldau cluster import`: turns a single broker into the first broker of a cluster.

The command copies its metadata from the file in its data directory to ZooKeeper: topics with their ids and settings,
the cluster id, and the next producer id. Records, committed offsets and transactions are in its logs, which stay where
they are. The broker must not be running.
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
        str,
        typer.Option(metavar="HOST:PORT,.../CHROOT", help=("The ensemble of the new cluster. The path must be empty.")),
    ],
    data: Annotated[Path, typer.Option(help="The data directory of the broker; the first one, if it has several.")],
) -> None:
    """Turn a single broker into the first broker of a cluster, with its topics, offsets, transactions and settings.

    The broker must be stopped. If the command is interrupted, run it again. Example: moldau cluster import --data
    moldau-data --zookeeper localhost:2181/moldau
    """
    from moldau.cli.serve import EXIT_OK, describe, fail

    if not zookeeper.strip():
        usage_error("--zookeeper: no server is given; write HOST:PORT,HOST:PORT/CHROOT")
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
    """The reason why nothing was done, as a message for the user."""


async def _import(data: Path, zookeeper: str) -> None:
    from moldau.broker.assembly import IMPORTED_FILE, METADATA_FILE, open_zookeeper
    from moldau.cluster.tree_import import import_tree, require_done
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
            raise _Refused(
                f"{data} belongs to a broker that was always part of a cluster: start it with the --zookeeper of that "
                "cluster"
            )
        raise _Refused(
            f"{data} has no metadata of a broker ({METADATA_FILE}); give --data the directory that the broker was "
            "started with"
        )
    threads = Threads()
    if not metadata.exists():
        try:
            await _between(imported, zookeeper, open_store, threads, require_done)
        finally:
            await threads.close()
        print(f"{data} has already been imported; nothing to do")
        return
    dirs = LogDirs([str(data)], LocalFileSystem(), SystemClock(), SystemRandomness())
    try:
        node_id = dirs.open()  # also locks the directory, so that no broker can start; fails if one is running
        try:
            done = await _between(metadata, zookeeper, open_store, threads, import_tree)
            metadata.rename(imported)
            LocalFileSystem().sync_dir(str(data))
        finally:
            dirs.release()
    finally:
        await threads.close()
    print(f"imported broker {node_id}: cluster {done.cluster_id}, {done.topics} topics; its old metadata is {imported}")
    print(f"  start   moldau broker --data {data} --zookeeper {zookeeper} --listen HOST:PORT")
    if done.already:
        complain("the metadata was already in ZooKeeper: an earlier import had completed that step")


async def _between(
    metadata: Path,
    zookeeper: str,
    open_store: OpenStore,
    threads: Threads,
    work: Callable[[Store, Store], Coroutine[Any, Any, T]],
) -> T:
    """Run `work` with the broker's own store and the cluster's store."""
    from moldau.cluster.sqlite_store import SqliteStore
    from moldau.cluster.tree_import import TreeImportRefused

    source = await SqliteStore.open(str(metadata), threads)
    try:
        target = await open_store()
        try:
            return await work(source, target)
        except TreeImportRefused as refused:
            raise _Refused(f"nothing was imported into {zookeeper}: {refused}") from None
        finally:
            await target.close()
    finally:
        await source.close()
