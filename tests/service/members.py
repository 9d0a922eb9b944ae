"""Group members for tests: in this process, and as a process of their own that prints what happens to it.

python -m tests.service.members BOOTSTRAP GROUP NAME SESSION_MS
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from moldau.client.errors import MoldauError
from moldau.service.group_member import GroupAssignment, GroupMember, GroupView
from tests.support.process import start_mortal
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
SHARES = ["a", "b", "c", "d", "e", "f"]
"""The work that the members share."""


def assign(view: GroupView) -> dict[str, bytes]:
    """Give every member its share of the work, in the order of the members' names, with the leader's name."""
    members = sorted(view.members, key=lambda member: view.members[member])
    shares = {member: SHARES[index :: len(members)] for index, member in enumerate(members)}
    leader = view.members[view.leader_id].decode()
    return {member: json.dumps({"leader": leader, "work": work}).encode() for member, work in shares.items()}


class Journal:
    """A listener that notes its calls."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self.work: list[str] = []
        self.leader = ""
        self.failure: MoldauError | None = None

    async def revoked(self, old: GroupAssignment) -> None:
        self.note("revoked", old.generation)

    async def assigned(self, new: GroupAssignment) -> None:
        given = json.loads(new.assignment)
        self.work, self.leader = given["work"], given["leader"]
        self.note("assigned", {"generation": new.generation, "leads": new.leads, **given})

    async def lost(self, old: GroupAssignment) -> None:
        self.work = []
        self.note("lost", old.generation)

    def failed(self, error: MoldauError) -> None:
        self.failure = error
        self.note("failed", str(error))

    def note(self, kind: str, facts: Any) -> None:
        self.events.append((kind, facts))

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events]


def member(bootstrap: str, group: str, name: str, journal: Journal, **options: Any) -> GroupMember:
    times = {"session_timeout_ms": 1_000, "heartbeat_interval_ms": 100, "rebalance_timeout_ms": 5_000}
    client = options.pop("client", {"bootstrap.servers": bootstrap})
    return GroupMember(
        {**client, "retry.backoff.ms": 20, "retry.backoff.max.ms": 100},
        **{
            "group_id": group,
            "protocol_type": "shares",
            "protocols": {"v1": name.encode},
            "assign": assign,
            "listener": journal,
            **times,
            **options,
        },
    )


class MemberProcess:
    """A member in a process of its own, which tests stop and kill."""

    def __init__(self, bootstrap: str, group: str, name: str, session_ms: int = 1_000) -> None:
        command = [sys.executable, "-m", "tests.service.members", bootstrap, group, name, str(session_ms)]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        self.events: list[tuple[str, Any]] = []
        self._other: list[bytes] = []
        self.process: subprocess.Popen[bytes] = start_mortal(command, environment)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith(b"["):
                kind, facts = json.loads(line)
                self.events.append((kind, facts))
            else:
                self._other.append(line)
        self.process.stderr.close()

    @property
    def work(self) -> list[str]:
        """The work of the last assignment, empty after `lost`."""
        for kind, facts in reversed(self.events):
            if kind == "assigned":
                return list(facts["work"])
            if kind == "lost":
                return []
        return []

    def wait_for_work(self, *shares: str) -> None:
        wait_until(lambda: self.work == list(shares), f"the work {shares}, {b''.join(self._other).decode()}")

    def send(self, signal_number: int) -> None:
        self.process.send_signal(signal_number)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()


class _Printing(Journal):
    def note(self, kind: str, facts: Any) -> None:
        print(json.dumps([kind, facts]), file=sys.stderr, flush=True)


async def _run(bootstrap: str, group: str, name: str, session_ms: str) -> None:
    one = member(bootstrap, group, name, _Printing(), session_timeout_ms=int(session_ms))
    await one.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:]))
