"""Explanations of TLS errors: what is wrong with which certificate, and which setting to look at."""

from __future__ import annotations

import ssl
from typing import TypeGuard

TlsFailure = ssl.SSLError
"""The error of a TLS connection, for those who only connect."""

_OWN_VIEW = {
    9: "its certificate is not valid yet; check the clocks of both machines",
    10: "its certificate has expired",
    18: "its certificate is self-signed and not in the trust store; add it to ssl.truststore.location",
    19: "its certificate is of an authority that this client does not trust; check ssl.truststore.location",
    20: "its certificate is of an authority that this client does not trust; check ssl.truststore.location",
    21: "its certificate is of an authority that this client does not trust; check ssl.truststore.location",
    23: "its certificate is revoked",
    26: "its certificate is not for servers",
}
"""OpenSSL's codes of a failed verification, as the client sees it."""

_HOST_NAME, _HOST_ADDRESS = 62, 64

_PEERS_VIEW = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "wants a certificate of the client; set ssl.keystore.location",
    "SSLV3_ALERT_BAD_CERTIFICATE": "wants another certificate, or refused the client's; check ssl.keystore.location",
    "TLSV1_ALERT_UNKNOWN_CA": "does not trust the authority of the client's certificate; check ssl.keystore.location",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "refused the client's certificate, because it has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "refused the client's certificate, because it is revoked",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "refused the client's certificate; check ssl.keystore.location",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "refused the client's certificate, because it is not for clients",
    "TLSV1_ALERT_ACCESS_DENIED": "refused the client's certificate",
    "TLSV1_ALERT_PROTOCOL_VERSION": "uses other versions of TLS; check ssl.enabled.protocols on both sides",
    "UNSUPPORTED_PROTOCOL": "uses other versions of TLS; check ssl.enabled.protocols on both sides",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "found nothing in common: it wants a certificate of the client "
    "(ssl.keystore.location), or has other ssl.enabled.protocols or ssl.cipher.suites",
    "TLSV1_ALERT_INSUFFICIENT_SECURITY": "wants stronger ciphers; check ssl.cipher.suites",
}
"""OpenSSL's names of what the server says in an alert."""


def is_plain_text(error: Exception) -> bool:
    """Whether the answer to the first TLS message is not TLS."""
    return isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")


def tls_problem(name: str, host: str, error: ssl.SSLError) -> str:
    """Return the message for a failed TLS connection to `name`; `host` is the name that was connected to."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in (_HOST_NAME, _HOST_ADDRESS):
            what = "address" if error.verify_code == _HOST_ADDRESS else "host name"
            return (
                f"{name}: the certificate of the broker is not for the {what} {host!r}; use a {what} that is in the "
                "certificate, or a certificate with this one among its subject alternative names"
            )
        reason = _OWN_VIEW.get(error.verify_code, f"its certificate was refused ({error.verify_message})")
        return f"{name}: the broker cannot be trusted: {reason}"
    if is_plain_text(error):
        return plain_port(name)
    told = _PEERS_VIEW.get(error.reason or "")
    if told is not None:
        return f"{name} {told}"
    return f"{name}: the TLS connection failed ({error.reason or error})"


def is_lasting(error: Exception | None) -> TypeGuard[ssl.SSLError]:
    """Whether it is a TLS error with which another attempt would fail too: certificates, not cut connections."""
    cut = ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError
    return isinstance(error, ssl.SSLError) and not isinstance(error, cut)


def plain_port(name: str) -> str:
    """Return the message for a listener without TLS."""
    return (
        f"{name} does not speak TLS, but security.protocol wants it; use the port of a TLS listener, or set "
        "security.protocol to PLAINTEXT or SASL_PLAINTEXT"
    )
