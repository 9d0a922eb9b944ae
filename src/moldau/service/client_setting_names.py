"""Names of the settings that a service passes on to its own Kafka clients.

TLS and login are not among them: `client/settings/security.py` has their names.
"""

from __future__ import annotations

from typing import Final

FOR_CLIENTS: Final = (
    "bootstrap.servers",
    "client.id",
    "client.dns.lookup",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
)
"""A service declares them as the admin client does."""
