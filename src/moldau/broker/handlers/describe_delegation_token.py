"""DescribeDelegationToken (41): the delegation tokens of owners, with their secrets.

Versions 1-3.

* A client sees the tokens that it owns or may renew. For others it needs Describe on the token, or DescribeTokens on
  its owner. What it may not see is left out.
* No owners, null: all tokens. An empty list: none.
* DELEGATION_TOKEN_REQUEST_NOT_ALLOWED without authentication, and for a client that has logged in with a token.
  DELEGATION_TOKEN_AUTH_DISABLED without `delegation.token.secret.key`.
"""

from __future__ import annotations

from collections.abc import Collection

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.broker.requests.token_requests import token_requests_allowed
from moldau.security import Operation, Principal, ResourceType
from moldau.security.credentials import DelegationToken
from moldau.security.delegation_tokens import may_renew, token_hmac
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    DescribeDelegationTokenResponseRenewer,
    DescribeDelegationTokenResponseToken,
)


@handles(ApiKey.DESCRIBE_DELEGATION_TOKEN)
def describe_delegation_token(
    request: Request, message: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    secret_key = request.broker.token_rules.secret_key
    if not token_requests_allowed(request):
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if secret_key is None:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if message.owners is not None:
        owners = [Principal(owner.principal_type, owner.principal_name) for owner in message.owners]
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, token_hmac(secret_key, token.token_id))
            for token in request.broker.image.security.delegation_tokens.values()
            if _is_visible(request, token, owners)
        ]
    )


def _is_visible(request: Request, token: DelegationToken, owners: Collection[Principal] | None) -> bool:
    if owners is not None and not any(may_renew(token, owner) for owner in owners):
        return False
    if may_renew(token, request.session.principal):
        return True
    return request.authorized(
        Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, audited=False
    ) or request.authorized(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner), audited=False)


def _described(token: DelegationToken, hmac: bytes) -> DescribeDelegationTokenResponseToken:
    return DescribeDelegationTokenResponseToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribeDelegationTokenResponseRenewer(principal_type=renewer.type, principal_name=renewer.name)
            for renewer in token.renewers
        ],
    )
