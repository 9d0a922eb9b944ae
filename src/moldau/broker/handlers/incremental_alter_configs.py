"""IncrementalAlterConfigs (44): set, reset, append to and subtract from single settings of topics or brokers.

Versions 0-1. Each resource is changed as a whole or not at all. Appending and subtracting are for lists and start from
the value in force.
"""

from __future__ import annotations

from moldau.broker.altering import alter
from moldau.broker.registry import handles
from moldau.broker.session import Request
from moldau.cluster.configs import Alteration
from moldau.wire.api import ApiKey
from moldau.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS)
async def incremental_alter_configs(
    request: Request, message: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            tuple((config.name, config.config_operation, config.value) for config in resource.configs),
        )
        for resource in message.resources
    ]
    answers = await alter(request, alterations, validate_only=message.validate_only)
    responses = []
    for resource, answer in zip(message.resources, answers, strict=True):
        response = IncrementalAlterConfigsResponseResource(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        if answer is not None:
            response.error_code, response.error_message = answer.code, answer.message
        responses.append(response)
    return IncrementalAlterConfigsResponse(responses=responses)
