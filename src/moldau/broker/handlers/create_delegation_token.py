"""CreateDelegationToken (38): a token with which others can log in as its owner until it expires.

Versions 1-3.

* The owner is the client itself. For another owner the client needs CreateTokens on that user (version 3).
* DELEGATION_TOKEN_REQUEST_NOT_ALLOWED without authentication, and for a client that has logged in with a token.
  DELEGATION_TOKEN_AUTH_DISABLED without `delegation.token.secret.key`. INVALID_PRINCIPAL_TYPE for a renewer that is not
  a user.
* The secret of the token is in this answer and in that of DescribeDelegationToken. It is not stored.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.broker.requests.token_requests import NO_TIMESTAMP, token_requests_allowed
from moldau.cluster.errors import Refusal
from moldau.cluster.token_decisions import NewToken
from moldau.security import Operation, Principal, ResourceType
from moldau.security.credentials import DelegationToken
from moldau.security.delegation_tokens import token_hmac
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse


@handles(ApiKey.CREATE_DELEGATION_TOKEN)
async def create_delegation_token(
    request: Request, message: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    broker, requester = request.broker, request.session.principal
    owner = requester
    if message.owner_principal_name:
        owner = Principal(message.owner_principal_type or "", message.owner_principal_name)
    refusal = _refusal(request, owner)
    if refusal is not None:
        return _refused(refusal, owner, requester)
    wanted = NewToken(
        owner,
        requester,
        tuple(Principal(one.principal_type, one.principal_name) for one in message.renewers),
        message.max_lifetime_ms,
    )
    rules = broker.token_rules
    token = await broker.metadata.security.create_token(wanted, rules, broker.now_ms())
    if isinstance(token, Refusal):
        return _refused(token.code, owner, requester)
    assert rules.secret_key is not None
    return _created(token, token_hmac(rules.secret_key, token.token_id))


def _refusal(request: Request, owner: Principal) -> ErrorCode | None:
    if not token_requests_allowed(request):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if owner != request.session.principal and not request.authorized(
        Operation.CREATE_TOKENS, ResourceType.USER, str(owner)
    ):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    return None


def _refused(code: ErrorCode, owner: Principal, requester: Principal) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
    )


def _created(token: DelegationToken, hmac: bytes) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
    )
