"""AlterUserScramCredentials (51): adds, replaces and deletes SCRAM credentials of users.

Version 0.

* Needs Alter on the cluster.
* Each user has one answer. Iterations must be between 4096 and 16384. A user that the request names twice is
  DUPLICATE_RESOURCE.
* The client salts the password. The broker derives from it the keys that it stores, and keeps nothing else.
* An empty salt or salted password is UNACCEPTABLE_CREDENTIAL; Kafka answers UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.cluster.errors import Refusal
from moldau.cluster.scram_decisions import CredentialDeletion, CredentialUpsertion, UserAlteration
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseUser,
)


@handles(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
async def alter_user_scram_credentials(
    request: Request, message: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    wanted = _by_user(message)
    if request.authorized(Operation.ALTER, ResourceType.CLUSTER):
        answers = await request.broker.metadata.security.alter_credentials(wanted)
    else:
        denied = Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Not allowed to alter users.")
        answers = [denied] * len(wanted)
    return AlterUserScramCredentialsResponse(
        results=[_result(alteration.user, answer) for alteration, answer in zip(wanted, answers, strict=True)]
    )


def _by_user(message: AlterUserScramCredentialsRequest) -> list[UserAlteration]:
    alterations: dict[str, list[CredentialDeletion | CredentialUpsertion]] = {}
    for deletion in message.deletions:
        alterations.setdefault(deletion.name, []).append(CredentialDeletion(deletion.mechanism))
    for one in message.upsertions:
        upsertion = CredentialUpsertion(one.mechanism, one.iterations, bytes(one.salt), bytes(one.salted_password))
        alterations.setdefault(one.name, []).append(upsertion)
    return [UserAlteration(user, tuple(some)) for user, some in alterations.items()]


def _result(user: str, answer: Refusal | None) -> AlterUserScramCredentialsResponseUser:
    if answer is None:
        return AlterUserScramCredentialsResponseUser(user=user, error_message=None)
    return AlterUserScramCredentialsResponseUser(user=user, error_code=answer.code, error_message=answer.message)
