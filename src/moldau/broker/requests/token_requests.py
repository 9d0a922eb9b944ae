"""Delegation token requests: from which connections they are allowed."""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.security import ANONYMOUS

NO_TIMESTAMP = -1
"""The times in the answer to a request that is not allowed."""

PLAINTEXT, SSL = "PLAINTEXT", "SSL"


def token_requests_allowed(request: Request) -> bool:
    """Whether the client has proved who it is, and not by a token.

    A token must not be the key to further tokens: then it would have no end. On a connection that is not authenticated
    everyone could have the tokens of everyone.
    """
    session = request.session
    protocol = session.listener.bound.protocol
    if session.token_authenticated or protocol == PLAINTEXT:
        return False
    return not (protocol == SSL and session.principal == ANONYMOUS)
