"""What AlterConfigs and IncrementalAlterConfigs have in common:

who may, and how the answers get back to their resources.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.broker.session import Request
from moldau.cluster.configs import Alteration
from moldau.cluster.configs import ResourceType as ConfigResource
from moldau.cluster.refusal import Refusal
from moldau.security import Operation, ResourceType
from moldau.wire.errors import ErrorCode


async def alter(request: Request, alterations: Sequence[Alteration], *, validate_only: bool) -> list[Refusal | None]:
    """One answer for each alteration: None where it was done."""
    answers: list[Refusal | None] = [_not_allowed(request, alteration) for alteration in alterations]
    allowed = [place for place, answer in enumerate(answers) if answer is None]
    done = await request.broker.alter_configs([alterations[place] for place in allowed], validate_only=validate_only)
    for place, answer in zip(allowed, done, strict=True):
        answers[place] = answer
    return answers


def _not_allowed(request: Request, alteration: Alteration) -> Refusal | None:
    if alteration.resource_type == ConfigResource.TOPIC:
        if not request.authorized(Operation.ALTER_CONFIGS, ResourceType.TOPIC, alteration.resource_name):
            return Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")
    elif not request.authorized(Operation.ALTER_CONFIGS, ResourceType.CLUSTER):
        return Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "")
    return None
