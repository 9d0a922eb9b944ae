"""DescribeUserScramCredentials (50): the SCRAM mechanisms and iterations of users. No secret leaves the broker.

Version 0.

* Needs Describe on the cluster.
* No users, or null: all users with credentials.
* A user without credentials is RESOURCE_NOT_FOUND, a user that the request names twice is DUPLICATE_RESOURCE.
"""

from __future__ import annotations

from collections import Counter

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.cluster.security_image import UserCredentials
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponseCredentialInfo,
    DescribeUserScramCredentialsResponseUser,
)


@handles(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def describe_user_scram_credentials(
    request: Request, message: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    if not request.authorized(Operation.DESCRIBE, ResourceType.CLUSTER):
        return _denied(message)
    known = request.broker.image.security.scram_credentials
    named = Counter(user.name for user in message.users) if message.users else dict.fromkeys(sorted(known), 1)
    return DescribeUserScramCredentialsResponse(
        error_message="", results=[_described(user, times, known.get(user, {})) for user, times in named.items()]
    )


def _denied(message: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    code, reason = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Not allowed to describe users."
    return DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=reason,
        results=[
            DescribeUserScramCredentialsResponseUser(user=user.name, error_code=code, error_message=reason)
            for user in message.users or ()
        ],
    )


def _described(user: str, times: int, credentials: UserCredentials) -> DescribeUserScramCredentialsResponseUser:
    if times > 1:
        return DescribeUserScramCredentialsResponseUser(
            user=user,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"User '{user}' may be in the request only once.",
        )
    if not credentials:
        return DescribeUserScramCredentialsResponseUser(
            user=user, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=f"User '{user}' has no credentials."
        )
    return DescribeUserScramCredentialsResponseUser(
        user=user,
        error_message="",
        credential_infos=[
            DescribeUserScramCredentialsResponseCredentialInfo(
                mechanism=mechanism.code, iterations=credential.iterations
            )
            for mechanism, credential in sorted(credentials.items(), key=lambda item: item[0].code)
        ],
    )
