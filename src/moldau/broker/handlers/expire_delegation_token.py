"""ExpireDelegationToken (40): another end for a delegation token, or its end at once.

Versions 1-2.

* Only the owner and the renewers of the token may end it; others get DELEGATION_TOKEN_OWNER_MISMATCH.
* A negative period removes the token at once. Otherwise it ends after the period, at most at the end of its longest
  life.
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
from moldau.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


@handles(ApiKey.EXPIRE_DELEGATION_TOKEN)
async def expire_delegation_token(
    request: Request, message: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    if not token_requests_allowed(request):
        return ExpireDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIMESTAMP
        )
    broker = request.broker
    wanted = TokenExpiry(bytes(message.hmac), request.session.principal, message.expiry_time_period_ms)
    token = await broker.metadata.security.expire_token(wanted, broker.token_rules, broker.now_ms())
    if isinstance(token, Refusal):
        return ExpireDelegationTokenResponse(error_code=token.code)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=token.expires_ms)
