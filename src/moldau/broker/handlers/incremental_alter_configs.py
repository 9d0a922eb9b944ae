"""IncrementalAlterConfigs (44): set, reset, append to or subtract from single settings.

Versions 0-1.

* Resources: topics, brokers and groups. All changes of a resource are applied, or none.
* Append and subtract are for lists. They start from the value in effect.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.config_alteration import alter
from moldau.broker.requests.handler_registry import handles
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
