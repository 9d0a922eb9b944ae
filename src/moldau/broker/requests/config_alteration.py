"""Alteration of settings, shared by AlterConfigs and IncrementalAlterConfigs: authorization and answers."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.broker.connection.session import Request
from moldau.cluster.configs import Alteration
from moldau.cluster.configs import ConfigResourceType as ConfigResource
from moldau.cluster.errors import Refusal
from moldau.security import Operation, ResourceType
from moldau.wire.errors import ErrorCode


async def alter(request: Request, alterations: Sequence[Alteration], *, validate_only: bool) -> list[Refusal | None]:
    """Apply the authorized alterations. Returns one answer for each alteration: None, or the refusal."""
    answers: list[Refusal | None] = [_authorization_error(request, alteration) for alteration in alterations]
    allowed = [place for place, answer in enumerate(answers) if answer is None]
    done = await request.broker.alter_configs([alterations[place] for place in allowed], validate_only=validate_only)
    for place, answer in zip(allowed, done, strict=True):
        answers[place] = answer
    return answers


def _authorization_error(request: Request, alteration: Alteration) -> Refusal | None:
    if alteration.resource_type == ConfigResource.TOPIC:
        if not request.authorized(Operation.ALTER_CONFIGS, ResourceType.TOPIC, alteration.resource_name):
            return Refusal(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                f"Not allowed to alter the settings of topic {alteration.resource_name!r}.",
            )
    elif alteration.resource_type == ConfigResource.GROUP:
        if not request.authorized(Operation.ALTER_CONFIGS, ResourceType.GROUP, alteration.resource_name):
            return Refusal(
                ErrorCode.GROUP_AUTHORIZATION_FAILED,
                f"Not allowed to alter the settings of group {alteration.resource_name!r}.",
            )
    elif not request.authorized(Operation.ALTER_CONFIGS, ResourceType.CLUSTER):
        return Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Not allowed to alter settings of the cluster.")
    return None
