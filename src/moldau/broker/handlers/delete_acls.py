"""DeleteAcls (31): deletes the access control rules that match filters.

Versions 1-3.

* Needs Alter on the cluster.
* SECURITY_DISABLED where no authorizer is configured.
* Each filter has its own answer, with the rules that it matched. A rule that two filters match is in both answers.
* A filter with UNKNOWN closes the connection, as in Kafka. A code that is not known is INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from moldau.broker.connection.session import Request
from moldau.broker.requests.acl_messages import acl_filter, refused
from moldau.broker.requests.handler_registry import handles
from moldau.cluster.errors import Refusal
from moldau.security import Operation
from moldau.security.acls import AclFilter, AclRule
from moldau.wire.api import ApiKey
from moldau.wire.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteAclsResponseFilter,
    DeleteAclsResponseMatchingAcl,
)


@handles(ApiKey.DELETE_ACLS)
def delete_acls(request: Request, message: DeleteAclsRequest) -> Coroutine[Any, Any, DeleteAclsResponse]:
    # Not a coroutine itself: a malformed filter must close the connection before anything is done.
    return _delete(request, [acl_filter(one) for one in message.filters])


async def _delete(request: Request, filters: Sequence[AclFilter]) -> DeleteAclsResponse:
    refusal = refused(request, Operation.ALTER)
    if refusal is not None:
        return DeleteAclsResponse(filter_results=[_result(refusal) for _ in filters])
    answers = await request.broker.metadata.security.delete_acls(filters)
    return DeleteAclsResponse(filter_results=[_result(answer) for answer in answers])


def _result(answer: tuple[AclRule, ...] | Refusal) -> DeleteAclsResponseFilter:
    if isinstance(answer, Refusal):
        return DeleteAclsResponseFilter(error_code=answer.code, error_message=answer.message)
    return DeleteAclsResponseFilter(
        error_message=None,
        matching_acls=[
            DeleteAclsResponseMatchingAcl(
                error_message=None,
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for pattern, entry in answer
        ],
    )
