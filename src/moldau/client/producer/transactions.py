"""A producer's transactions: begun, filled, committed or aborted, by the rules of `transactions_state.py`.

All of it lives in the producer's loop. The sender asks (`Transactions`): may records of this partition leave, and under
which id? The application calls: each call waits at most max.block.ms, and after a time-out, or when the task that made
it was cancelled, the same call may be made again and goes on where it was.

A record is in the transaction that was open when it was sent, or in none. What of it did not leave is given up when the
transaction is aborted, and what came too late for its transaction is given up when the next one begins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from moldau.client.errors import ConcurrentUseError, IllegalStateError, MoldauError, TimedOut
from moldau.client.model import OffsetAndMetadata, TopicPartition
from moldau.client.network import Network
from moldau.client.own_errors import another
from moldau.client.producer.identity import NO_IDENTITY
from moldau.client.producer.transactionality import NoTransactions
from moldau.client.producer.transactions_errors import Severity, of_batch, of_init, of_request
from moldau.client.producer.transactions_prepared import PreparedTransaction
from moldau.client.producer.transactions_requests import (
    PRODUCE_V2,
    GroupIdentity,
    TransactionRequests,
    end_prepared,
)
from moldau.client.producer.transactions_state import OPEN, TransactionMachine, TransactionState
from moldau.client.settings import ClientSettings

_S = TransactionState
_log = logging.getLogger("moldau.producer")


class TransactionSettings(NamedTuple):
    """What transactions need of a producer's settings."""

    transactional_id: str
    timeout_ms: int
    two_phase: bool
    max_block_s: float
    delivery_timeout_s: float

    @classmethod
    def of(cls, settings: ClientSettings) -> TransactionSettings:
        return cls(
            settings["transactional.id"],
            settings["transaction.timeout.ms"],
            settings["transaction.two.phase.commit.enable"],
            settings.seconds("max.block.ms"),
            settings.seconds("delivery.timeout.ms"),
        )


class SenderSide(NamedTuple):
    """What transactions ask of the rest of the producer."""

    flush: Callable[[], Awaitable[None]]
    """Waits until there is no record of unknown fate, then returns without giving way to anyone."""
    resume: Callable[[], None]
    """What held records back may be over."""
    give_up_waiting: Callable[[MoldauError], None]
    """Fails what is not on the wire."""


class TransactionManager:
    """The transactional side of one producer; see `transactionality.Transactions`."""

    def __init__(self, network: Network, settings: TransactionSettings) -> None:
        self._settings = settings
        self._network = network
        self._requests = TransactionRequests(network, settings.transactional_id)
        self.machine = TransactionMachine(settings.transactional_id)
        self._sender: SenderSide | None = None
        self._adding: asyncio.Task[None] | None = None
        self._cleaning_up = False
        self._busy = ""

    def attach(self, sender: SenderSide) -> None:
        """The rest of the producer is there."""
        self._sender = sender

    # -- what the sender asks and tells ----------------------------------------------------------------------------

    @property
    def transactional_id(self) -> str:
        return self._settings.transactional_id

    @property
    def producer_id(self) -> int:
        return self.machine.identity.producer_id

    @property
    def epoch(self) -> int:
        return self.machine.identity.epoch

    @property
    def max_produce_version(self) -> int | None:
        return None if self.machine.version >= 2 else PRODUCE_V2 - 1

    def check_send(self) -> None:
        self.machine.check_send()

    def batch_added(self, partition: TopicPartition) -> None:
        if self.machine.partition_seen(partition):
            self._add_soon()
        elif self.machine.state in (_S.ABORTABLE_ERROR, _S.FATAL_ERROR):
            self._clean_up_soon()

    def may_drain(self, partition: TopicPartition) -> bool:
        if self.machine.may_drain(partition):
            return True
        if self.machine.state in (_S.ABORTABLE_ERROR, _S.FATAL_ERROR):
            self._clean_up_soon()
        return False

    def batch_failed(self, partition: TopicPartition, error: MoldauError) -> None:
        # Version 1: whether the broker has it or not, its number must not stand in the next transaction's way.
        self.machine.bump_wanted = True
        self._failed(error, of_batch(error))

    # -- failures --------------------------------------------------------------------------------------------------

    def _failed(self, error: MoldauError, severity: Severity) -> None:
        if severity is Severity.FATAL:
            news = self.machine.fatal(error)
        else:
            news = severity is Severity.ABORT and self.machine.abortable(error)
        if news:
            self._clean_up_soon()

    def _clean_up_soon(self) -> None:
        """Give up what waits: it will never leave. Not at once, because the sender is in the middle of something."""
        if not self._cleaning_up:
            self._cleaning_up = True
            asyncio.get_running_loop().call_soon(self._clean_up)

    def _clean_up(self) -> None:
        self._cleaning_up = False
        error = self.machine.error
        if error is not None and self._sender is not None:
            self._sender.give_up_waiting(
                IllegalStateError(f"the record was not sent, because its transaction has failed: {error}")
            )

    # -- partitions, in version 1 ----------------------------------------------------------------------------------

    def _add_soon(self) -> None:
        if self._adding is None:
            name = f"adding partitions to a transaction of {self.transactional_id}"
            self._adding = asyncio.get_running_loop().create_task(self._add(), name=name)

    async def _add(self) -> None:
        """Tell the coordinator of new partitions, as long as there are any."""
        machine = self.machine
        loop = asyncio.get_running_loop()
        try:
            while partitions := machine.partitions_to_add():
                machine.uncertain = True
                deadline = loop.time() + self._settings.delivery_timeout_s
                try:
                    await self._requests.add_partitions(machine.identity, partitions, deadline)
                except MoldauError as error:
                    severity = of_request(error)
                    # Out of time: its records are as well, or will be asked about again.
                    self._failed(error, Severity.ABORT if severity is Severity.RETRY else severity)
                    return
                machine.partitions_added(partitions)
                self._side.resume()
        finally:
            self._adding = None

    async def _stop_adding(self) -> None:
        if self._adding is not None:
            task = self._adding
            task.cancel()
            await asyncio.wait([task])

    # -- calls -----------------------------------------------------------------------------------------------------

    @property
    def _side(self) -> SenderSide:
        if self._sender is None:
            raise IllegalStateError("the producer was not started: use `async with`, or await `start()`")
        return self._sender

    @contextmanager
    def _alone(self, what: str) -> Iterator[float]:
        """One call at a time, of a producer that was started; gives the call's deadline."""
        _ = self._side
        if self._busy:
            raise ConcurrentUseError(f"{what} while {self._busy} is under way: a transaction has one owner")
        self._busy = what
        try:
            yield asyncio.get_running_loop().time() + self._settings.max_block_s
        finally:
            self._busy = ""

    async def init(self, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Make this the one producer of its transactional id; gives the prepared transaction that was kept."""
        machine, settings = self.machine, self._settings
        with self._alone("init_transactions()") as deadline:
            machine.begin_init()
            try:
                identity, kept, version = await self._requests.init(
                    NO_IDENTITY, settings.timeout_ms, settings.two_phase, keep_prepared, deadline
                )
            except MoldauError as error:
                severity = of_init(error)
                if severity is Severity.NOTHING:
                    machine.init_refused()
                else:
                    self._failed(error, severity)
                raise
            machine.initialised(identity, version, kept)
            return machine.prepared

    def begin(self) -> None:
        """Open a transaction. Nothing is sent for it yet."""
        if self._busy:
            raise ConcurrentUseError(f"begin_transaction() while {self._busy} is under way")
        if self.machine.state is _S.READY:
            self._side.give_up_waiting(
                IllegalStateError("the record was sent while its transaction was being ended; it is in none")
            )
        self.machine.begin()

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupIdentity) -> None:
        """Commit a consumer's offsets together with the transaction."""
        machine = self.machine
        with self._alone("send_offsets()") as deadline:
            machine.check_send("send_offsets()")
            if not offsets:
                return
            identity = machine.identity
            try:
                if machine.version >= 2:
                    machine.offsets_going()
                else:
                    machine.uncertain = True
                    await self._requests.add_offsets(identity, group.group_id, deadline)
                    machine.partitions_added(())
                await self._requests.commit_offsets(identity, offsets, group, machine.version, deadline)
            except MoldauError as error:
                self._failed(error, of_request(error))
                raise

    async def commit(self) -> None:
        """Send what waits, and commit."""
        with self._alone("commit_transaction()") as deadline:
            self.machine.begin_commit()
            await self._settled(deadline, "commit_transaction()")
            await self._end(True, deadline)

    async def abort(self) -> None:
        """Give up what waits, and abort."""
        with self._alone("abort_transaction()") as deadline:
            self.machine.begin_abort()
            await self._stop_adding()
            self._side.give_up_waiting(IllegalStateError("the record was not sent: its transaction was aborted"))
            await self._settled(deadline, "abort_transaction()")
            await self._end(False, deadline)

    async def prepare(self) -> PreparedTransaction:
        """Send what waits; the outcome is decided later, by whoever has what this returns."""
        with self._alone("prepare_transaction()") as deadline:
            self.machine.begin_prepare()
            await self._settled(deadline, "prepare_transaction()")
            return self.machine.is_prepared()

    async def complete(self, prepared: PreparedTransaction, commit: bool) -> None:
        """End a prepared transaction: this producer's own, or any other's."""
        if self.machine.state is _S.PREPARED and prepared == self.machine.prepared:
            await (self.commit() if commit else self.abort())
            return
        with self._alone("complete_transaction()") as deadline:
            await end_prepared(self._network, prepared, commit, deadline)

    async def close(self) -> None:
        """End what is open: a commit that was begun is carried through, all else aborted; what is prepared stays."""
        try:
            if self.machine.state is _S.COMMITTING:
                await self.commit()
            elif self.machine.state in OPEN:
                await self.abort()
        except MoldauError as error:
            # Its coordinator aborts it after transaction.timeout.ms.
            _log.warning("%s was closed with an open transaction: %s", self.transactional_id, error)
        finally:
            await self._stop_adding()

    # -- behind them -----------------------------------------------------------------------------------------------

    async def _settled(self, deadline: float, what: str) -> None:
        """Wait until every record of the transaction is with the brokers; raises where one cannot be."""
        machine = self.machine
        if machine.sealed:
            return  # the call is made again, and what came since is in no transaction
        try:
            async with asyncio.timeout_at(deadline):
                await self._side.flush()
        except TimeoutError:
            raise TimedOut(
                f"{what}: not all records were delivered in max.block.ms ({self._settings.max_block_s:g} s); "
                "call it again to go on"
            ) from None
        if machine.state in (_S.ABORTABLE_ERROR, _S.FATAL_ERROR):
            assert machine.error is not None
            raise another(machine.error)
        machine.seal()

    async def _end(self, commit: bool, deadline: float) -> None:
        machine = self.machine
        identity = machine.identity
        try:
            if machine.started:
                identity = await self._requests.end(identity, commit, machine.version, deadline)
            if machine.version < 2 and not commit and (machine.bump_wanted or machine.uncertain):
                # Whatever is still on its way from this transaction must not be taken for a part of the next.
                identity, _, _ = await self._requests.init(
                    identity, self._settings.timeout_ms, self._settings.two_phase, False, deadline
                )
        except MoldauError as error:
            severity = of_request(error)
            if severity is Severity.ABORT and not commit:
                severity = Severity.FATAL  # it cannot even be aborted
            self._failed(error, severity)
            raise
        machine.ended(identity)


def transactions_of(settings: ClientSettings, network: Network) -> TransactionManager | NoTransactions:
    """The transactions of a producer with these settings."""
    if settings["transactional.id"] is None:
        return NoTransactions()
    return TransactionManager(network, TransactionSettings.of(settings))
