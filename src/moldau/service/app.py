"""Assembly of a service's HTTP application: routes, `/metrics`, health, errors as JSON, request guard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from moldau.host.machine_names import host_name
from moldau.service.errors import ErrorBody, HttpError, plain_error_body
from moldau.service.http_settings import HttpSettings
from moldau.service.login import PasswordFile
from moldau.service.metrics import HttpMetrics
from moldau.service.request_guard import RequestGuard

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import Scope

METRICS_PATH: Final = "/metrics"
HEALTH_PATH: Final = "/health"
LOCAL_HOST: Final = "localhost"

Health = Callable[[], str | None]
"""What is wrong with the service, or None. It must not block."""

ExceptionHandler = Callable[[Request, Any], Any]


def service_app(
    routes: Sequence[BaseRoute],
    settings: HttpSettings,
    *,
    metrics: HttpMetrics,
    error_body: ErrorBody = plain_error_body,
    health: Health | None = None,
    exception_handlers: Mapping[Any, ExceptionHandler] | None = None,
    streams: Callable[[Scope], bool] = lambda scope: False,
    websockets: bool = False,
) -> RequestGuard:
    """The application of a service, for `HttpServer`.

    `error_body` gives errors the service's shape. `exception_handlers` map further exceptions to responses, as in
    Starlette. `health` serves `/health`, unless it is None because the routes have it; `/health` needs no login.
    `streams` and `websockets` are those of `RequestGuard`.
    """
    own: list[BaseRoute] = [Route(METRICS_PATH, _metrics_page(metrics), methods=["GET"])]
    if health is not None:
        own.append(Route(HEALTH_PATH, _health_page(health), methods=["GET"]))

    def as_json(_: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return JSONResponse(error_body(error.status_code, error.detail), error.status_code, error.headers)
        assert isinstance(error, HttpError)
        return JSONResponse(error_body(error.status, error.message), error.status, error.headers)

    def failed(_: Request, error: Exception) -> Response:
        return JSONResponse(error_body(500, "internal error; the log of the service has the reason"), 500)

    handlers: dict[Any, ExceptionHandler] = {HTTPException: as_json, HttpError: as_json, Exception: failed}
    app = Starlette(routes=[*own, *routes], exception_handlers={**handlers, **(exception_handlers or {})})
    return RequestGuard(
        app,
        settings,
        metrics,
        error_body=error_body,
        known_hosts=known_hosts(settings),
        login=PasswordFile(settings.password_file) if settings.password_file else None,
        open_paths=[HEALTH_PATH],
        streams=streams,
        websockets=websockets,
    )


def known_hosts(settings: HttpSettings) -> set[str]:
    """The names under which the service may be addressed, beside IP addresses."""
    bound = {address.host.lower() for address in settings.addresses if address.host}
    return {LOCAL_HOST, host_name().lower(), *settings.allowed_hosts, *bound}


def _metrics_page(metrics: HttpMetrics) -> Callable[[Request], Any]:
    async def metrics_page(_: Request) -> Response:
        page, content_type = metrics.page()
        return Response(page, media_type=content_type)

    return metrics_page


def _health_page(health: Health) -> Callable[[Request], Any]:
    async def health_page(_: Request) -> Response:
        problem = health()
        if problem is None:
            return JSONResponse({"status": "healthy"})
        return JSONResponse({"status": "unhealthy", "message": problem}, 503)

    return health_page
