"""Access control: principals, operations, resources, and the authorizer that every handler asks.

Pure: no file, no socket. Handlers call `authorize` for everything they access. So access control depends only on the
authorizer of a broker, never on a handler.
"""

from moldau.security.authorizer import AllowAll, Authorizer, Decision, authorized_operations
from moldau.security.resources import ANONYMOUS, CLUSTER_NAME, OPERATIONS, Operation, Principal, ResourceType

__all__ = [
    "ANONYMOUS",
    "CLUSTER_NAME",
    "OPERATIONS",
    "AllowAll",
    "Authorizer",
    "Decision",
    "Operation",
    "Principal",
    "ResourceType",
    "authorized_operations",
]
