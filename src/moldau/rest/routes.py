"""All endpoints of the REST proxy, and their routes."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from moldau.rest.endpoints import ProxyEndpoint, route
from moldau.rest.openapi import openapi, page
from moldau.rest.rest_settings import RestSettings
from moldau.rest.schema_formats import SchemaFormats
from moldau.rest.sessions import Sessions
from moldau.rest.v2 import topics as v2_topics
from moldau.rest.v2.consumer_instances import ConsumerInstances
from moldau.rest.v2.consumers import ConsumersV2
from moldau.rest.v2.produce import ProduceV2
from moldau.rest.v3 import acls, brokers, clusters, configs, consumer_groups, lags, partitions, replicas, topics
from moldau.rest.v3.records import Produce


def v3_endpoints(settings: RestSettings, schemas: SchemaFormats | None) -> list[ProxyEndpoint]:
    """The endpoints of API v3. A path with a dash for "all" comes before the one with a name."""
    produce = Produce(
        schemas, settings.values["moldau.rest.max.record.bytes"], settings.seconds("moldau.rest.stream.timeout.ms")
    )
    modules = (clusters, brokers, partitions, configs, topics, replicas, consumer_groups, lags, acls)
    return [*(endpoint for module in modules for endpoint in module.ENDPOINTS), *produce.endpoints()]


def v2_endpoints(instances: ConsumerInstances, schemas: SchemaFormats | None) -> list[ProxyEndpoint]:
    """The endpoints of API v2."""
    return [*v2_topics.ENDPOINTS, *ProduceV2(schemas).endpoints(), *ConsumersV2(instances, schemas).endpoints()]


def routes(endpoints: Sequence[ProxyEndpoint], sessions: Sessions) -> list[Route]:
    """The routes of all endpoints, of the description and of its page."""
    description = openapi(endpoints)
    text = page(endpoints)

    async def get_description(_: Request) -> Response:
        return JSONResponse(description)

    async def get_page(_: Request) -> Response:
        return HTMLResponse(text)

    return [
        Route("/", get_page, methods=["GET"]),
        Route("/openapi.json", get_description, methods=["GET"]),
        *(route(endpoint, sessions) for endpoint in endpoints),
    ]
