"""Request time quotas (`request_percentage`): the share of the event loop's time that a client may take.

The time of a request is that of its handler, of the encoding and of the write of its response. The parts of a request
that waits are counted one by one: while it waits it takes no time. 100 percent is one core, because a broker has one
loop.

As in Kafka, requests between brokers are not counted, the time of the write counts for the next request, and a single
throttle is at most one `quota.window.size.seconds` long.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from functools import lru_cache
from struct import Struct
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from moldau.security.quota_entities import REQUEST_PERCENTAGE
from moldau.wire.api import APIS, ApiKey

if TYPE_CHECKING:
    from moldau.broker.connection.session import Request
    from moldau.broker.requests.handler_registry import Body

OWN_THROTTLE: Final = (ApiKey.PRODUCE, ApiKey.FETCH)
"""APIs whose handlers write `throttle_time_ms` themselves: they have a second quota, for bytes."""

ADDED_BY_BROKERS_FROM: Final = 4
"""The version from which on brokers, not clients, send AddPartitionsToTxn."""

_INT32 = Struct(">i")
_MARK = 0x5EED1E55


def with_time_throttle(request: Request, body: Body) -> Body:
    """Count the time of a request so far. If its client has exceeded its quota, throttle it and write the time into the
    response."""
    if request.route.api in OWN_THROTTLE or between_brokers(request):
        return body
    throttle_time(request)
    throttle_ms = request.session.quota.throttle_ms
    if not throttle_ms or not _begins_with_throttle_time(request.route.api, request.version):
        return body
    first = bytes(body[0])
    (given_ms,) = _INT32.unpack_from(first)  # by the handler, for another quota
    return [_INT32.pack(max(throttle_ms, given_ms)) + first[_INT32.size :], *body[1:]]


def between_brokers(request: Request) -> bool:
    """Whether a request is one that brokers send to each other. Only brokers are authorized to send them."""
    api = request.route.api
    return api == ApiKey.WRITE_TXN_MARKERS or (
        api == ApiKey.ADD_PARTITIONS_TO_TXN and request.version >= ADDED_BY_BROKERS_FROM
    )


def throttle_time(request: Request) -> bool:
    """Count the time of a request so far, and throttle its client if it has exceeded its quota. Returns whether it
    has."""
    quota = request.session.quota
    quota.count_time()
    limit = quota.limits(request.client_id).request
    return limit is not None and quota.throttle(REQUEST_PERCENTAGE, limit.pause(request.broker.loop.time()))


@lru_cache(1024)  # all versions of all APIs
def _begins_with_throttle_time(api: ApiKey, version: int) -> bool:
    """Whether `throttle_time_ms` is the first field of a response. Only ApiVersions has it elsewhere."""
    try:
        response: Any = APIS[api].response_type()()
        response.throttle_time_ms = _MARK
    except AttributeError:
        return False
    return bool(response.encode(version).startswith(_INT32.pack(_MARK)))


class TimedCoroutine(Coroutine[Any, Any, Any]):
    """A handler's coroutine whose steps are timed: it takes time only between two awaits."""

    __slots__ = ("_inner", "_run")

    def __init__(self, inner: Coroutine[Any, Any, Any], run: Callable[..., Any]) -> None:
        self._inner = inner
        self._run = run

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()

    def send(self, value: Any) -> Any:
        return self._run(self._inner.send, value)

    def throw(self, kind: Any, value: BaseException | object = None, traceback: TracebackType | None = None, /) -> Any:
        error = kind if value is None else value
        return self._run(self._inner.throw, error)

    def close(self) -> None:
        self._inner.close()
