"""The settings that make a broker one of a cluster: where ZooKeeper is. A part of the broker's table.

Kafka had them until version 4, and here they mean what they meant there.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from moldau.settings.setting import Setting, SettingType, Value

INT, STRING = SettingType.INT, SettingType.STRING

DEFAULT_PORT: Final = 2181


class Ensemble(NamedTuple):
    """`HOST:PORT,HOST:PORT/CHROOT`, taken apart."""

    hosts: tuple[tuple[str, int], ...]
    root: str
    """The chroot, or "" where there is none."""

    @classmethod
    def parse(cls, connect: str) -> Ensemble:
        """`ValueError` for what does not name an ensemble."""
        addresses, _, chroot = connect.strip().partition("/")
        hosts = tuple(_address(one.strip()) for one in addresses.split(","))
        names = chroot.strip().rstrip("/").split("/")
        if names == [""]:
            return cls(hosts, "")
        if not all(re.fullmatch(r"[!-.0-~]+", name) and name not in (".", "..") for name in names):
            raise ValueError(f"{'/' + chroot!r} is not a path of ZooKeeper's")
        return cls(hosts, "/" + "/".join(names))


def _address(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+)(?::(\d{1,5}))?", text)
    if match is None or not 0 < int(match[2] or DEFAULT_PORT) < 65_536:
        raise ValueError(f"{text!r} is not of the form HOST:PORT")
    return match[1].strip("[]"), int(match[2] or DEFAULT_PORT)


def _check(value: Value) -> str | None:
    try:
        if value:
            Ensemble.parse(str(value))
    except ValueError as error:
        return f"{error}; write HOST:PORT,HOST:PORT/CHROOT"
    return None


ZOOKEEPER = (
    Setting(
        "zookeeper.connect",
        STRING,
        None,
        "The ZooKeeper ensemble where the brokers of a cluster meet, HOST:PORT,HOST:PORT/CHROOT. Without it a broker "
        "is a cluster of its own and keeps its metadata in its first data directory.",
        check=_check,
    ),
    Setting(
        "zookeeper.session.timeout.ms",
        INT,
        18_000,
        "How long a broker may be out of touch with ZooKeeper before the others take it for dead. The servers have "
        "bounds of their own for it.",
        low=1,
    ),
    Setting(
        "zookeeper.connection.timeout.ms",
        INT,
        None,
        "How long a broker waits for ZooKeeper when it starts (none: as long as zookeeper.session.timeout.ms).",
    ),
)
