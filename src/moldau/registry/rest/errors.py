"""Errors of the REST API: status, the registry's own code, and message."""

from __future__ import annotations

from typing import Any, Final

PHRASES: Final = {
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    415: "Unsupported Media Type",
}


class ApiError(Exception):
    """An error that REST finds itself, such as a body that is not JSON."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def http_error(status: int) -> ApiError:
    return ApiError(status, status, f"HTTP {status} {PHRASES[status]}")


def not_found() -> ApiError:
    """No such path, or a number in it that is none."""
    return http_error(404)


def error_body(status: int, message: str) -> dict[str, Any]:
    """The body of errors that the web application finds, for `service_app`."""
    return {"error_code": status, "message": f"HTTP {status} {message}" if message == PHRASES.get(status) else message}
