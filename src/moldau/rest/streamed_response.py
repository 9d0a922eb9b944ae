"""Streamed response: pieces of bytes that a generator makes, for as long as it and the client want.

Unlike Starlette's, it leaves the request's body to the generator, and gives up a client that takes nothing for
`SEND_TIMEOUT_S`. With `watch` it ends as soon as the client is gone, also between two pieces.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

SEND_TIMEOUT_S: Final = 30.0


class StreamedResponse(Response):
    """A response whose body the generator makes. The generator is always closed."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes],
        media_type: str,
        headers: Mapping[str, str] | None = None,
        *,
        watch: bool = False,
    ) -> None:
        self._pieces = pieces
        self._watch = watch
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.body = b""
        self.init_headers({"Cache-Control": "no-store", **(headers or {})})
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.get_running_loop().create_task(self._send_all(send), name="REST proxy: response")
        gone = (
            asyncio.get_running_loop().create_task(_gone(receive), name="REST proxy: client") if self._watch else None
        )
        try:
            await asyncio.wait([sending, *([gone] if gone else [])], return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, gone):
                if task is not None and not task.done():
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
            await self._pieces.aclose()

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for piece in self._pieces:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
