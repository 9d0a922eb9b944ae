"""AlterClientQuotas (49): sets and removes client quotas.

Versions 0-1.

* Needs AlterConfigs on the cluster.
* Each entity has its own answer: all its quotas are changed, or none. `cluster/quota_decisions.py` has the rules, and
  where they are stricter than Kafka's.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.cluster.errors import Refusal
from moldau.cluster.quota_decisions import QuotaAlteration
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntity,
    AlterClientQuotasResponseEntry,
)


@handles(ApiKey.ALTER_CLIENT_QUOTAS)
async def alter_client_quotas(request: Request, message: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    wanted = [
        QuotaAlteration(
            tuple((part.entity_type, part.entity_name) for part in entry.entity),
            tuple((op.key, None if op.remove else op.value) for op in entry.ops),
        )
        for entry in message.entries
    ]
    if request.authorized(Operation.ALTER_CONFIGS, ResourceType.CLUSTER):
        answers = await request.broker.metadata.security.alter_quotas(wanted, validate_only=message.validate_only)
    else:
        answers = [Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Not allowed to alter quotas.")] * len(wanted)
    return AlterClientQuotasResponse(
        entries=[_result(alteration, answer) for alteration, answer in zip(wanted, answers, strict=True)]
    )


def _result(alteration: QuotaAlteration, answer: Refusal | None) -> AlterClientQuotasResponseEntry:
    entry = AlterClientQuotasResponseEntry(
        error_message=None,
        entity=[
            AlterClientQuotasResponseEntity(entity_type=kind, entity_name=name) for kind, name in alteration.entity
        ],
    )
    if answer is not None:
        entry.error_code, entry.error_message = answer.code, answer.message
    return entry
