"""Errors of HTTP services: an exception with a status, and the JSON body that a service gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

ErrorBody = Callable[[int, str], Any]
"""The JSON value of an error's body, from its status and message. Services have their own shapes."""


class HttpError(Exception):
    """An error that is answered with this status and message."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})


def plain_error_body(status: int, message: str) -> dict[str, Any]:
    """The shape of Kafka Connect and of the schema registry."""
    return {"error_code": status, "message": message}
