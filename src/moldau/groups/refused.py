"""How a decision about a consumer group says no: from wherever it finds out, before anything was stored."""

from __future__ import annotations

from moldau.wire.errors import ErrorCode


class Refused(Exception):
    """Nothing changes, and the client is told why."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
