"""Broker settings for ZooKeeper, which connects the brokers of a cluster.

They are part of the table in `broker.py`. Kafka had these settings until version 4, and they mean the same here.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from moldau.settings.setting import Setting, SettingType, Value

INT, STRING, BOOLEAN = SettingType.INT, SettingType.STRING, SettingType.BOOLEAN
PASSWORD, LIST = SettingType.PASSWORD, SettingType.LIST

DEFAULT_PORT: Final = 2181


class EnsembleAddress(NamedTuple):
    """A parsed `HOST:PORT,HOST:PORT/CHROOT`."""

    hosts: tuple[tuple[str, int], ...]
    root: str
    """The chroot, or "" if there is none."""

    @classmethod
    def parse(cls, connect: str) -> EnsembleAddress:
        """Parse the connection string; ValueError if it is malformed."""
        addresses, _, chroot = connect.strip().partition("/")
        hosts = tuple(_address(one.strip()) for one in addresses.split(","))
        names = chroot.strip().rstrip("/").split("/")
        if names == [""]:
            return cls(hosts, "")
        if not all(re.fullmatch(r"[!-.0-~]+", name) and name not in (".", "..") for name in names):
            raise ValueError(f"{'/' + chroot!r} is not a valid ZooKeeper path")
        return cls(hosts, "/" + "/".join(names))


def _address(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+)(?::(\d{1,5}))?", text)
    if match is None or not 0 < int(match[2] or DEFAULT_PORT) < 65_536:
        raise ValueError(f"{text!r} is not of the form HOST:PORT")
    return match[1].strip("[]"), int(match[2] or DEFAULT_PORT)


def _check(value: Value) -> str | None:
    try:
        if value:
            EnsembleAddress.parse(str(value))
    except ValueError as error:
        return f"{error}; write HOST:PORT,HOST:PORT/CHROOT"
    return None


ZOOKEEPER = (
    Setting(
        "zookeeper.connect",
        STRING,
        None,
        "The ZooKeeper ensemble of the cluster, HOST:PORT,HOST:PORT/CHROOT. Without it, the broker is a cluster of "
        "one and stores its metadata in its first data directory.",
        check=_check,
    ),
    Setting(
        "zookeeper.session.timeout.ms",
        INT,
        18_000,
        "The time in milliseconds that a broker may be without contact to ZooKeeper before it counts as dead. The "
        "ZooKeeper servers limit the value with their own bounds.",
        low=1,
    ),
    Setting(
        "zookeeper.connection.timeout.ms",
        INT,
        None,
        "The time in milliseconds that a broker waits for ZooKeeper when it starts. Without it, "
        "`zookeeper.session.timeout.ms`.",
    ),
    Setting(
        "zookeeper.ssl.client.enable",
        BOOLEAN,
        False,
        "Whether connections to ZooKeeper use TLS: `zookeeper.connect` then has the servers' secureClientPort.",
    ),
    Setting(
        "zookeeper.ssl.keystore.location",
        STRING,
        None,
        "The broker's key and certificate for ZooKeeper, in PEM or PKCS12, if the servers ask for one.",
    ),
    Setting(
        "zookeeper.ssl.keystore.password", PASSWORD, None, "The password of the key store, or of its encrypted key."
    ),
    Setting("zookeeper.ssl.keystore.type", STRING, None, "Accepted for Kafka's files; the content decides."),
    Setting(
        "zookeeper.ssl.truststore.location",
        STRING,
        None,
        "The authorities of ZooKeeper's certificates, in PEM or PKCS12. Without it, those of the operating system.",
    ),
    Setting("zookeeper.ssl.truststore.password", PASSWORD, None, "The password of a PKCS12 trust store."),
    Setting("zookeeper.ssl.truststore.type", STRING, None, "Accepted for Kafka's files; the content decides."),
    Setting(
        "zookeeper.ssl.enabled.protocols",
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS towards ZooKeeper.",
        choices=("TLSv1.2", "TLSv1.3"),
    ),
    Setting("zookeeper.ssl.cipher.suites", LIST, (), "The cipher suites towards ZooKeeper; empty: OpenSSL's choice."),
    Setting(
        "zookeeper.ssl.endpoint.identification.algorithm",
        STRING,
        "HTTPS",
        "Whether the host names in `zookeeper.connect` must be in the servers' certificates; empty for no check.",
    ),
    Setting(
        "zookeeper.set.acl",
        BOOLEAN,
        False,
        "Whether nodes that the brokers create in ZooKeeper can be changed by the brokers only. Needs "
        "`moldau.zookeeper.digest` or a key store, the same for all brokers.",
    ),
    Setting(
        "moldau.zookeeper.digest",
        PASSWORD,
        None,
        "USER:PASSWORD with which all brokers log in to ZooKeeper (scheme digest). Nodes with secrets are then for the "
        "brokers only.",
    ),
)
