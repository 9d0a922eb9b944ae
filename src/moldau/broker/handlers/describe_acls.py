"""DescribeAcls (29): the access control rules that match a filter.

Versions 1-3.

* Needs Describe on the cluster.
* SECURITY_DISABLED where no authorizer is configured.
* A filter with UNKNOWN closes the connection, as in Kafka. A code that is not known matches nothing.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.acl_messages import acl_filter, refused
from moldau.broker.requests.handler_registry import handles
from moldau.cluster.acl_decisions import matching_rules
from moldau.security import Operation
from moldau.security.acls import AclEntry, ResourcePattern
from moldau.wire.api import ApiKey
from moldau.wire.messages.describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeAclsResponseAcl,
    DescribeAclsResponseResource,
)


@handles(ApiKey.DESCRIBE_ACLS)
def describe_acls(request: Request, message: DescribeAclsRequest) -> DescribeAclsResponse:
    wanted = acl_filter(message)
    refusal = refused(request, Operation.DESCRIBE)
    if refusal is not None:
        return DescribeAclsResponse(error_code=refusal.code, error_message=refusal.message)
    found: dict[ResourcePattern, list[AclEntry]] = {}
    for pattern, entry in matching_rules(request.broker.image.security.acls, wanted):
        found.setdefault(pattern, []).append(entry)
    return DescribeAclsResponse(
        error_message="",
        resources=[
            DescribeAclsResponseResource(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=[
                    DescribeAclsResponseAcl(
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission,
                    )
                    for entry in entries
                ],
            )
            for pattern, entries in found.items()
        ],
    )
