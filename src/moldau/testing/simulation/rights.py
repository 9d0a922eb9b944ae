"""Clients that test access control: an administrator who changes the rights of a user, and users who try them.

Every attempt is recorded with its begin, its end and its result. The checkers compare it with the rights that the store
had at that time. An attempt that ends with another error proves nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from moldau.aio import Admin, Consumer, Producer
from moldau.client.errors import AuthenticationError, MoldauError, TopicAuthorizationFailed
from moldau.security.acls import AclFilter, AclRule, Permission
from moldau.security.resources import Operation
from moldau.testing.simulation.checkers import RULES_LAG_S
from moldau.testing.simulation.clients import CLOSE_S, SimulatedClient
from moldau.testing.simulation.history import Attempt, RuleChange
from moldau.testing.simulation.security import ADMIN, GUARDED, GUEST, OPERATIONS, guest_rule

if TYPE_CHECKING:
    from moldau.testing.simulation.world import World

CALL_S = 8.0
READ_S = 4.0


class RuleChanger(SimulatedClient):
    """Gives rights to the guest and takes them away, in different ways. After an unclear result it sends the same
    request again, until one is acknowledged."""

    user = ADMIN

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._present: dict[AclRule, None] = {}
        """The rules that were added and not removed."""

    async def work(self) -> None:
        async with Admin(self.settings(default_api_timeout_ms=10_000)) as admin:
            while not self.stopping:
                operation = self.random.choice(OPERATIONS)
                rules = [rule for rule in self._present if rule.entry.operation == operation]
                permissions = {rule.entry.permission for rule in rules}
                if permissions == {Permission.ALLOW}:
                    await self._take(admin, operation, rules)
                else:
                    await self._give(admin, operation, rules)
                # Sometimes too short for all brokers, sometimes long enough for the checkers to expect an effect.
                await self.pause(self.random.choice((0.3, 2.0)))
                if self.random.random() < 0.6:
                    await asyncio.sleep(RULES_LAG_S)

    async def _give(self, admin: Admin, operation: Operation, rules: Sequence[AclRule]) -> None:
        for rule in rules:
            if rule.entry.permission == Permission.DENY:
                await self._remove(admin, rule)
        if not any(rule.entry.permission == Permission.ALLOW for rule in rules):
            await self._add(admin, guest_rule(operation, Permission.ALLOW, prefixed=self.random.random() < 0.3))

    async def _take(self, admin: Admin, operation: Operation, rules: Sequence[AclRule]) -> None:
        if self.random.random() < 0.4:
            await self._add(admin, guest_rule(operation, Permission.DENY, prefixed=self.random.random() < 0.3))
        else:
            for rule in rules:
                await self._remove(admin, rule)

    async def _add(self, admin: Admin, rule: AclRule) -> None:
        self._present[rule] = None
        await self._until_acknowledged(rule, True, lambda: admin.create_acls(rule, timeout=CALL_S))

    async def _remove(self, admin: Admin, rule: AclRule) -> None:
        del self._present[rule]
        await self._until_acknowledged(rule, False, lambda: admin.delete_acls(_exactly(rule), timeout=CALL_S))

    async def _until_acknowledged(self, rule: AclRule, add: bool, request: Callable[[], Awaitable[object]]) -> None:
        what = f"{rule.entry.permission.name} {rule.entry.operation.name} {rule.pattern.name}"
        self.note(f"{'adds' if add else 'removes'} a rule: {what}")
        began_s = self.now_s
        while not self.stopping:
            try:
                await request()
            except MoldauError as error:
                self.failed(error)
                self.note(f"unclear: {type(error).__name__}: {error}")
                await self.pause(1.0)
            else:
                self.note(f"acknowledged: {what}")
                self.history.rule_changes.append(RuleChange(rule, add, began_s, self.now_s))
                return

    async def finish(self, guest: RightsUser) -> None:
        """After all faults: the guest gets all rights and uses them, loses them and is denied."""
        self.stopping = False
        async with Admin(self.settings(default_api_timeout_ms=10_000)) as admin, guest.producer() as producer:
            for give in (True, False):
                await admin.delete_acls(AclFilter(principal=f"User:{GUEST}"))
                for operation in OPERATIONS:
                    if give:
                        await self._add(admin, guest_rule(operation, Permission.ALLOW, prefixed=False))
                await asyncio.sleep(RULES_LAG_S)
                await guest.try_until(producer, done=give)


def _exactly(rule: AclRule) -> AclFilter:
    pattern, entry = rule
    return AclFilter(
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission,
    )


class RightsUser(SimulatedClient):
    """Writes to the guarded topic with one producer, and reads it with a new consumer each time."""

    def __init__(self, world: World, name: str, user: str) -> None:
        super().__init__(world, name)
        self.user = user

    async def work(self) -> None:
        producer = self.producer()
        await producer.start()
        try:
            ends_s = self.now_s + 5 + 25 * self.random.random()
            while not self.stopping and self.now_s < ends_s:
                if self.random.random() < 0.6:
                    await self.attempt(Operation.WRITE, lambda: self._write(producer))
                else:
                    await self.attempt(Operation.READ, self._read)
                await self.pause(1.5)
        finally:
            await producer.close(CLOSE_S)

    async def try_until(self, producer: Producer, *, done: bool) -> None:
        """Try each operation until one attempt has this result. The caller limits the time."""
        for operation, act in ((Operation.WRITE, lambda: self._write(producer)), (Operation.READ, self._read)):
            while await self.attempt(operation, act) is not done:
                await self.pause(1.0)

    def producer(self) -> Producer:
        return Producer(
            self.settings(delivery_timeout_ms=4_000, linger_ms=0, max_block_ms=4_000, enable_idempotence=False)
        )

    async def attempt(self, operation: Operation, act: Callable[[], Awaitable[bool]]) -> bool | None:
        """Try an operation, and record whether it was done or denied. None: neither is known."""
        began_s = self.now_s
        try:
            done = await act()
        except TopicAuthorizationFailed:
            done = False
        except (MoldauError, TimeoutError) as error:
            if isinstance(error, AuthenticationError):
                self.failed(error)
            self.note(f"{operation.name}: {type(error).__name__}: {error}")
            return None
        else:
            if not done:
                return None
        self.note(f"{operation.name}: {'done' if done else 'denied'}")
        self.history.attempts.append(Attempt(self.user, operation, GUARDED, began_s, self.now_s, done))
        return done

    async def _write(self, producer: Producer) -> bool:
        await (await producer.send(GUARDED, self.user.encode(), partition=0))
        return True

    async def _read(self) -> bool:
        """Read the first record. False if there was none: then nothing is known."""
        settings = self.settings(
            auto_offset_reset="earliest",
            default_api_timeout_ms=4_000,
            fetch_max_wait_ms=500,
            client_rack=self.random.choice(("", "rack-0", "rack-1", "rack-2")),
        )
        consumer = Consumer(settings)
        try:
            async with asyncio.timeout(READ_S):
                await consumer.assign([(GUARDED, 0)])
                return bool(await consumer.poll(READ_S))
        finally:
            await consumer.close(CLOSE_S)
