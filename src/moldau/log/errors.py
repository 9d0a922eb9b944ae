"""Log errors, each with the error code for the client.

`LogError` and its subclasses are expected results, not bugs: a handler turns them into the error code and message of
its response.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from moldau.wire.errors import ErrorCode

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors that disappear when space is freed."""


class LogError(Exception):
    """A refused or failed operation on a log; `code` is the error code for the client."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class RejectedBatch(LogError):
    """A batch that breaks a rule of the format or topic. `record_errors`: (index in the batch, reason) of records."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(code, message)
        self.record_errors = tuple(record_errors)


class OffsetNotInLog(LogError):
    """An offset before the log start offset or after the log end offset."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message)


class StorageError(LogError):
    """The disk failed the operation. If `fatal` is not set (full disk), the caller may retry later."""

    def __init__(self, message: str, *, fatal: bool) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)
        self.fatal = fatal


class DirectoryOffline(StorageError):
    """The log's data directory failed; it stays offline until the broker restarts."""

    def __init__(self, message: str) -> None:
        super().__init__(message, fatal=True)


class DamagedLog(LogError):
    """Bytes on disk that differ from what was written. They are never served."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"damaged log {path} at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason

    @property
    def facts(self) -> dict[str, object]:
        """The fields of a log event about this damage."""
        return {"path": self.path, "position": self.position, "reason": self.reason}
