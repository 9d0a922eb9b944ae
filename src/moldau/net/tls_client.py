"""TLS of a client's connections: one context for all of them, and another one after its files have changed.

Certificates are replaced while a client runs: each new connection uses the files as they are then. Files that cannot be
used, for example because somebody is just writing them, leave the former context in use.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable

from moldau.host.event_log import event_logger
from moldau.host.file_stamps import FileStamps, file_stamps
from moldau.net.tls_context import client_context
from moldau.net.tls_settings import TlsSettings
from moldau.settings.setting import SettingError

log = event_logger(__name__)

RunContext = Callable[[Callable[[], ssl.SSLContext]], Awaitable[ssl.SSLContext]]
"""Runs a function in a thread."""


class ClientTls:
    """The TLS context of all connections of a client or broker."""

    def __init__(self, settings: TlsSettings, run: RunContext) -> None:
        self.settings = settings
        self._run = run
        self._context: ssl.SSLContext | None = None
        self._files: FileStamps = ()

    async def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. Raises SettingError if there was never one."""
        files = file_stamps(self.settings.files)
        if self._context is not None and files == self._files:
            return self._context
        try:
            context = await self._run(lambda: client_context(self.settings))
        except SettingError as error:
            if self._context is None:
                raise
            log.warning("changed TLS files cannot be used, the former ones stay in use", extra={"reason": str(error)})
        else:
            self._context = context
        self._files = files  # also after a failure: the warning comes once for each change
        return self._context
