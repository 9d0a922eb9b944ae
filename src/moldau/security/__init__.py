"""Who asks, and may they: principals, operations, resources, and the one question that every handler asks.

Pure: no file, no socket. Handlers call `authorize` for everything they touch, so that access control is a matter of
which authorizer a broker is given, never of a handler.
"""

from moldau.security.authorizer import AllowAll, Authorizer, authorized_operations
from moldau.security.model import ANONYMOUS, CLUSTER_NAME, OPERATIONS, Operation, Principal, ResourceType

__all__ = [
    "ANONYMOUS",
    "CLUSTER_NAME",
    "OPERATIONS",
    "AllowAll",
    "Authorizer",
    "Operation",
    "Principal",
    "ResourceType",
    "authorized_operations",
]
