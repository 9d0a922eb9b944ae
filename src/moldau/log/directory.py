"""Data directory as seen by a log: paths, shared caches, and the handling of disk errors.

A broker uses the subclass `log_dir.LogDir`; tests may use `LogDirectory` directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from moldau.host.clock import Randomness, SystemRandomness
from moldau.host.event_log import event_logger
from moldau.host.fs import FileChanged, FileSystem, TornFile
from moldau.host.threads import Lock
from moldau.log.errors import DISK_FULL, DirectoryOffline, StorageError
from moldau.log.index import IndexCache
from moldau.wire.topic_partition import TopicPartition

logger = event_logger(__name__)


class HostedLog(Protocol):
    """A log in the directory."""

    def refuse(self) -> None: ...


class LogDirectory:
    """One data directory."""

    def __init__(
        self,
        path: str,
        fs: FileSystem,
        *,
        index_cache: IndexCache | None = None,
        randomness: Randomness | None = None,
        on_failure: Callable[[LogDirectory], None] | None = None,
    ) -> None:
        self.path = path
        self.fs = fs
        self.index_cache = index_cache if index_cache is not None else IndexCache()
        self.randomness = randomness if randomness is not None else SystemRandomness()
        self.opening = Lock()
        """Held while a cold log is opened, because a reading thread and the event loop may try it at the same time."""
        self.hosted_logs: dict[TopicPartition, HostedLog] = {}
        self.failure: str | None = None
        """The reason why the directory is offline."""
        self.disk_failed_before = False
        """An earlier process met a disk error here, and its unsynced files are not yet rewritten: see `recover`."""
        self._on_failure = on_failure

    def failed(self, error: OSError, doing: str, *, fatal: bool | None = None) -> StorageError:
        """Classify a disk error and return the exception to raise; a fatal one takes the directory offline.

        A full disk is not fatal. A file that another program changed or removed affects one log, not the directory. A
        failed fsync is fatal whatever its errno: the caller sets `fatal`. May be called from any thread; the failure
        listener runs in that thread.
        """
        if fatal is None:
            fatal = isinstance(error, TornFile) or not (
                error.errno in DISK_FULL or isinstance(error, FileChanged | FileNotFoundError)
            )
        message = f"{doing}: {error.strerror or error}"
        if not fatal:
            logger.warning("disk operation failed", extra={"directory": self.path, "reason": message})
            return StorageError(message, fatal=False)
        self.go_offline(message)
        return DirectoryOffline(message)

    def go_offline(self, why: str) -> None:
        """Take the directory offline: all its logs refuse every operation from now on."""
        if self.failure is not None:
            return
        self.failure = why
        logger.error("data directory goes offline", extra={"directory": self.path, "reason": why})
        for resident in list(self.hosted_logs.values()):
            resident.refuse()
        if self._on_failure is not None:
            self._on_failure(self)

    def check(self) -> None:
        """DirectoryOffline if the directory is offline."""
        if self.failure is not None:
            raise DirectoryOffline(f"the data directory {self.path} is offline: {self.failure}")

    def save_checkpoints(self) -> None:
        """Save the checkpoints after a recovery point or start offset was lowered, before the log grows again."""

    def delete_later(self, paths: list[str], delay_ms: int) -> None:
        """Delete obsolete files after `delay_ms`. This base class deletes them at once."""
        for path in paths:
            self.fs.remove(path, missing_ok=True)
