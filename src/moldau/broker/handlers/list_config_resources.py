"""ListConfigResources (74): the names of all resources that have settings.

Versions 0-1.

* Version 0 is ListClientMetricsResources. It lists nothing: there are no client metrics subscriptions.
* Version 1 lists all topics, the registered brokers, and the groups that have their own settings. No types means all.
* An unknown type is UNSUPPORTED_VERSION.
* Gaps: loggers and client metrics have no settings, so none are listed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.cluster.image import ClusterImage
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListConfigResourcesResponseConfigResource,
)

TYPES_FROM = 1


class ListedResourceType(IntEnum):
    """All types of config resources that Kafka knows."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@handles(ApiKey.LIST_CONFIG_RESOURCES)
def list_config_resources(request: Request, message: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    if not request.authorized(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = message.resource_types or list(ListedResourceType)
    if request.version < TYPES_FROM:
        wanted = [ListedResourceType.CLIENT_METRICS]
    if any(one not in ListedResourceType.__members__.values() for one in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ListConfigResourcesResponseConfigResource(resource_name=name, resource_type=kind)
            for kind in dict.fromkeys(wanted)
            for name in _names(request.broker.image, kind)
        ]
    )


def _names(image: ClusterImage, kind: int) -> Iterable[str]:
    if kind == ListedResourceType.TOPIC:
        return image.topics
    if kind == ListedResourceType.BROKER:
        return map(str, image.brokers)
    if kind == ListedResourceType.GROUP:
        return image.group_configs
    return ()
