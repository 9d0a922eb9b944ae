"""Table of the endpoints of Kafka Connect 4.3's REST API, and the routes of the web application."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from moldau.connect.herder import Herder
from moldau.connect.plugins import Plugins, installed
from moldau.connect.rest.connector_plugins import ConnectorPluginsResource
from moldau.connect.rest.connectors import ConnectorsResource
from moldau.connect.rest.dispatch import Handler, RestEndpoint, RestError, check_path, error_response
from moldau.connect.rest.worker import WorkerResource
from moldau.service.app import HEALTH_PATH
from moldau.service.forwarding import Forwarder


def endpoints(
    herder: Herder, plugins: Plugins, *, topic_tracking: bool = True, topic_reset: bool = True
) -> dict[str, dict[str, Handler]]:
    """The handlers by path and method."""
    connectors = ConnectorsResource(herder, topic_tracking=topic_tracking, topic_reset=topic_reset)
    classes = ConnectorPluginsResource(herder, plugins)
    worker = WorkerResource(herder)
    one = "/connectors/{connector}"
    return {
        "/": {"GET": worker.root},
        HEALTH_PATH: {"GET": worker.health},
        "/connectors": {"GET": connectors.list, "POST": connectors.create},
        one: {"GET": connectors.info, "DELETE": connectors.delete},
        f"{one}/config": {
            "GET": connectors.config,
            "PUT": connectors.put_config,
            "PATCH": connectors.patch_config,
        },
        f"{one}/status": {"GET": connectors.status},
        f"{one}/pause": {"PUT": connectors.pause},
        f"{one}/resume": {"PUT": connectors.resume},
        f"{one}/stop": {"PUT": connectors.stop},
        f"{one}/restart": {"POST": connectors.restart},
        f"{one}/tasks": {"GET": connectors.tasks},
        f"{one}/tasks/{{task}}/status": {"GET": connectors.task_status},
        f"{one}/tasks/{{task}}/restart": {"POST": connectors.restart_task},
        f"{one}/topics": {"GET": connectors.topics},
        f"{one}/topics/reset": {"PUT": connectors.reset_topics},
        f"{one}/offsets": {
            "GET": connectors.offsets,
            "PATCH": connectors.alter_offsets,
            "DELETE": connectors.reset_offsets,
        },
        "/connector-plugins": {"GET": classes.list},
        "/connector-plugins/{plugin}/config": {"GET": classes.settings},
        "/connector-plugins/{plugin}/config/validate": {"PUT": classes.validate},
        "/admin/loggers": {"GET": worker.loggers},
        "/admin/loggers/{logger}": {"GET": worker.logger, "PUT": worker.set_logger},
    }


def routes(
    herder: Herder,
    forwarder: Forwarder,
    *,
    plugins: Plugins | None = None,
    topic_tracking: bool = True,
    topic_reset: bool = True,
) -> list[BaseRoute]:
    """Routes for `service_app` with `error_body=rest_error_body`. They also answer unknown paths below their own."""
    table = endpoints(herder, plugins or installed(), topic_tracking=topic_tracking, topic_reset=topic_reset)
    found: list[BaseRoute] = []
    for path, handlers in table.items():
        endpoint = RestEndpoint(path, handlers, forwarder, _always if path == HEALTH_PATH else lambda: herder.ready)
        found.append(Route(path, endpoint))
        if path != "/":
            found.append(Route(f"{path}/", endpoint))
    found += [Route(f"/{top}/{{path:path}}", _NoSuchPath()) for top in ("connectors", "connector-plugins", "admin")]
    return found


def _always() -> bool:
    return True


class _NoSuchPath:
    """A path below an endpoint that no endpoint has. It may have a name with a slash in it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            check_path(Request(scope))
            raise RestError(404)
        except RestError as error:
            await error_response(error.status, str(error))(scope, receive, send)
