"""Handler registry: the APIs and versions that this broker serves.

`@handles` registers a function. Dispatch and ApiVersions both read the registry.

A handler is a plain function `(request, message) -> answer`. The answer is one of these:

* A response message. It is encoded in the version of the request and sent.
* A coroutine that returns one. The connection dispatches no further request until it is done, so a client that
  pipelines "create the topic" and "write to it" gets the expected result.
* A `DeferredAnswer`, for requests that wait while further requests of the same connection may start (Produce, Fetch).

Handlers marked `raw` take the bytes of the request and return encoded buffers. The hot path creates no message objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from moldau.net.framing import Buffer
from moldau.wire.api import APIS, ApiKey

if TYPE_CHECKING:
    from moldau.broker.connection.session import Request


class Encodable(Protocol):
    def encode(self, version: int) -> bytes: ...


Body = Sequence[Buffer]
Reply = Callable[[Body], None]


class DeferredAnswer(ABC):
    """An answer that is sent later, after some event."""

    __slots__ = ()

    @abstractmethod
    def start(self, reply: Reply) -> None:
        """Begin to wait. Call `reply` once, with the encoded body."""

    def abandon(self) -> None:
        """Stop waiting: the connection is closed."""
        return


class NoReply:
    """The answer to a produce with acks=0: no response, not even an error."""


NO_REPLY = NoReply()

Answer = Encodable | Body | DeferredAnswer | NoReply | Coroutine[Any, Any, Encodable | NoReply]


class Handler:
    """An API that is served: its versions and its handler function."""

    __slots__ = ("answer", "api", "function", "max_version", "min_version", "request_type")

    def __init__(
        self, api: ApiKey, function: Callable[..., Any], min_version: int, max_version: int, raw: bool
    ) -> None:
        self.api = api
        self.function = function
        self.min_version = min_version
        self.max_version = max_version
        self.request_type: Any = None if raw else _request_type(api)

        self.answer: Callable[[Request, memoryview], Answer] = function if raw else self._answer_message

    def _answer_message(self, request: Request, body: memoryview) -> Answer:
        answer: Answer = self.function(request, self.request_type.decode(body, request.version))
        return answer


HANDLERS: dict[ApiKey, Handler] = {}

F = TypeVar("F", bound=Callable[..., Any])


def handles(
    api: ApiKey, *, min_version: int | None = None, max_version: int | None = None, raw: bool = False
) -> Callable[[F], F]:
    """Register a handler for all versions in the definition of the API, or for fewer."""

    def register(function: F) -> F:
        assert api not in HANDLERS, f"{api.name} has two handlers"
        definition = APIS[api]
        low = definition.min_version if min_version is None else min_version
        high = definition.max_version if max_version is None else max_version
        HANDLERS[api] = Handler(api, function, low, high, raw)
        return function

    return register


def _request_type(api: ApiKey) -> Any:
    definition = APIS[api]
    return getattr(import_module(definition.module), f"{definition.name}Request")
