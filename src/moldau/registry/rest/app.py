"""Web application of a registry: its endpoints, the OpenAPI description, and a page of it."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from moldau.registry.registry import Registry
from moldau.registry.rest.dispatch import RegistryApi
from moldau.registry.rest.endpoints import endpoints
from moldau.registry.rest.errors import error_body
from moldau.registry.rest.openapi import openapi
from moldau.registry.rest.server_info import ServerInfo
from moldau.service.api_page import api_page
from moldau.service.app import service_app
from moldau.service.forwarding import Forwarder
from moldau.service.http_settings import HttpSettings
from moldau.service.metrics import HttpMetrics
from moldau.service.request_guard import RequestGuard

DESCRIPTION_PATH = "/openapi.json"
PAGE_PATH = "/docs"


def registry_app(
    registry: Registry,
    settings: HttpSettings,
    *,
    forwarder: Forwarder,
    metrics: HttpMetrics,
    info: ServerInfo | None = None,
) -> RequestGuard:
    """The application of a registry, for `HttpServer` or for tests in the same process."""
    table = endpoints(registry, info or ServerInfo())
    description = openapi(table)
    as_json = json.dumps(description).encode()
    as_page = api_page(description, DESCRIPTION_PATH)

    async def openapi_description(_: Request) -> Response:
        return Response(as_json, media_type="application/json")

    async def page(_: Request) -> Response:
        return HTMLResponse(as_page)

    routes: list[BaseRoute] = [
        Route(DESCRIPTION_PATH, openapi_description, methods=["GET"]),
        Route(PAGE_PATH, page, methods=["GET"]),
        Route("/{path:path}", RegistryApi(table, registry, forwarder)),
    ]
    return service_app(routes, settings, metrics=metrics, error_body=error_body, health=lambda: registry.problem)
