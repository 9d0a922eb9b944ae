"""Security requests of one broker: changes of rules, credentials, quotas and delegation tokens.

The decisions are pure functions of the image. As with topics and settings, the broker that gets a request commits the
result itself, with the expected versions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from moldau.cluster import acl_decisions, quota_decisions, scram_decisions, token_decisions
from moldau.cluster.changes import DelegationTokenChanged, UserCredentialsChanged
from moldau.cluster.errors import Refusal
from moldau.cluster.image import ClusterImage
from moldau.cluster.image_publisher import Decide, MetadataDecision, Step
from moldau.cluster.nodes import id_text
from moldau.cluster.quota_decisions import QuotaAlteration
from moldau.cluster.scram_decisions import UserAlteration
from moldau.cluster.security_image import UserCredentials
from moldau.cluster.token_decisions import DelegationTokenRules, NewToken, TokenExpiry
from moldau.host.clock import Randomness
from moldau.security.acls import AclFilter, AclRule
from moldau.security.credentials import DelegationToken
from moldau.wire.errors import ErrorCode

R = TypeVar("R")
A = TypeVar("A")


class Answers(Protocol):
    """Decides requests, commits the result, and returns one answer for each request."""

    def __call__(
        self, requests: Sequence[R], decide: Decide[R, A], validate_only: bool = False
    ) -> Awaitable[list[A | Refusal]]: ...


MAX_CHANGES: Final = 10_000
"""Changes in one request, as in Kafka."""


class SecurityRequests:
    """The requests that change the security part of the metadata. Each answer is a result or a refusal."""

    def __init__(self, answers: Answers, randomness: Randomness) -> None:
        self._answers = answers
        self._randomness = randomness

    async def create_acls(self, rules: Sequence[AclRule]) -> list[Refusal | None]:
        return await self._bounded(rules, acl_decisions.create_acls)

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[tuple[AclRule, ...] | Refusal]:
        """Each answer has the rules that were deleted."""
        return await self._bounded(filters, acl_decisions.delete_acls)

    async def alter_credentials(self, alterations: Sequence[UserAlteration]) -> list[Refusal | None]:
        return await self._bounded(alterations, scram_decisions.alter_credentials)

    async def store_initial_users(self, users: Mapping[str, UserCredentials]) -> list[Refusal | None]:
        """Store these users if there are none yet. Of several brokers that start together, one stores them."""

        had_users: list[bool] = []  # decided once: a second try finds the users that the first one has stored

        def decide(image: ClusterImage, wanted: Sequence[str]) -> MetadataDecision[None]:
            had_users.append(bool(image.security.scram_credentials))
            if had_users[0]:
                return MetadataDecision([None] * len(wanted), [])
            steps = [Step(UserCredentialsChanged(user, users[user]), (at,)) for at, user in enumerate(wanted)]
            return MetadataDecision([None] * len(wanted), steps)

        return await self._answers(list(users), decide)

    async def alter_quotas(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        return await self._bounded(alterations, quota_decisions.alter_quotas, validate_only)

    async def _bounded(
        self, requests: Sequence[R], decide: Decide[R, A], validate_only: bool = False
    ) -> list[A | Refusal]:
        if len(requests) > MAX_CHANGES:
            message = f"{len(requests)} changes in one request, at most {MAX_CHANGES} are allowed."
            return [Refusal(ErrorCode.POLICY_VIOLATION, message)] * len(requests)
        return await self._answers(requests, decide, validate_only)

    # -- delegation tokens -------------------------------------------------------------------------------------------

    async def create_token(
        self, wanted: NewToken, rules: DelegationTokenRules, now_ms: int
    ) -> DelegationToken | Refusal:
        token_id = id_text(self._randomness.uuid())

        def decide(_image: ClusterImage, some: Sequence[NewToken]) -> MetadataDecision[DelegationToken]:
            return _stored(token_decisions.created(token_id, some[0], rules, now_ms))

        return (await self._answers([wanted], decide))[0]

    async def renew_token(
        self, wanted: TokenExpiry, rules: DelegationTokenRules, now_ms: int
    ) -> DelegationToken | Refusal:
        def decide(image: ClusterImage, some: Sequence[TokenExpiry]) -> MetadataDecision[DelegationToken]:
            return _stored(token_decisions.renewed(image.security.delegation_tokens, some[0], rules, now_ms))

        return (await self._answers([wanted], decide))[0]

    async def expire_token(
        self, wanted: TokenExpiry, rules: DelegationTokenRules, now_ms: int
    ) -> DelegationToken | Refusal:
        """The answer is the token with its new end, also if it is removed at once."""

        def decide(image: ClusterImage, some: Sequence[TokenExpiry]) -> MetadataDecision[DelegationToken]:
            decided = token_decisions.expiring(image.security.delegation_tokens, some[0], rules, now_ms)
            if isinstance(decided, Refusal):
                return MetadataDecision([decided], [])
            token, at_once = decided
            return MetadataDecision(
                [token], [Step(DelegationTokenChanged(token.token_id, None if at_once else token), (0,))]
            )

        return (await self._answers([wanted], decide))[0]

    async def remove_expired_tokens(self, now_ms: int) -> None:
        """Remove all tokens whose end has passed. The controller calls it at intervals."""

        def decide(image: ClusterImage, _: Sequence[None]) -> MetadataDecision[None]:
            return MetadataDecision([], token_decisions.expired_steps(image.security.delegation_tokens, now_ms))

        await self._answers([], decide)


def _stored(token: DelegationToken | Refusal) -> MetadataDecision[DelegationToken]:
    if isinstance(token, Refusal):
        return MetadataDecision([token], [])
    return MetadataDecision([token], [Step(DelegationTokenChanged(token.token_id, token), (0,))])
