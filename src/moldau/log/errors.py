"""What a log refuses, each refusal with the code that a client is told.

`LogError` and its subclasses are answers, not accidents: a handler turns any of them into the error code and message
of its response.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from moldau.wire.errors import ErrorCode

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""The errors that pass when somebody makes room."""


class LogError(Exception):
    """An operation on a log that was refused or failed; `code` is what to tell the client."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class RejectedBatch(LogError):
    """A batch that breaks the rules of format or topic. `record_errors` names records (index in batch, reason)."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(code, message)
        self.record_errors = tuple(record_errors)


class OffsetOutOfRange(LogError):
    """Before the log's start or past its end."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message)


class StorageError(LogError):
    """The disk failed this operation. With `fatal` unset (a full disk) it may be tried again later."""

    def __init__(self, message: str, *, fatal: bool) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)
        self.fatal = fatal


class DirectoryOffline(StorageError):
    """The log's directory failed and takes part in nothing until the broker is started again."""

    def __init__(self, message: str) -> None:
        super().__init__(message, fatal=True)


class DamagedLog(LogError):
    """Bytes on disk that cannot be what was written. They are never served."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"damaged log {path} at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason
