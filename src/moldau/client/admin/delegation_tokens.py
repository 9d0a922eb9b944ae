"""Delegation token calls of the admin client: create, renew, expire and describe tokens.

They need a connection that is authenticated, and not by a token.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field

from moldau.client import arguments
from moldau.client.admin.calls import Calls
from moldau.client.admin.outcome import checked
from moldau.client.errors import ArgumentError
from moldau.client.network import ANY_NODE
from moldau.security.resources import Principal
from moldau.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenRequestRenewer,
    CreateDelegationTokenResponse,
)
from moldau.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenRequestOwner,
    DescribeDelegationTokenResponse,
)
from moldau.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from moldau.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

OTHER_OWNERS_FROM = 3
AS_SET = -1
"""As period or lifetime: what the brokers' settings say."""
AT_ONCE = -1
"""As period of `expire_delegation_token`."""


@dataclass(frozen=True)
class IssuedToken:
    """A delegation token with its secret. A client logs in by SCRAM: `token_id` is the user name, `password` the
    password, and `tokenauth=true`. `repr` shows no secret."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        return base64.b64encode(self.hmac).decode()


def principal_of(name: str, given: Principal | str) -> Principal:
    """A principal, or its text `TYPE:NAME`."""
    if isinstance(given, Principal):
        return given
    kind, colon, who = arguments.text(name, given).partition(":")
    if not (kind and colon and who):
        arguments.refuse(name, given, "a principal such as User:alice")
    return Principal(kind, who)


def principals_of(name: str, given: Principal | str | Iterable[Principal | str]) -> list[Principal]:
    some = [given] if isinstance(given, Principal | str) else given
    return arguments.several(name, some, principal_of, "principals, such as User:alice")


def read_created(response: CreateDelegationTokenResponse, renewers: Iterable[Principal]) -> IssuedToken:
    checked(response.error_code, "creating a delegation token")
    owner = Principal(response.principal_type, response.principal_name)
    requester = Principal(response.token_requester_principal_type, response.token_requester_principal_name)
    return IssuedToken(
        response.token_id,
        owner,
        requester if requester.name else owner,
        tuple(renewers),
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
        bytes(response.hmac),
    )


def read_described(response: DescribeDelegationTokenResponse) -> list[IssuedToken]:
    checked(response.error_code, "describing delegation tokens")
    tokens = []
    for one in response.tokens:
        owner = Principal(one.principal_type, one.principal_name)
        requester = Principal(one.token_requester_principal_type, one.token_requester_principal_name)
        tokens.append(
            IssuedToken(
                one.token_id,
                owner,
                requester if requester.name else owner,
                tuple(Principal(renewer.principal_type, renewer.principal_name) for renewer in one.renewers),
                one.issue_timestamp,
                one.expiry_timestamp,
                one.max_timestamp,
                bytes(one.hmac),
            )
        )
    return sorted(tokens, key=lambda token: (token.issued_ms, token.token_id))


def _renewed(response: RenewDelegationTokenResponse) -> int:
    checked(response.error_code, "renewing a delegation token")
    return response.expiry_timestamp_ms


def _expired(response: ExpireDelegationTokenResponse) -> int:
    checked(response.error_code, "expiring a delegation token")
    return response.expiry_timestamp_ms


def _secret(given: bytes | IssuedToken) -> bytes:
    if isinstance(given, IssuedToken):
        return given.hmac
    if not isinstance(given, bytes):
        raise ArgumentError("token: an IssuedToken, or the bytes of its HMAC, is needed")
    return given


class DelegationTokenCalls(Calls):
    """Admin calls about delegation tokens."""

    async def create_delegation_token(
        self,
        *,
        owner: Principal | str | None = None,
        renewers: Principal | str | Iterable[Principal | str] = (),
        max_lifetime_ms: int = AS_SET,
        timeout: float | None = None,
    ) -> IssuedToken:
        """Create a token for this client, or for another owner if this client may create tokens for that user.

        The owner and the renewers may renew it and end it. `max_lifetime_ms` may shorten its longest life.
        """
        theirs = None if owner is None else principal_of("owner", owner)
        those = principals_of("renewers", renewers)
        request = CreateDelegationTokenRequest(
            owner_principal_type=None if theirs is None else theirs.type,
            owner_principal_name=None if theirs is None else theirs.name,
            renewers=[
                CreateDelegationTokenRequestRenewer(principal_type=kind, principal_name=name) for kind, name in those
            ],
            max_lifetime_ms=arguments.number("max_lifetime_ms", max_lifetime_ms),
        )
        return await self._once(
            ANY_NODE,
            request,
            lambda response: read_created(response, those),
            deadline=self._deadline(timeout),
            what="creating a delegation token",
            min_version=0 if theirs is None else OTHER_OWNERS_FROM,
        )

    async def renew_delegation_token(
        self, token: bytes | IssuedToken, *, period_ms: int = AS_SET, timeout: float | None = None
    ) -> int:
        """Let a token be valid for another period, and return when it expires, in milliseconds since 1970."""
        request = RenewDelegationTokenRequest(
            hmac=_secret(token), renew_period_ms=arguments.number("period_ms", period_ms)
        )
        return await self._once(
            ANY_NODE, request, _renewed, deadline=self._deadline(timeout), what="renewing a delegation token"
        )

    async def expire_delegation_token(
        self, token: bytes | IssuedToken, *, period_ms: int = AT_ONCE, timeout: float | None = None
    ) -> int:
        """End a token after a period, or at once. Return when it expires, in milliseconds since 1970."""
        request = ExpireDelegationTokenRequest(
            hmac=_secret(token), expiry_time_period_ms=arguments.number("period_ms", period_ms)
        )
        return await self._once(
            ANY_NODE, request, _expired, deadline=self._deadline(timeout), what="expiring a delegation token"
        )

    async def describe_delegation_tokens(
        self, owners: Principal | str | Iterable[Principal | str] | None = None, *, timeout: float | None = None
    ) -> list[IssuedToken]:
        """Return the tokens of owners, or all tokens that this client may see, oldest first."""
        wanted = None if owners is None else principals_of("owners", owners)
        request = DescribeDelegationTokenRequest(
            owners=None
            if wanted is None
            else [
                DescribeDelegationTokenRequestOwner(principal_type=kind, principal_name=name) for kind, name in wanted
            ]
        )
        return await self._once(
            ANY_NODE, request, read_described, deadline=self._deadline(timeout), what="describing delegation tokens"
        )
