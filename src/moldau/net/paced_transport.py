"""Paced writes to a TLS transport: at most a few hundred kilobytes at a time, and the rest waits here.

A TLS transport encrypts all that it gets at once, and passes it on to a TCP transport whose buffer it does not count.
So a peer that does not read would keep one large response after the other in memory that nobody sees, and a large
response would block the loop for the time of its encryption. Here the transport gets `CHUNK_BYTES` at a time, until it
says that it is full. What waits is counted in `get_write_buffer_size`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

CHUNK_BYTES: Final = 256 * 1024


class PacedTransport(asyncio.Transport):
    """Writes of a connection with TLS. `on_full` and `on_drained` are called in turns, as asyncio's flow control."""

    __slots__ = ("_full", "_on_drained", "_on_full", "_reported", "_size", "_transport", "_waiting")

    def __init__(
        self, transport: asyncio.Transport, on_full: Callable[[], None], on_drained: Callable[[], None]
    ) -> None:
        super().__init__()
        self._transport = transport
        self._on_full = on_full
        self._on_drained = on_drained
        self._waiting: deque[memoryview] = deque()
        self._size = 0
        self._full = False
        self._reported = False

    # -- writing ---------------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._waiting and not self._full and len(data) <= CHUNK_BYTES:
            self._transport.write(data)
            return
        self._waiting.append(memoryview(data))
        self._size += len(data)
        self._write_some()
        if self._waiting:
            self._report()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        for data in list_of_data:
            self.write(data)

    def transport_full(self) -> None:
        """The transport takes no more for now."""
        self._full = True
        self._report()

    def transport_drained(self) -> None:
        """The transport takes more."""
        self._full = False
        self._write_some()
        if not self._full and not self._waiting and self._reported:
            self._reported = False
            self._on_drained()

    def _write_some(self) -> None:
        while self._waiting and not self._full and not self._transport.is_closing():
            data = self._waiting[0]
            chunk = data[:CHUNK_BYTES]
            if len(chunk) == len(data):
                self._waiting.popleft()
            else:
                self._waiting[0] = data[CHUNK_BYTES:]
            self._size -= len(chunk)
            self._transport.write(chunk)  # may call `transport_full`

    def _report(self) -> None:
        if not self._reported:
            self._reported = True
            self._on_full()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size() + self._size

    # -- end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close after everything is sent. What waits is passed on at once: nothing more follows it."""
        while self._waiting and not self._transport.is_closing():
            self._transport.write(self._waiting.popleft())
        self._forget()
        self._transport.close()

    def abort(self) -> None:
        self._forget()
        self._transport.abort()

    def _forget(self) -> None:
        self._waiting.clear()
        self._size = 0

    # -- as the transport itself -------------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)
