"""Network of a cluster's processes: loopback, or a network namespace per process, with links that can be cut.

The namespaces share one bridge; the clients, in this process, are at the bridge itself. A link is cut in one direction:
the sender gets a neighbour entry with an unused address, so that its frames arrive nowhere, as with a broken switch. No
process is notified, and no connection is reset. That needs `ip` and the right to create namespaces, but no packet
filter.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

CLIENTS = "clients"
"""The name of the place of this process and its children."""

NO_NAMESPACES = "network namespaces cannot be made here"
SUBNETS = 250
NOBODY = "02:00:00:00:00:01"
"""A hardware address that no device on the bridge has."""

_OWNER = re.compile(r"moldau test (\d+)")


class Loopback:
    """All processes on 127.0.0.1; no link can be cut."""

    def address(self, _: str) -> str:
        return "127.0.0.1"

    def enter(self, _: str) -> list[str]:
        return []


class NoNamespaces(Exception):
    """This machine does not allow network namespaces."""


class Bridge:
    """One namespace for each name. Leaving the context removes all of them."""

    def __init__(self) -> None:
        self._number = -1
        self._places: dict[str, int] = {}
        self._cuts: set[tuple[str, str]] = set()

    def address(self, name: str) -> str:
        return f"198.18.{self._number}.{254 if name == CLIENTS else self._place(name)}"

    def enter(self, name: str) -> list[str]:
        """The prefix that makes a command run in this namespace. The process id does not change."""
        return [shutil.which("nsenter") or "nsenter", f"--net=/run/netns/{self._namespace(name)}"]

    def cut(self, sender: str, receiver: str) -> None:
        """Cut the link from one place to another. Frames in the other direction still arrive."""
        _ip(*self._inside(sender), "neigh", "replace", self.address(receiver), "lladdr", NOBODY, *self._at(sender))
        self._cuts.add((sender, receiver))

    def cut_both_ways(self, one: str, other: str) -> None:
        self.cut(one, other)
        self.cut(other, one)

    def isolate(self, name: str, others: list[str]) -> None:
        """Cut all links of this place, in both directions."""
        for other in others:
            self.cut_both_ways(name, other)

    def heal(self) -> None:
        """Restore all links."""
        for sender, receiver in sorted(self._cuts):
            _ip(*self._inside(sender), "neigh", "del", self.address(receiver), "dev", self._device(sender))
        self._cuts.clear()

    # -- helpers ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        remove_orphans()
        try:
            self._number = self._claim()
            device = f"mld{self._number}"
            _ip("link", "set", device, "alias", f"moldau test {os.getpid()}")
            _ip("addr", "add", f"{self.address(CLIENTS)}/24", "dev", device)
            _ip("link", "set", device, "up")
            self._place("probe")
        except (OSError, subprocess.CalledProcessError) as error:
            self._remove()
            raise NoNamespaces(getattr(error, "stderr", None) or error) from error
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        if self._number >= 0:
            remove_bridge(self._number)
            self._number = -1

    @staticmethod
    def _claim() -> int:
        """Create the first bridge whose name is free. Creating it claims the name."""
        for number in range(SUBNETS):
            if not Path(f"/sys/class/net/mld{number}").exists():
                with suppress(subprocess.CalledProcessError):
                    _ip("link", "add", f"mld{number}", "type", "bridge")
                    return number
                if not Path(f"/sys/class/net/mld{number}").exists():
                    break
        raise OSError("no bridge can be made")

    def _place(self, name: str) -> int:
        if name not in self._places:
            place = self._places[name] = len(self._places) + 1
            namespace, device = self._namespace(name), f"mld{self._number}-{place}"
            _ip("netns", "add", namespace)
            _ip("link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            _ip("link", "set", device, "master", f"mld{self._number}", "up")
            _ip("-n", namespace, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            _ip("-n", namespace, "link", "set", "eth0", "up")
            _ip("-n", namespace, "link", "set", "lo", "up")
        return self._places[name]

    def _namespace(self, name: str) -> str:
        return f"mld{self._number}-{self._place(name)}"

    def _inside(self, name: str) -> list[str]:
        return [] if name == CLIENTS else ["-n", self._namespace(name)]

    def _device(self, name: str) -> str:
        return f"mld{self._number}" if name == CLIENTS else "eth0"

    def _at(self, name: str) -> list[str]:
        return ["dev", self._device(name), "nud", "permanent"]


@contextmanager
def cut_links(bridge: Bridge, *links: tuple[str, str]) -> Iterator[None]:
    """Cut these links, each in the given direction, until the end of the block."""
    for sender, receiver in links:
        bridge.cut(sender, receiver)
    try:
        yield
    finally:
        bridge.heal()


def remove_bridge(number: int) -> None:
    """Remove the bridge and its devices. Devices that are already gone are ignored."""
    for namespace in Path("/run/netns").glob(f"mld{number}-*"):
        with suppress(subprocess.CalledProcessError):
            # Delete the device pair first: deleting only the namespace removes the pair with a delay.
            _ip("link", "del", namespace.name)
        with suppress(subprocess.CalledProcessError):
            _ip("netns", "del", namespace.name)
    with suppress(subprocess.CalledProcessError):
        _ip("link", "del", f"mld{number}")


def remove_orphans() -> None:
    """Remove bridges of test runs that were killed by SIGKILL."""
    for alias in Path("/sys/class/net").glob("mld*/ifalias"):
        found = _OWNER.match(alias.read_text())
        if found and not Path(f"/proc/{found[1]}").exists():
            remove_bridge(int(alias.parent.name.removeprefix("mld")))


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
