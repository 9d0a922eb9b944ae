"""Reasons of failed TLS handshakes, in words for the log of a broker."""

from __future__ import annotations

import ssl

NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "HTTPS_PROXY_REQUEST", "PACKET_LENGTH_TOO_LONG")
"""Reasons of OpenSSL when the first bytes are not TLS."""


CLOSED = "the client closed the connection"


def handshake_problem(error: BaseException) -> str:
    """Why a handshake failed, and what to do, in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        if reason in NOT_TLS:
            return "the client does not speak TLS; check its security.protocol"
        if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            return "the client has no certificate, which ssl.client.auth requires"
        if "ALERT" in reason:
            return f"the client refused: {reason.lower().replace('_', ' ')}"
        return reason.lower().replace("_", " ")
    if isinstance(error, TimeoutError) or "handshake is taking longer" in str(error):
        return "not complete in time (moldau.authentication.timeout.ms)"
    return CLOSED
