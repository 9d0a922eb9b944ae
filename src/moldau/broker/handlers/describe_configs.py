"""DescribeConfigs (32): settings of topics, brokers and groups, with the source of each value.

Versions 1-4.

* Resources: topics, this broker, the dynamic defaults of all brokers (empty broker name), and groups. A group need not
  exist.
* No keys means all settings. Unknown keys are omitted.
* Gaps: loggers (type 8) and client metrics (type 16) have no settings and are INVALID_REQUEST.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.cluster.configs import ConfigResourceType as ConfigResource
from moldau.cluster.errors import Refusal
from moldau.cluster.topic_names import topic_name_error
from moldau.security import Operation, ResourceType
from moldau.settings import Description
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResource,
    DescribeConfigsResponseSynonym,
)

OF_BROKERS = (8, 16)
"""Loggers and client metrics: Kafka asks for the same right as for the settings of brokers."""


@handles(ApiKey.DESCRIBE_CONFIGS)
def describe_configs(request: Request, message: DescribeConfigsRequest) -> DescribeConfigsResponse:
    results = []
    for resource in message.resources:
        result = DescribeConfigsResponseResource(
            error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        described = _describe(request, resource)
        if isinstance(described, Refusal):
            result.error_code, result.error_message = described.code, described.message
        else:
            result.configs = [_config(message, one) for one in sorted(described, key=lambda one: one.name)]
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _describe(request: Request, resource: DescribeConfigsRequestResource) -> list[Description] | Refusal:
    names = resource.configuration_keys or None
    if resource.resource_type == ConfigResource.TOPIC:
        return _describe_topic(request, resource.resource_name, names)
    if resource.resource_type == ConfigResource.BROKER:
        return _describe_broker(request, resource.resource_name, names)
    if resource.resource_type == ConfigResource.GROUP:
        return _describe_group(request, resource.resource_name, names)
    if resource.resource_type in OF_BROKERS and (denied := _denied_broker(request)) is not None:
        return denied
    return Refusal(ErrorCode.INVALID_REQUEST, f"Resources of type {resource.resource_type} have no settings here.")


def _describe_topic(request: Request, name: str, names: list[str] | None) -> list[Description] | Refusal:
    if not request.authorized(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
        return Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"Not allowed to describe the settings of topic {name!r}.")
    if (error := topic_name_error(name)) is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, error)
    topic = request.broker.image.topics.get(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return request.broker.settings.describe_topic(topic.configs, names)


def _describe_broker(request: Request, name: str, names: list[str] | None) -> list[Description] | Refusal:
    broker = request.broker
    if (denied := _denied_broker(request)) is not None:
        return denied
    if not name:
        return broker.settings.describe_default(names)
    if name != str(broker.node_id):
        return Refusal(ErrorCode.INVALID_REQUEST, f"This is broker {broker.node_id}; ask broker {name!r} itself.")
    return broker.settings.describe(names)


def _denied_broker(request: Request) -> Refusal | None:
    if request.authorized(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        return None
    return Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Not allowed to describe the settings of brokers.")


def _describe_group(request: Request, group_id: str, names: list[str] | None) -> list[Description] | Refusal:
    if not request.authorized(Operation.DESCRIBE_CONFIGS, ResourceType.GROUP, group_id):
        return Refusal(ErrorCode.GROUP_AUTHORIZATION_FAILED, f"Not allowed to see the settings of group {group_id!r}.")
    if not group_id:
        return Refusal(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return request.broker.settings.describe_group(request.broker.image.group_config(group_id), names)


def _config(message: DescribeConfigsRequest, one: Description) -> DescribeConfigsResponseConfig:
    return DescribeConfigsResponseConfig(
        name=one.name,
        value=one.value,
        read_only=one.read_only,
        config_source=one.source,
        is_sensitive=one.sensitive,
        synonyms=[
            DescribeConfigsResponseSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (one.synonyms if message.include_synonyms else ())
        ],
        config_type=one.type,
        documentation=one.documentation if message.include_documentation else None,
    )
