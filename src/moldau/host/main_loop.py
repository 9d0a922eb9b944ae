"""Main loop of a service's process: the event loop, signals and exit codes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Final

EXIT_INTERRUPTED: Final = 130


def run_process(main: Callable[[asyncio.Event], Awaitable[int]]) -> int:
    """Run a service until it ends by itself or by a signal, and return the exit code.

    `main` gets an event that the first SIGINT or SIGTERM sets. A second signal ends the process at once.
    """

    async def run() -> int:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()

        def on_signal() -> None:
            if stop.is_set():
                os._exit(EXIT_INTERRUPTED)
            stop.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal)
        return await main(stop)

    try:
        import uvloop
    except ImportError:  # a platform without uvloop: everything works, but slower
        return asyncio.run(run())
    code: int = uvloop.run(run())
    return code
