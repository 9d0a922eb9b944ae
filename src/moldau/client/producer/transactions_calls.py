"""Transactions as applications call them: the same calls for asyncio and for threads.

    with producer.transaction():                     # commits at the end; aborts if the block raises
        producer.send("orders", b"value")
        producer.send_offsets(offsets, consumer.group_metadata())

The explicit calls are Kafka's: init_transactions, begin_transaction, commit_transaction, abort_transaction. After a
time-out the same call may be made again. ProducerFenced means that a newer producer has the transactional id: close
this one. Most other errors mean that the transaction must be aborted, which `with` does, and can then be tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from moldau.client.errors import IllegalStateError, MoldauError
from moldau.client.model import OffsetAndMetadata, TopicPartition
from moldau.client.producer.transactions import TransactionManager
from moldau.client.producer.transactions_prepared import PreparedTransaction
from moldau.client.producer.transactions_requests import GroupIdentity, end_prepared
from moldau.client.producer.transactions_state import TransactionState

if TYPE_CHECKING:
    from moldau.client.loop_thread import LoopThread
    from moldau.client.producer.core import ProducerCore

_S = TransactionState

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


class GroupName:
    """A group of which nothing but the name is known: no member of it is fenced."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.generation_id = -1
        self.member_id = ""
        self.group_instance_id: str | None = None


def manager_of(core: ProducerCore) -> TransactionManager:
    """The producer's transactions; IllegalStateError where it has none."""
    if not isinstance(core.transactions, TransactionManager):
        raise IllegalStateError("this producer has no transactions; give it a transactional.id")
    return core.transactions


class AioTransactionCalls:
    """The transactional part of the producer for asyncio."""

    _core: ProducerCore

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Make this the one producer of its transactional.id: call it once, before the first transaction.

        A producer of the same id that came before is fenced, and a transaction that it left open is aborted. With
        `keep_prepared` one that it left prepared stays and is returned: it has to be committed or aborted first.
        """
        return await manager_of(self._core).init(keep_prepared)

    async def begin_transaction(self) -> None:
        """From now on `send` adds to a transaction."""
        manager_of(self._core).begin()

    async def send_offsets(self, offsets: Offsets, group: GroupIdentity | str) -> None:
        """Have a consumer's offsets committed with the transaction: (topic, partition) to the offset to read next.

        `group` is the consumer's `group_metadata()`, so that a consumer that has lost its partitions cannot commit;
        the group's name alone gives no such protection.
        """
        given = {
            TopicPartition(*partition): OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for partition, offset in offsets.items()
        }
        await manager_of(self._core).send_offsets(given, GroupName(group) if isinstance(group, str) else group)

    async def commit_transaction(self) -> None:
        """Send what waits, then commit. Raises what keeps it from that; `retriable` ones may be tried again."""
        await manager_of(self._core).commit()

    async def abort_transaction(self) -> None:
        """Give up what waits, then abort."""
        await manager_of(self._core).abort()

    async def prepare_transaction(self) -> PreparedTransaction:
        """Send what waits and freeze the transaction; its outcome is decided later, also by another process.

        With transaction.two.phase.commit.enable it stays until it is ended; without, transaction.timeout.ms goes on.
        """
        return await manager_of(self._core).prepare()

    async def complete_transaction(self, prepared: PreparedTransaction, *, commit: bool = True) -> None:
        """Commit or abort a prepared transaction, this producer's or another's; this one needs no transactional.id.

        Doing it twice changes nothing. InvalidTxnState: it was ended the other way. ProducerFenced or
        InvalidProducerIdMapping: its transactional id was taken over since, and what was prepared is aborted.
        """
        core = self._core
        if isinstance(core.transactions, TransactionManager):
            await core.transactions.complete(prepared, commit)
        else:
            deadline = asyncio.get_running_loop().time() + core.config.max_block_s
            await end_prepared(core.network, prepared, commit, deadline)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """`async with`: one transaction, committed at the end, aborted if the block raises.

        The first one calls init_transactions() if that was not done. A block may end or prepare the transaction itself.
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
    """Commit, unless the block has ended the transaction; where it has failed, this raises why."""
    if manager.machine.state in (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR, _S.FATAL_ERROR):
        await manager.commit()


async def _abort(manager: TransactionManager, why: BaseException) -> None:
    """After an error, which must be heard whatever comes of this."""
    if manager.machine.state not in (_S.IN_TRANSACTION, _S.PREPARING, _S.ABORTABLE_ERROR, _S.ABORTING):
        return
    try:
        await manager.abort()
    except MoldauError as error:
        why.add_note(f"the transaction was not aborted: {error}")


class BlockingTransactionCalls:
    """The transactional part of the blocking producer: each call in the loop, while the calling thread waits."""

    _core: ProducerCore
    _thread: LoopThread

    @property
    def _aio(self) -> AioTransactionCalls:
        calls = AioTransactionCalls()
        calls._core = self._core
        return calls

    def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Make this the one producer of its transactional.id: call it once, before the first transaction.

        A producer of the same id that came before is fenced, and a transaction that it left open is aborted. With
        `keep_prepared` one that it left prepared stays and is returned: it has to be committed or aborted first.
        """
        return self._thread.run(self._aio.init_transactions(keep_prepared=keep_prepared))

    def begin_transaction(self) -> None:
        """From now on `send` adds to a transaction."""
        self._thread.run(self._aio.begin_transaction())

    def send_offsets(self, offsets: Offsets, group: GroupIdentity | str) -> None:
        """Have a consumer's offsets committed with the transaction: (topic, partition) to the offset to read next.

        `group` is the consumer's `group_metadata()`, so that a consumer that has lost its partitions cannot commit;
        the group's name alone gives no such protection.
        """
        self._thread.run(self._aio.send_offsets(offsets, group))

    def commit_transaction(self) -> None:
        """Send what waits, then commit. Raises what keeps it from that; `retriable` ones may be tried again."""
        self._thread.run(self._aio.commit_transaction())

    def abort_transaction(self) -> None:
        """Give up what waits, then abort."""
        self._thread.run(self._aio.abort_transaction())

    def prepare_transaction(self) -> PreparedTransaction:
        """Send what waits and freeze the transaction; its outcome is decided later, also by another process.

        With transaction.two.phase.commit.enable it stays until it is ended; without, transaction.timeout.ms goes on.
        """
        return self._thread.run(self._aio.prepare_transaction())

    def complete_transaction(self, prepared: PreparedTransaction, *, commit: bool = True) -> None:
        """Commit or abort a prepared transaction, this producer's or another's; this one needs no transactional.id.

        Doing it twice changes nothing. InvalidTxnState: it was ended the other way. ProducerFenced or
        InvalidProducerIdMapping: its transactional id was taken over since, and what was prepared is aborted.
        """
        self._thread.run(self._aio.complete_transaction(prepared, commit=commit))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """`with`: one transaction, committed at the end, aborted if the block raises.

        The first one calls init_transactions() if that was not done. A block may end or prepare the transaction itself.
        """
        manager = manager_of(self._core)
        self._thread.run(_enter(manager))
        try:
            yield
            self._thread.run(_leave(manager))
        except BaseException as error:
            self._thread.run(_abort(manager, error))
            raise
