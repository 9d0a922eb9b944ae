"""Simulated members of groups: they join, sync, send heartbeats and rejoin like real clients."""

from __future__ import annotations

from typing import Any

from moldau.assignment.consumer_protocol import parse_assignment
from moldau.wire.errors import ErrorCode
from tests.unit.groups.shard_driver import REBALANCE_MS, ShardDriver, assignment

PARTITIONS = 10
E = ErrorCode


class ClassicMember:
    """A consumer of the classic protocol."""

    def __init__(self, driver: ShardDriver, name: str, instance: str | None = None) -> None:
        self.driver = driver
        self.name = name
        self.instance = instance
        self.id = ""
        self.generation = -1
        self.partitions: list[int] = []
        self.phase = "out"
        self.ticket: int | None = None
        self.alive = True

    @property
    def identity(self) -> str:
        return self.instance or self.name

    def act(self) -> None:
        """One turn: process the response that has arrived, then send the next request."""
        if self.ticket is not None and not self._receive():
            return
        if not self.alive:
            return
        if self.phase == "out":
            self.partitions = []
            self._wait("joining", self.driver.join(self.id, instance=self.instance))
        elif self.phase == "in":
            code = self.driver.heartbeat(self.id, self.generation, instance=self.instance)
            if code != E.NONE:
                self._fail(code)

    def _wait(self, phase: str, ticket: int) -> None:
        self.phase, self.ticket = phase, ticket
        self._receive()

    def _receive(self) -> bool:
        """Process a response. Return whether the member waits for no other one."""
        assert self.ticket is not None
        answer = self.driver.answer(self.ticket)
        if answer is None:
            if self.ticket in self.driver.waiting:
                return False
            self._fail(E.NOT_COORDINATOR)  # the coordinator restarted and dropped the request
            return True
        self.ticket = None
        if isinstance(answer, ErrorCode):
            self._fail(answer)
        elif answer.error_code == E.MEMBER_ID_REQUIRED:
            self.id, self.phase = answer.member_id, "out"
        elif answer.error_code != E.NONE:
            self._fail(ErrorCode(answer.error_code))
        elif self.phase == "joining":
            self._joined(answer)
        else:
            self.partitions = [index for _, some in parse_assignment(answer.assignment) for index in some]
            self.phase = "in"
        return self.ticket is None

    def _joined(self, answer: Any) -> None:
        self.id, self.generation = answer.member_id, answer.generation_id
        given: dict[str, bytes] = {}
        if answer.leader == self.id and not answer.skip_assignment:
            names = sorted(one.member_id for one in answer.members)
            given = {name: assignment(t=range(place, PARTITIONS, len(names))) for place, name in enumerate(names)}
        self._wait("syncing", self.driver.sync(self.id, self.generation, given, instance=self.instance))

    def _fail(self, code: ErrorCode) -> None:
        self.ticket = None
        self.phase = "out"
        if code == E.FENCED_INSTANCE_ID:
            self.alive = False
        elif code == E.UNKNOWN_MEMBER_ID:
            self.id = ""

    def leave(self) -> None:
        self.alive = False
        if self.id:
            self.driver.leave((self.id, self.instance) if self.instance else self.id)


class ConsumerMember:
    """A consumer of the consumer protocol."""

    def __init__(self, driver: ShardDriver, name: str, instance: str | None = None) -> None:
        self.driver = driver
        self.id = name
        self.instance = instance
        self.epoch = 0
        self.reads: set[int] = set()
        self.assigned: set[int] | None = set()
        self.unsure = False
        """Whether a response was missed: the next heartbeat has all fields."""
        self.alive = True

    def act(self, *, lost: bool = False, slow: bool = False) -> None:
        """Send one heartbeat. `lost`: the response does not arrive; `slow`: the member gives up nothing yet."""
        if self.epoch == 0:
            self.reads = set()
        elif not slow and self.assigned is not None:
            self.reads &= self.assigned
        owned = {"t": sorted(self.reads)} if self.reads else {}
        full = self.epoch == 0 or self.unsure
        response = self.driver.consumer_heartbeat(
            self.id,
            self.epoch,
            owned=owned,
            names=["t"] if full else None,
            rebalance_ms=REBALANCE_MS if full else -1,
            instance=self.instance,
        )
        self.unsure = lost or isinstance(response, ErrorCode)
        if self.unsure:
            return
        if response.error_code in (E.UNRELEASED_INSTANCE_ID, E.FENCED_INSTANCE_ID):
            self.alive, self.reads = False, set()
        elif response.error_code != E.NONE:
            self.epoch, self.reads = 0, set()
        else:
            self.epoch = response.member_epoch
            assigned = self.driver.assigned(response)
            if assigned is not None:
                self.assigned = set(assigned.get("t", []))
                if self.reads <= self.assigned:
                    self.reads = set(self.assigned)

    def leave(self, epoch: int = -1) -> None:
        self.alive, self.reads = False, set()
        self.driver.consumer_heartbeat(self.id, epoch, instance=self.instance)
