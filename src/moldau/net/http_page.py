"""Minimal HTTP server for a single page, such as metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from moldau.host.event_log import event_logger

log = event_logger(__name__)

MAX_REQUEST_BYTES = 8192
TIMEOUT_S = 10.0


async def serve_page(host: str, port: int, content_type: str, render: Callable[[], bytes]) -> asyncio.Server:
    """Answer every request on host:port with the result of `render`. OSError if the address is in use."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await reader.readuntil(b"\r\n\r\n")
                page = render()
                head = (
                    f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n"
                    f"Content-Length: {len(page)}\r\nConnection: close\r\n\r\n"
                )
                writer.write(head.encode() + page)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.info("page request dropped", extra={"reason": str(error) or type(error).__name__})
        finally:
            writer.close()

    try:
        return await asyncio.start_server(answer, host, port, limit=MAX_REQUEST_BYTES)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
