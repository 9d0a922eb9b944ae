"""RenewDelegationToken (39): a later end for a delegation token, at most that of its longest life.

Versions 1-2.

* Only the owner and the renewers of the token may renew it; others get DELEGATION_TOKEN_OWNER_MISMATCH.
* An expired token cannot be renewed.
* DELEGATION_TOKEN_REQUEST_NOT_ALLOWED without authentication, and for a client that has logged in with a token.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.broker.requests.token_requests import NO_TIMESTAMP, token_requests_allowed
from moldau.cluster.errors import Refusal
from moldau.cluster.token_decisions import TokenExpiry
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


@handles(ApiKey.RENEW_DELEGATION_TOKEN)
async def renew_delegation_token(
    request: Request, message: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    if not token_requests_allowed(request):
        return RenewDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIMESTAMP
        )
    broker = request.broker
    wanted = TokenExpiry(bytes(message.hmac), request.session.principal, message.renew_period_ms)
    token = await broker.metadata.security.renew_token(wanted, broker.token_rules, broker.now_ms())
    if isinstance(token, Refusal):
        return RenewDelegationTokenResponse(error_code=token.code)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=token.expires_ms)
