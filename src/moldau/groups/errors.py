"""Error of the group coordinator that refuses a request."""

from __future__ import annotations

from moldau.wire.errors import ErrorCode


class GroupRequestError(Exception):
    """A refused request: nothing is stored. The client gets the code, and the message if the response has a field."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
