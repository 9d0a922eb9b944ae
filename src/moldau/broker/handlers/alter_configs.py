"""AlterConfigs (33): replace all settings of topics, brokers or groups.

Versions 0-2.

* Settings that the request does not name are reset to their defaults.
* All changes of a resource are applied, or none.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.config_alteration import alter
from moldau.broker.requests.handler_registry import handles
from moldau.cluster.configs import Alteration, ConfigOperation
from moldau.wire.api import ApiKey
from moldau.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse, AlterConfigsResponseResource


@handles(ApiKey.ALTER_CONFIGS)
async def alter_configs(request: Request, message: AlterConfigsRequest) -> AlterConfigsResponse:
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            tuple((config.name, ConfigOperation.SET, config.value) for config in resource.configs),
            replace_all=True,
        )
        for resource in message.resources
    ]
    answers = await alter(request, alterations, validate_only=message.validate_only)
    responses = []
    for resource, answer in zip(message.resources, answers, strict=True):
        response = AlterConfigsResponseResource(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        if answer is not None:
            response.error_code, response.error_message = answer.code, answer.message
        responses.append(response)
    return AlterConfigsResponse(responses=responses)
