"""Security towards ZooKeeper: TLS, a login by digest, and access control lists of the brokers' nodes.

All brokers of a cluster log in with the same digest, so each may read what another has created. With a login, nodes in
SECRET_FOLDERS (passwords of users, delegation tokens, dynamic settings of brokers) are for the brokers only. With
`zookeeper.set.acl`, all other nodes can be changed by the brokers only, and read by everyone, as Kafka did it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.cluster.security_nodes import SECRET_FOLDERS
from moldau.net.tls_context import client_context
from moldau.net.tls_settings import TlsSettings
from moldau.settings.setting import SettingError

if TYPE_CHECKING:
    import ssl

    from moldau.settings import BrokerSettings

DIGEST = "moldau.zookeeper.digest"


class ZookeeperSecurity(NamedTuple):
    """How a broker connects to ZooKeeper, and what it lets others do there."""

    tls: Callable[[], ssl.SSLContext] | None = None
    """Makes the context of a new connection, so that changed files are used."""
    digest: str = ""
    """`USER:PASSWORD`, or empty."""
    protects_all: bool = False

    def __repr__(self) -> str:
        return f"ZookeeperSecurity(tls={self.tls is not None}, digest not shown, protects_all={self.protects_all})"

    @property
    def protects_secrets(self) -> bool:
        return bool(self.digest) or self.protects_all

    def acl(self, path: str) -> list[Any] | None:
        """Return the access control list of a new node of the store; None for ZooKeeper's default, which is open."""
        from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

        if self.protects_secrets and is_secret(path):
            return list(CREATOR_ALL_ACL)
        if self.protects_all:
            return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
        return None


def is_secret(path: str) -> bool:
    """Whether a node, or the folder itself, may hold secrets."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in SECRET_FOLDERS)


def zookeeper_security(settings: BrokerSettings) -> ZookeeperSecurity:
    """Return the security of the settings. Raises SettingError."""
    digest: str = settings[DIGEST] or ""
    if digest and not all(digest.partition(":")[::2]):
        raise SettingError(DIGEST, "is not of the form USER:PASSWORD")
    tls = zookeeper_tls(settings)
    if settings["zookeeper.set.acl"] and not digest and not (tls is not None and tls.keystore_location):
        raise SettingError(
            "zookeeper.set.acl", f"needs a login, so that ZooKeeper knows the brokers: set {DIGEST}, or a key store"
        )
    if tls is not None:
        client_context(tls)  # wrong files are an error now, not a connection that fails for ever
    return ZookeeperSecurity(
        None if tls is None else lambda: client_context(tls), digest, bool(settings["zookeeper.set.acl"])
    )


def zookeeper_tls(settings: BrokerSettings) -> TlsSettings | None:
    """Return the TLS settings towards ZooKeeper; None without `zookeeper.ssl.client.enable`."""
    if not settings["zookeeper.ssl.client.enable"]:
        return None
    return TlsSettings(
        keystore_location=settings["zookeeper.ssl.keystore.location"] or "",
        keystore_type=settings["zookeeper.ssl.keystore.type"] or "",
        keystore_password=settings["zookeeper.ssl.keystore.password"] or "",
        key_password=settings["zookeeper.ssl.keystore.password"] or "",
        truststore_location=settings["zookeeper.ssl.truststore.location"] or "",
        truststore_type=settings["zookeeper.ssl.truststore.type"] or "",
        truststore_password=settings["zookeeper.ssl.truststore.password"] or "",
        enabled_protocols=settings["zookeeper.ssl.enabled.protocols"],
        cipher_suites=settings["zookeeper.ssl.cipher.suites"],
        endpoint_identification_algorithm=settings["zookeeper.ssl.endpoint.identification.algorithm"],
        prefix="zookeeper.",
    )
