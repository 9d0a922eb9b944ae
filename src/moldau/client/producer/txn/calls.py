"""Transaction methods of both producers: the same calls for asyncio and for threads.

    with producer.transaction():                     # commits at the end; aborts if the block raises
        producer.send("orders", b"value")
        producer.send_offsets(offsets, consumer.group_metadata())

The explicit calls have Kafka's names: init_transactions, begin_transaction, commit_transaction, abort_transaction.
After TimedOut, make the same call again. ProducerFenced means that a newer producer uses the transactional id: close
this producer. After most other errors abort the transaction, which `with` does, and then try it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from moldau.client import arguments
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import IllegalStateError, MoldauError
from moldau.client.producer.txn.prepared import PreparedTransaction
from moldau.client.producer.txn.requests import GroupIdentity, end_prepared
from moldau.client.producer.txn.state import ProducerTxnState
from moldau.client.producer.txn.transaction_manager import TransactionManager

if TYPE_CHECKING:
    from moldau.client.loop_thread import LoopThread
    from moldau.client.producer.core import ProducerCore

_S = ProducerTxnState

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


class GroupName:
    """A group whose member is not known. The coordinator then cannot fence a member that lost its partitions."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.generation_id = -1
        self.member_id = ""
        self.group_instance_id: str | None = None


def _group_of(given: GroupIdentity | str) -> GroupIdentity:
    if isinstance(given, str):
        return GroupName(given)
    if not all(hasattr(given, name) for name in ("group_id", "generation_id", "member_id", "group_instance_id")):
        arguments.refuse("group", given, "`consumer.group_metadata()`, or the group id")
    return given


def manager_of(core: ProducerCore) -> TransactionManager:
    """Return the producer's transaction manager. Raises IllegalStateError if it has no transactional.id."""
    if not isinstance(core.transactions, TransactionManager):
        raise IllegalStateError("this producer is not transactional; set transactional.id to use transactions")
    return core.transactions


class AioTransactionCalls:
    """Transaction methods of the asyncio producer."""

    _core: ProducerCore

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Register this producer as the only one with its transactional.id. Call it once, before the first transaction.

        The coordinator fences earlier producers with the same id and aborts a transaction that they left open. With
        `keep_prepared` it keeps a prepared transaction, and this method returns it: commit or abort it before the next
        transaction begins. Otherwise the method returns None.

        Raises TimedOut after max.block.ms: call it again then. Raises IllegalStateError if the producer has no
        transactional.id or was initialised before.
        """
        return await manager_of(self._core).init(keep_prepared)

    async def begin_transaction(self) -> None:
        """Begin a transaction: the records of each later `send` are part of it.

        Raises IllegalStateError if init_transactions() was not called or another transaction is open.
        """
        manager_of(self._core).begin()

    async def send_offsets(self, offsets: Offsets, group: GroupIdentity | str) -> None:
        """Add a consumer's offsets to the transaction; the coordinator commits them together with its records.

        `offsets` maps each TopicPartition to the offset of the next record to read. `group` is the consumer's
        `group_metadata()`: then a consumer that has lost its partitions cannot commit, and CommitFailed is raised. A
        group id alone gives no such protection.
        """
        given = arguments.offsets("offsets", offsets)
        await manager_of(self._core).send_offsets(given, _group_of(group))

    async def commit_transaction(self) -> None:
        """Send the buffered records, wait until the brokers have them, and commit the transaction.

        Raises the error of a record that failed: abort the transaction then. If the error is `retriable`, for example
        TimedOut after max.block.ms, call this method again: the transaction may be committed already.
        """
        await manager_of(self._core).commit()

    async def abort_transaction(self) -> None:
        """Abort the transaction: consumers with read_committed never see its records and offsets.

        Buffered records of the transaction are not sent; their futures fail with IllegalStateError. Records that are
        on their way to a broker are waited for. After TimedOut (max.block.ms) call it again.
        """
        await manager_of(self._core).abort()

    async def prepare_transaction(self) -> PreparedTransaction:
        """Send the buffered records and prepare the transaction: nothing can be added to it after this.

        Return the name of the prepared transaction. This or another process commits or aborts it later, with
        `complete_transaction`. With transaction.two.phase.commit.enable it stays prepared until then; otherwise the
        coordinator aborts it when transaction.timeout.ms is over.
        """
        return await manager_of(self._core).prepare()

    async def complete_transaction(self, prepared: PreparedTransaction, *, commit: bool = True) -> None:
        """Commit or abort a prepared transaction of this or another producer. No transactional.id is needed for it.

        A second call with the same outcome has no effect. Raises InvalidTxnState if the transaction was ended with the
        other outcome. Raises ProducerFenced or InvalidProducerIdMapping if another producer has used the transactional
        id since; the prepared transaction is aborted then.
        """
        core = self._core
        arguments.instance("prepared", prepared, PreparedTransaction, "`PreparedTransaction.parse(text)` returns")
        arguments.text("transactional_id of prepared", prepared.transactional_id)
        arguments.number("producer_id of prepared", prepared.producer_id)
        arguments.number("epoch of prepared", prepared.epoch)
        if isinstance(core.transactions, TransactionManager):
            await core.transactions.complete(prepared, commit)
        else:
            deadline = asyncio.get_running_loop().time() + core.config.max_block_s
            await end_prepared(core.network, prepared, commit, deadline)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Run an `async with` block as one transaction: commit at its end, abort if it raises.

        The first transaction calls init_transactions() if the application has not done so. The block may also commit,
        abort or prepare the transaction itself.
        """
        manager = manager_of(self._core)
        await _enter(manager)
        try:
            yield
            await _leave(manager)
        except BaseException as error:
            await _abort(manager, error)
            raise


async def _enter(manager: TransactionManager) -> None:
    if manager.machine.state in (_S.UNINITIALISED, _S.INITIALISING):
        await manager.init()
    manager.begin()


async def _leave(manager: TransactionManager) -> None:
    """Commit, unless the block has ended the transaction itself. Raises the error of a failed transaction."""
    if manager.machine.state in (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR, _S.FATAL_ERROR):
        await manager.commit()


async def _abort(manager: TransactionManager, why: BaseException) -> None:
    """Abort after an error in the block. A failure to abort becomes a note of that error and does not replace it."""
    if manager.machine.state not in (_S.IN_TRANSACTION, _S.PREPARING, _S.ABORTABLE_ERROR, _S.ABORTING):
        return
    try:
        await manager.abort()
    except MoldauError as error:
        why.add_note(f"the transaction was not aborted: {error}")


class BlockingTransactionCalls:
    """Transaction methods of the blocking producer: each call runs in the loop while the calling thread waits."""

    _core: ProducerCore
    _thread: LoopThread

    @property
    def _aio(self) -> AioTransactionCalls:
        calls = AioTransactionCalls()
        calls._core = self._core
        return calls

    def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Register this producer as the only one with its transactional.id. Call it once, before the first transaction.

        The coordinator fences earlier producers with the same id and aborts a transaction that they left open. With
        `keep_prepared` it keeps a prepared transaction, and this method returns it: commit or abort it before the next
        transaction begins. Otherwise the method returns None.

        Raises TimedOut after max.block.ms: call it again then. Raises IllegalStateError if the producer has no
        transactional.id or was initialised before.
        """
        return self._thread.run(self._aio.init_transactions(keep_prepared=keep_prepared))

    def begin_transaction(self) -> None:
        """Begin a transaction: the records of each later `send` are part of it.

        Raises IllegalStateError if init_transactions() was not called or another transaction is open.
        """
        self._thread.run(self._aio.begin_transaction())

    def send_offsets(self, offsets: Offsets, group: GroupIdentity | str) -> None:
        """Add a consumer's offsets to the transaction; the coordinator commits them together with its records.

        `offsets` maps each TopicPartition to the offset of the next record to read. `group` is the consumer's
        `group_metadata()`: then a consumer that has lost its partitions cannot commit, and CommitFailed is raised. A
        group id alone gives no such protection.
        """
        self._thread.run(self._aio.send_offsets(offsets, group))

    def commit_transaction(self) -> None:
        """Send the buffered records, wait until the brokers have them, and commit the transaction.

        Raises the error of a record that failed: abort the transaction then. If the error is `retriable`, for example
        TimedOut after max.block.ms, call this method again: the transaction may be committed already.
        """
        self._thread.run(self._aio.commit_transaction())

    def abort_transaction(self) -> None:
        """Abort the transaction: consumers with read_committed never see its records and offsets.

        Buffered records of the transaction are not sent; their futures fail with IllegalStateError. Records that are
        on their way to a broker are waited for. After TimedOut (max.block.ms) call it again.
        """
        self._thread.run(self._aio.abort_transaction())

    def prepare_transaction(self) -> PreparedTransaction:
        """Send the buffered records and prepare the transaction: nothing can be added to it after this.

        Return the name of the prepared transaction. This or another process commits or aborts it later, with
        `complete_transaction`. With transaction.two.phase.commit.enable it stays prepared until then; otherwise the
        coordinator aborts it when transaction.timeout.ms is over.
        """
        return self._thread.run(self._aio.prepare_transaction())

    def complete_transaction(self, prepared: PreparedTransaction, *, commit: bool = True) -> None:
        """Commit or abort a prepared transaction of this or another producer. No transactional.id is needed for it.

        A second call with the same outcome has no effect. Raises InvalidTxnState if the transaction was ended with the
        other outcome. Raises ProducerFenced or InvalidProducerIdMapping if another producer has used the transactional
        id since; the prepared transaction is aborted then.
        """
        self._thread.run(self._aio.complete_transaction(prepared, commit=commit))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a `with` block as one transaction: commit at its end, abort if it raises.

        The first transaction calls init_transactions() if the application has not done so. The block may also commit,
        abort or prepare the transaction itself.
        """
        manager = manager_of(self._core)
        self._thread.run(_enter(manager))
        try:
            yield
            self._thread.run(_leave(manager))
        except BaseException as error:
            self._thread.run(_abort(manager, error))
            raise
