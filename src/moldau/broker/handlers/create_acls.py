"""CreateAcls (30): adds access control rules.

Versions 1-3.

* Needs Alter on the cluster.
* SECURITY_DISABLED where no authorizer is configured.
* Each rule has its own answer. A rule that exists already is a success.
* A host may also be a network in CIDR notation. A host that is neither, and a principal that is not TYPE:NAME, is
  INVALID_REQUEST; Kafka stores them.
* A rule with UNKNOWN closes the connection, as in Kafka. ANY is INVALID_REQUEST; Kafka answers UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from moldau.broker.connection.session import Request
from moldau.broker.requests.acl_messages import acl_rule, refused
from moldau.broker.requests.handler_registry import handles
from moldau.cluster.errors import Refusal
from moldau.security import Operation
from moldau.security.acls import AclRule
from moldau.wire.api import ApiKey
from moldau.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse, CreateAclsResponseResult


@handles(ApiKey.CREATE_ACLS)
def create_acls(request: Request, message: CreateAclsRequest) -> Coroutine[Any, Any, CreateAclsResponse]:
    # Not a coroutine itself: a malformed rule must close the connection before anything is done.
    return _create(request, [acl_rule(creation) for creation in message.creations])


async def _create(request: Request, rules: Sequence[AclRule]) -> CreateAclsResponse:
    refusal = refused(request, Operation.ALTER)
    if refusal is not None:
        return CreateAclsResponse(results=[_result(refusal) for _ in rules])
    answers = await request.broker.metadata.security.create_acls(rules)
    return CreateAclsResponse(results=[_result(answer) for answer in answers])


def _result(answer: Refusal | None) -> CreateAclsResponseResult:
    if answer is None:
        return CreateAclsResponseResult(error_message="")
    return CreateAclsResponseResult(error_code=answer.code, error_message=answer.message)
