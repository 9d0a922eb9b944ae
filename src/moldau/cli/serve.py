"""Main function of a broker process: signals, exit codes, and one-line errors."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from moldau.broker.assembly import assemble
from moldau.broker.broker import Broker
from moldau.cli.ports import who_listens
from moldau.cluster.store import StoreError
from moldau.host.memory import keep_freed_buffers
from moldau.log.errors import LogError
from moldau.settings.setting import SettingError

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_INTERRUPTED = 130

GARBAGE_COLLECTION_EVERY = 50_000
"""The number of allocations between two garbage collections. With Python's default of 700, the collector would traverse
the requests of 5,000 waiting clients again and again, and almost none of them are cyclic garbage."""


def serve(
    texts: Mapping[str, str],
    ready: Callable[[Broker], None] | None = None,
    before_stop: Callable[[], object] | None = None,
) -> int:
    """Run a broker with these settings until a signal stops it, and return the exit code.

    `before_stop` ends what needs the broker, in a thread, while the broker still serves.
    """
    keep_freed_buffers()
    try:
        return _new_loop_run(_serve(texts, ready, before_stop))
    except (SettingError, StoreError, LogError) as error:
        return fail(str(error))
    except OSError as error:
        return fail(describe(error))


def fail(message: str) -> int:
    print(f"moldau: {message}", file=sys.stderr)
    return EXIT_ERROR


def describe(error: OSError) -> str:
    """The message for an error of the operating system, with advice if possible."""
    what = error.filename or ""
    if error.errno == errno.EADDRINUSE:
        host, _, port = what.rpartition(":")
        who = who_listens(host.strip("[]"), int(port)) if port.isdigit() else "another program listens there"
        return f"cannot listen on {what or 'the port'}: {who}; or choose another port"
    if error.errno == errno.ENOSPC:
        return f"no space left on the disk: {what or error}"
    if error.errno in (errno.EROFS, errno.EACCES):
        return f"cannot write to {what or 'the data directory'}: {error.strerror}"
    return f"{what}: {error.strerror}" if what and error.strerror else str(error)


def _new_loop_run(main: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop
    except ImportError:  # a platform without uvloop: everything works, but slower
        return asyncio.run(main)
    return uvloop.run(main)


async def _serve(
    texts: Mapping[str, str], ready: Callable[[Broker], None] | None, before_stop: Callable[[], object] | None
) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(
                EXIT_INTERRUPTED
            )  # second signal: the data is safe without a clean stop, only the next start is slower
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    broker = await assemble(texts)
    try:
        await broker.start()
    except BaseException:
        await broker.abandon()
        raise
    freeze_existing_objects()
    if ready is not None:
        ready(broker)
    await stop.wait()
    if before_stop is not None:
        await asyncio.to_thread(before_stop)
    await broker.stop()
    return EXIT_OK


def freeze_existing_objects() -> None:
    """Exclude all existing objects from garbage collection: they live as long as this process, and traversing ten
    thousand partitions at each collection is slow."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_COLLECTION_EVERY, *gc.get_threshold()[1:])
