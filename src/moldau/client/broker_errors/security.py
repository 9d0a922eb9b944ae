"""Broker errors about access control, users and delegation tokens."""

from __future__ import annotations

from moldau.client.broker_errors.base import BrokerError
from moldau.wire.errors import ErrorCode as Code

__all__ = [
    "DelegationTokenAuthDisabled",
    "DelegationTokenAuthorizationFailed",
    "DelegationTokenExpired",
    "DelegationTokenNotFound",
    "DelegationTokenOwnerMismatch",
    "DelegationTokenRequestNotAllowed",
    "DuplicateResource",
    "InvalidPrincipalType",
    "ResourceNotFound",
    "SecurityDisabled",
    "UnacceptableCredential",
]


class SecurityDisabled(
    BrokerError,
    code=Code.SECURITY_DISABLED,
    says="the cluster has no access control; its operator sets authorizer.class.name",
): ...


class ResourceNotFound(BrokerError, code=Code.RESOURCE_NOT_FOUND, says="it does not exist"): ...


class DuplicateResource(BrokerError, code=Code.DUPLICATE_RESOURCE, says="it is in the request twice; name it once"): ...


class UnacceptableCredential(
    BrokerError, code=Code.UNACCEPTABLE_CREDENTIAL, says="the broker does not accept this credential"
): ...


class DelegationTokenAuthDisabled(
    BrokerError,
    code=Code.DELEGATION_TOKEN_AUTH_DISABLED,
    says="the cluster has no delegation tokens; its operator sets delegation.token.secret.key",
): ...


class DelegationTokenNotFound(
    BrokerError, code=Code.DELEGATION_TOKEN_NOT_FOUND, says="there is no such token; it may have expired"
): ...


class DelegationTokenOwnerMismatch(
    BrokerError,
    code=Code.DELEGATION_TOKEN_OWNER_MISMATCH,
    says="only the owner and the renewers of the token may do this",
): ...


class DelegationTokenRequestNotAllowed(
    BrokerError,
    code=Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    says="it needs a login, and not one with a token; connect to a listener with SASL or client certificates",
): ...


class DelegationTokenAuthorizationFailed(
    BrokerError,
    code=Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    says="no permission to create tokens for this user; ask for an ACL",
): ...


class DelegationTokenExpired(
    BrokerError, code=Code.DELEGATION_TOKEN_EXPIRED, says="the token has expired; create another one"
): ...


class InvalidPrincipalType(
    BrokerError, code=Code.INVALID_PRINCIPAL_TYPE, says="a renewer must be a user, such as User:alice"
): ...
