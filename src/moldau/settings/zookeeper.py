"""Broker settings for ZooKeeper, which connects the brokers of a cluster.

They are part of the table in `broker.py`. Kafka had these settings until version 4, and they mean the same here.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from moldau.settings.setting import Setting, SettingType, Value

INT, STRING = SettingType.INT, SettingType.STRING

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
)
