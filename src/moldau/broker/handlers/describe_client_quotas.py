"""DescribeClientQuotas (48): the client quotas that match a filter.

Versions 0-1.

* Needs DescribeConfigs on the cluster.
* No conditions: all quotas; with `strict`, none, because every entity has a type that the filter does not name.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.cluster.errors import Refusal
from moldau.cluster.quota_decisions import QuotaComponent, entity_parts, matching_quotas
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntity,
    DescribeClientQuotasResponseEntry,
    DescribeClientQuotasResponseValue,
)


@handles(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def describe_client_quotas(request: Request, message: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    if not request.authorized(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        return DescribeClientQuotasResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            error_message="Not allowed to describe quotas.",
            entries=None,
        )
    components = [QuotaComponent(one.entity_type, one.match_type, one.match) for one in message.components]
    found = matching_quotas(request.broker.image.security.client_quotas, components, strict=message.strict)
    if isinstance(found, Refusal):
        return DescribeClientQuotasResponse(error_code=found.code, error_message=found.message, entries=None)
    return DescribeClientQuotasResponse(
        error_message="",
        entries=[
            DescribeClientQuotasResponseEntry(
                entity=[
                    DescribeClientQuotasResponseEntity(entity_type=kind, entity_name=name)
                    for kind, name in entity_parts(entity)
                ],
                values=[DescribeClientQuotasResponseValue(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in found.items()
        ],
    )
