"""Transaction manager of a producer: begins, commits and aborts transactions by the rules of `state.py`.

All of it runs in the producer's loop. The sender asks it (`TransactionHooks`) whether records of a partition may be
sent, and with which producer id. Each call of the application waits at most max.block.ms. After a timeout, or if the
task of the call was cancelled, the same call may be made again and continues where it stopped.

A record belongs to the transaction that was open when it was given to `send`, or to none. Records that are not sent yet
fail when the transaction is aborted. Records that came too late for their transaction fail when the next one begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from moldau.client.client_errors import error_copy
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import ConcurrentUseError, IllegalStateError, MoldauError, TimedOut
from moldau.client.network import Network
from moldau.client.producer.transaction_hooks import NoTransactions
from moldau.client.producer.txn.errors import Severity, of_batch, of_init, of_request
from moldau.client.producer.txn.prepared import PreparedTransaction
from moldau.client.producer.txn.requests import (
    PRODUCE_V2,
    GroupIdentity,
    TransactionRequests,
    end_prepared,
)
from moldau.client.producer.txn.state import OPEN, ProducerTxnState, TransactionMachine
from moldau.client.settings import ClientSettings
from moldau.host.event_log import event_logger
from moldau.wire.producer_identity import NO_IDENTITY

_S = ProducerTxnState
log = event_logger(__name__)


class TransactionSettings(NamedTuple):
    """The producer settings that concern transactions."""

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
    """The functions of the producer that the transaction manager calls."""

    flush: Callable[[], Awaitable[None]]
    """Waits until every record is delivered or has failed, then returns without yielding to another task."""
    resume: Callable[[], None]
    """Makes the sender look again at partitions that it held back."""
    give_up_waiting: Callable[[MoldauError], None]
    """Fails all records that are not on the wire."""


class TransactionManager:
    """The transactions of one producer. Implements `TransactionHooks` for the sender."""

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
        """Connect the manager to the sender, when the producer starts."""
        self._sender = sender

    # -- hooks for the sender --------------------------------------------------------------------------------------

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
        # Version 1: it is not known whether the broker has the batch. A new epoch lets the next transaction begin its
        # sequence numbers at 0.
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
        """Fail the buffered records in the next loop iteration, because the sender may be in the middle of a change."""
        if not self._cleaning_up:
            self._cleaning_up = True
            asyncio.get_running_loop().call_soon(self._clean_up)

    def _clean_up(self) -> None:
        self._cleaning_up = False
        error = self.machine.error
        if error is not None and self._sender is not None:
            self._sender.give_up_waiting(
                IllegalStateError(f"the record was not sent because its transaction has failed: {error}")
            )

    # -- adding partitions (version 1) -----------------------------------------------------------------------------

    def _add_soon(self) -> None:
        if self._adding is None:
            name = f"adding partitions to a transaction of {self.transactional_id}"
            self._adding = asyncio.get_running_loop().create_task(self._add(), name=name)

    async def _add(self) -> None:
        """Add new partitions at the coordinator until none is left."""
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
                    # Retriable here means that delivery.timeout.ms is over, which holds for the records as well.
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
        """Allow one call at a time, on a started producer. Yields the deadline of the call."""
        _ = self._side
        if self._busy:
            raise ConcurrentUseError(
                f"{what} was called while {self._busy} is running; "
                "call transaction methods from one task or thread only"
            )
        self._busy = what
        try:
            yield asyncio.get_running_loop().time() + self._settings.max_block_s
        finally:
            self._busy = ""

    async def init(self, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Register as the only producer of the transactional id. Return the prepared transaction that was kept."""
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
        """Begin a transaction. No request is sent for this."""
        if self._busy:
            raise ConcurrentUseError(
                f"begin_transaction() was called while {self._busy} is running; "
                "call transaction methods from one task or thread only"
            )
        if self.machine.state is _S.READY:
            self._side.give_up_waiting(
                IllegalStateError("the record was not sent: `send` was called while its transaction was being ended")
            )
        self.machine.begin()

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupIdentity) -> None:
        """Add a consumer's offsets to the transaction."""
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
        """Send the buffered records, and commit."""
        with self._alone("commit_transaction()") as deadline:
            self.machine.begin_commit()
            await self._settled(deadline, "commit_transaction()")
            await self._end(True, deadline)

    async def abort(self) -> None:
        """Fail the buffered records, wait for those on the wire, and abort."""
        with self._alone("abort_transaction()") as deadline:
            self.machine.begin_abort()
            await self._stop_adding()
            self._side.give_up_waiting(IllegalStateError("the record was not sent: its transaction was aborted"))
            await self._settled(deadline, "abort_transaction()")
            await self._end(False, deadline)

    async def prepare(self) -> PreparedTransaction:
        """Send the buffered records, and return the name by which the transaction can be completed later."""
        with self._alone("prepare_transaction()") as deadline:
            self.machine.begin_prepare()
            await self._settled(deadline, "prepare_transaction()")
            return self.machine.is_prepared()

    async def complete(self, prepared: PreparedTransaction, commit: bool) -> None:
        """Commit or abort a prepared transaction of this or another producer."""
        if self.machine.state is _S.PREPARED and prepared == self.machine.prepared:
            await (self.commit() if commit else self.abort())
            return
        with self._alone("complete_transaction()") as deadline:
            await end_prepared(self._network, prepared, commit, deadline)

    async def close(self) -> None:
        """Finish a commit that has begun, abort any other open transaction, and keep a prepared one."""
        try:
            if self.machine.state is _S.COMMITTING:
                await self.commit()
            elif self.machine.state in OPEN:
                await self.abort()
        except MoldauError as error:
            # The coordinator aborts the transaction after transaction.timeout.ms.
            log.warning(
                "producer closed with an open transaction",
                extra={"transactional_id": self.transactional_id, "reason": str(error)},
            )
        finally:
            await self._stop_adding()

    # -- ending a transaction --------------------------------------------------------------------------------------

    async def _settled(self, deadline: float, what: str) -> None:
        """Wait until every record of the transaction is delivered. Raises the error if one has failed."""
        machine = self.machine
        if machine.sealed:
            return  # the call is repeated; records that were sent since are not part of the transaction
        try:
            async with asyncio.timeout_at(deadline):
                await self._side.flush()
        except TimeoutError:
            raise TimedOut(
                f"{what}: not all records were delivered within max.block.ms ({self._settings.max_block_s:g} s); "
                "call it again to continue"
            ) from None
        if machine.state in (_S.ABORTABLE_ERROR, _S.FATAL_ERROR):
            assert machine.error is not None
            raise error_copy(machine.error)
        machine.seal()

    async def _end(self, commit: bool, deadline: float) -> None:
        machine = self.machine
        identity = machine.identity
        try:
            if machine.started:
                identity = await self._requests.end(identity, commit, machine.version, deadline)
            if machine.version < 2 and not commit and (machine.bump_wanted or machine.uncertain):
                # A late request of this transaction must not add records to the next one: a new epoch fences it.
                identity, _, _ = await self._requests.init(
                    identity, self._settings.timeout_ms, self._settings.two_phase, False, deadline
                )
        except MoldauError as error:
            severity = of_request(error)
            if severity is Severity.ABORT and not commit:
                severity = Severity.FATAL  # the abort itself failed
            self._failed(error, severity)
            raise
        machine.ended(identity)


def transactions_of(settings: ClientSettings, network: Network) -> TransactionManager | NoTransactions:
    """Return the transaction manager for these settings, or NoTransactions without a transactional.id."""
    if settings["transactional.id"] is None:
        return NoTransactions()
    return TransactionManager(network, TransactionSettings.of(settings))
