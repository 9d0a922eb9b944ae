"""Client of the Connect REST API for commands: address, login, TLS, and one-line errors."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self
from urllib.parse import quote

import typer

from moldau.cli.passwords import PasswordEnvironmentOption, PasswordFileOption, read_password
from moldau.client.client_errors import MoldauError

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://127.0.0.1:8083"
TIMEOUT_S = 100.0
"""Longer than a worker takes for a request (Kafka Connect: 90 s)."""

UrlOption = Annotated[str, typer.Option("--url", metavar="URL", help="The address of a worker.")]
UserOption = Annotated[
    str | None,
    typer.Option("--user", metavar="NAME", help="The user to log in as, if the worker needs a login."),
]
CaOption = Annotated[
    Path | None,
    typer.Option("--ca-file", metavar="FILE", help="Certificates to trust for https, in PEM (default: the system's)."),
]

__all__ = [
    "CaOption",
    "ConnectClient",
    "PasswordEnvironmentOption",
    "PasswordFileOption",
    "RestApiError",
    "UrlOption",
    "UserOption",
]


class RestApiError(MoldauError):
    """A request that failed: the worker cannot be reached, or has answered with an error."""


class ConnectClient:
    """A connection to one worker."""

    def __init__(self, url: str, login: tuple[str, str] | None = None, ca_file: Path | None = None) -> None:
        import httpx

        self.url = url.rstrip("/")
        verify: ssl.SSLContext | bool = True if ca_file is None else ssl.create_default_context(cafile=str(ca_file))
        self._client = httpx.Client(base_url=self.url, auth=login, verify=verify, timeout=TIMEOUT_S, trust_env=False)

    @classmethod
    def of(
        cls, url: str, user: str | None, password_file: Path | None, password_env: str | None, ca_file: Path | None
    ) -> Self:
        login = None if user is None else (user, read_password(user, password_file, password_env))
        return cls(url, login, ca_file)

    def call(self, method: str, path: str, body: Any = None, params: Sequence[tuple[str, str]] = ()) -> Any:
        """The body of the answer; None if it is empty. Raises RestApiError."""
        import httpx

        try:
            answer = self._client.request(method, path, json=body, params=list(params))
        except httpx.ConnectError as error:
            raise RestApiError(
                f"nothing answers at {self.url} ({error}); start a worker with moldau connect, or give --url"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RestApiError(f"{method} {self.url}{path}: {str(error) or type(error).__name__}") from None
        if not answer.is_success:
            raise RestApiError(_problem(answer))
        return answer.json() if answer.content else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()


def _problem(answer: httpx.Response) -> str:
    if answer.status_code == 401:
        return "the worker needs a login; give --user"
    try:
        body = answer.json()
    except ValueError:
        body = None
    message = body.get("message") if isinstance(body, Mapping) else None
    return f"{message or answer.text[:500]} (HTTP {answer.status_code})"


def connector_path(name: str, *parts: str) -> str:
    """The path of a connector, whose name may have any characters."""
    return "/".join(["/connectors", quote(name, safe=""), *parts])
