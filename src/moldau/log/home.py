"""The data directory as a log sees it: where its files are, and whom to tell when the disk fails.

`dirs.LogDir` is the one that a broker uses; tests may do with this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from moldau.host.clock import Randomness, SystemRandomness
from moldau.host.fs import FileChanged, FileSystem, TornFile
from moldau.host.threads import Lock
from moldau.log.errors import DISK_FULL, DirectoryOffline, StorageError
from moldau.log.index import IndexCache
from moldau.log.names import PartitionName

logger = logging.getLogger(__name__)


class Resident(Protocol):
    """A log that lives in the directory."""

    def refuse(self) -> None: ...


class Home:
    """One data directory."""

    def __init__(
        self,
        path: str,
        fs: FileSystem,
        *,
        index_cache: IndexCache | None = None,
        randomness: Randomness | None = None,
        on_failure: Callable[[Home], None] | None = None,
    ) -> None:
        self.path = path
        self.fs = fs
        self.index_cache = index_cache if index_cache is not None else IndexCache()
        self.randomness = randomness if randomness is not None else SystemRandomness()
        self.opening = Lock()
        """Held while a log that was left closed is opened: a reading thread and the loop may both find it so."""
        self.residents: dict[PartitionName, Resident] = {}
        self.failure: str | None = None
        """Why the directory is offline."""
        self.disk_failed_before = False
        """An earlier process met a failing disk here, and nobody has looked after what it left: see `recover`."""
        self._on_failure = on_failure

    def failed(self, error: OSError, doing: str, *, fatal: bool | None = None) -> StorageError:
        """Judges an error of the disk and returns what to raise; one that will not pass takes the directory offline.

        A full disk passes. A file that somebody changed or removed is trouble of one log, not of the directory. A
        failed fsync is fatal whatever its number says: the caller sets `fatal`. May be called from any thread, and
        tells the listener in that thread.
        """
        if fatal is None:
            fatal = isinstance(error, TornFile) or not (
                error.errno in DISK_FULL or isinstance(error, FileChanged | FileNotFoundError)
            )
        message = f"{doing}: {error.strerror or error}"
        if not fatal:
            logger.warning("%s", message)
            return StorageError(message, fatal=False)
        self.go_offline(message)
        return DirectoryOffline(message)

    def go_offline(self, why: str) -> None:
        """All logs in the directory refuse from now on."""
        if self.failure is not None:
            return
        self.failure = why
        logger.error("the data directory %s goes offline: %s", self.path, why)
        for resident in list(self.residents.values()):
            resident.refuse()
        if self._on_failure is not None:
            self._on_failure(self)

    def check(self) -> None:
        """DirectoryOffline where it is."""
        if self.failure is not None:
            raise DirectoryOffline(f"the data directory {self.path} is offline: {self.failure}")

    def save_checkpoints(self) -> None:
        """A recovery point or a start offset was lowered: the files must say so before the log grows again."""

    def doom(self, paths: list[str], delay_ms: int) -> None:
        """Files that nobody needs any more, to be removed when `delay_ms` have passed. Here: at once."""
        for path in paths:
            self.fs.remove(path, missing_ok=True)
