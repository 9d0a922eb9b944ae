"""AlterConfigs (33): replace all settings of topics or brokers; what is not named goes back to its default.

Versions 0-2. Each resource is changed as a whole or not at all.
"""

from __future__ import annotations

from moldau.broker.altering import alter
from moldau.broker.registry import handles
from moldau.broker.session import Request
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
