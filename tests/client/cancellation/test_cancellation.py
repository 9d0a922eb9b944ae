"""Cancellation of every call at every await: the client stays usable or is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from moldau.aio import Admin, Consumer, Producer
from moldau.client.admin.topics import NewTopic
from moldau.client.data_types import TopicPartition
from moldau.client.errors import ClosedError
from moldau.client.network import ANY_NODE, CoordinatorKind, Network
from moldau.wire.messages.describe_cluster import DescribeClusterRequest
from tests.client.cancellation.interrupt import PATIENCE_S, at_every_suspension, cancel_at, in_time
from tests.client.core.support import network, run, soon
from tests.support.process import BrokerProcess
from tests.support.waiting import loop_turns

RECORDS = 30


# The network under all clients ----------------------------------------------------------------------------------------

Ask = Callable[[Network, str], Coroutine[Any, Any, object]]

QUESTIONS: dict[str, Ask] = {
    "refreshed": lambda client, _: client.refreshed(soon()),
    "topic": lambda client, topic: client.topic(topic, soon()),
    "call": lambda client, _: client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon()),
    "coordinator": lambda client, topic: client.coordinator(CoordinatorKind.GROUP, topic, soon()),
    "retrying": lambda client, _: client.retrying(
        lambda: client.call(ANY_NODE, DescribeClusterRequest(), deadline=soon()), deadline=soon(), what="asking"
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_cancelled_request_to_the_cluster_can_be_repeated(bootstrap: str, topic: str, question: str) -> None:
    ask = QUESTIONS[question]

    async def scenario(k: int) -> bool:
        async with network(bootstrap) as client:
            cancelled = await cancel_at(k, ask(client, topic))
            assert await ask(client, topic)
            return cancelled

    assert run(at_every_suspension(scenario)) >= 1


def test_a_network_that_was_cancelled_while_closing_is_closed(bootstrap: str) -> None:
    async def scenario(k: int) -> bool:
        async with network(bootstrap) as client:
            waiting = asyncio.ensure_future(client.refreshed(soon()))
            await loop_turns()
            cancelled = await cancel_at(k, client.close())
            with pytest.raises(ClosedError):
                await in_time(client.refreshed(soon()))
            await in_time(client.close())
            assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], ClosedError)
            return cancelled

    run(at_every_suspension(scenario))


# Producer -------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def producer_of(bootstrap: str) -> Any:
    producer = Producer(bootstrap_servers=bootstrap, linger_ms=0)
    await producer.start()
    try:
        yield producer
    finally:
        await in_time(producer.close())


async def stored(bootstrap: str, topic: str) -> list[bytes]:
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        partition = TopicPartition(topic, 0)
        await consumer.assign([partition])
        end = (await consumer.end_offsets(partition))[partition]
        values: list[bytes] = []
        while await consumer.position(partition) < end:
            values += [record.value for record in await consumer.poll(1.0)]
        return values


def test_only_the_record_whose_send_was_cancelled_is_not_sent(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        sent: list[bytes] = []

        async def scenario(k: int) -> bool:
            async with producer_of(bootstrap) as producer:
                value = b"first %d" % k
                cancelled = await cancel_at(k, producer.send(topic, value))
                sent.extend([] if cancelled else [value])
                future = await in_time(producer.send(topic, b"second %d" % k))
                assert (await in_time(_wait(future))).topic == topic
                sent.append(b"second %d" % k)
                return cancelled

        assert await at_every_suspension(scenario) >= 1
        assert await stored(bootstrap, topic) == sent

    run(main())


async def _wait(future: Any) -> Any:
    return await future


def test_cancelling_the_wait_for_a_record_does_not_cancel_the_record(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        sent: list[bytes] = []

        async def scenario(k: int) -> bool:
            async with producer_of(bootstrap) as producer:
                value = b"%d" % k
                sent.append(value)
                future = await producer.send(topic, value)
                return await cancel_at(k, _wait(future))

        assert await at_every_suspension(scenario) >= 1
        assert await stored(bootstrap, topic) == sent

    run(main())


@pytest.mark.parametrize("call", ["flush", "close", "partitions_for"])
def test_a_cancelled_producer_call_can_be_repeated(bootstrap: str, topic: str, call: str) -> None:
    async def main() -> None:
        sent: list[bytes] = []

        def make(producer: Producer) -> Coroutine[Any, Any, Any]:
            return producer.partitions_for(topic) if call == "partitions_for" else getattr(producer, call)()

        async def scenario(k: int) -> bool:
            async with producer_of(bootstrap) as producer:
                values = [b"%d.%d" % (k, i) for i in range(RECORDS)]
                sent.extend(values)
                futures = [await producer.send(topic, value) for value in values]
                cancelled = await cancel_at(k, make(producer))
                await in_time(make(producer))
                for future in futures:
                    await in_time(_wait(future))
                return cancelled

        await at_every_suspension(scenario)
        assert await stored(bootstrap, topic) == sent

    run(main())


# Consumer -------------------------------------------------------------------------------------------------------------


async def fill(bootstrap: str, topic: str, records: int = RECORDS) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for i in range(records):
            await producer.send(topic, b"%d" % i)


def consumer_of(bootstrap: str) -> Consumer:
    return Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=7)


async def read_all(consumer: Consumer, values: list[bytes]) -> list[bytes]:
    async with asyncio.timeout(PATIENCE_S):
        while len(values) < RECORDS:
            values += [record.value for record in await consumer.poll(1.0)]
    return values


def test_polls_that_are_cancelled_lose_no_record(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        await fill(bootstrap, topic)
        everything = [b"%d" % i for i in range(RECORDS)]

        async def scenario(k: int) -> bool:
            async with consumer_of(bootstrap) as consumer:
                await consumer.assign([TopicPartition(topic, 0)])
                values: list[bytes] = []

                async def poll() -> None:
                    values.extend(record.value for record in await consumer.poll(30.0))

                cancelled = await cancel_at(k, poll())
                again = await cancel_at(1, poll())
                assert await read_all(consumer, values) == everything
                return cancelled or again

        assert await at_every_suspension(scenario) >= 1

    run(main())


CALLS: dict[str, Callable[[Consumer, TopicPartition], Coroutine[Any, Any, object]]] = {
    "position": lambda consumer, partition: consumer.position(partition),
    "end_offsets": lambda consumer, partition: consumer.end_offsets(partition),
    "offsets_for_times": lambda consumer, partition: consumer.offsets_for_times({partition: 0}),
    "lag": lambda consumer, partition: consumer.lag(partition),
    "partitions_for": lambda consumer, partition: consumer.partitions_for(partition.topic),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_cancelled_consumer_request_can_be_repeated(bootstrap: str, topic: str, call: str) -> None:
    ask = CALLS[call]

    async def main() -> None:
        partition = TopicPartition(topic, 0)
        await fill(bootstrap, topic)

        async def scenario(k: int) -> bool:
            async with consumer_of(bootstrap) as consumer:
                await consumer.assign([partition])
                cancelled = await cancel_at(k, ask(consumer, partition))
                await in_time(ask(consumer, partition))
                assert len(await read_all(consumer, [])) == RECORDS
                return cancelled

        await at_every_suspension(scenario)

    run(main())


PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"session_timeout_ms": 3_000, "heartbeat_interval_ms": 200},
    "consumer": {"group_protocol": "consumer"},
}


def member_of(group: str, bootstrap: str, topic: str, protocol: str) -> Consumer:
    return Consumer(
        topic,
        group_id=group,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **PROTOCOLS[protocol],
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("call", ["commit", "committed"])
def test_a_cancelled_member_call_can_be_repeated(
    mortal_broker: BrokerProcess, unused_name: Callable[[], str], protocol: str, call: str
) -> None:
    async def main(bootstrap: str, topic: str) -> None:
        partition = TopicPartition(topic, 0)
        await fill(bootstrap, topic)
        async with member_of(topic, bootstrap, topic, protocol) as consumer:
            assert len(await read_all(consumer, [])) == RECORDS

            async def scenario(k: int) -> bool:
                waiting = consumer.commit() if call == "commit" else consumer.committed(partition)
                cancelled = await cancel_at(k, waiting)
                await in_time(consumer.commit())
                found = await in_time(consumer.committed(partition))
                assert found[partition].offset == RECORDS
                return cancelled

            assert await at_every_suspension(scenario) >= 1

    run(main(mortal_broker.bootstrap, unused_name()))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_was_cancelled_while_joining_joins_in_a_later_poll(
    mortal_broker: BrokerProcess, unused_name: Callable[[], str], protocol: str
) -> None:
    async def main(bootstrap: str, topic: str) -> None:
        await fill(bootstrap, topic)

        async def scenario(k: int) -> bool:
            async with member_of(unused_name(), bootstrap, topic, protocol) as consumer:
                values: list[bytes] = []

                async def poll() -> None:
                    while not values:
                        values.extend(record.value for record in await consumer.poll(1.0))

                cancelled = await cancel_at(k, poll())
                assert await read_all(consumer, values) == [b"%d" % i for i in range(RECORDS)]
                return cancelled

        assert await at_every_suspension(scenario) >= 1

    run(main(mortal_broker.bootstrap, unused_name()))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_was_cancelled_while_closing_is_closed_and_another_can_take_over(
    mortal_broker: BrokerProcess, unused_name: Callable[[], str], protocol: str
) -> None:
    async def main(bootstrap: str, topic: str) -> None:
        await fill(bootstrap, topic)

        async def scenario(k: int) -> bool:
            group = unused_name()
            async with member_of(group, bootstrap, topic, protocol) as consumer:
                await read_all(consumer, [])
                cancelled = await cancel_at(k, consumer.close())
                await in_time(consumer.close())
                with pytest.raises(ClosedError):
                    await consumer.poll(1.0)
            async with member_of(group, bootstrap, topic, protocol) as successor:
                assert len(await read_all(successor, [])) == RECORDS
            return cancelled

        assert await at_every_suspension(scenario) >= 1

    run(main(mortal_broker.bootstrap, unused_name()))


# Admin ----------------------------------------------------------------------------------------------------------------


def test_a_cancelled_admin_call_can_be_repeated(bootstrap: str, unused_name: Callable[[], str]) -> None:
    async def scenario(k: int) -> bool:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            cancelled = await cancel_at(k, admin.create_topics([NewTopic(unused_name(), 1)]))
            name = unused_name()
            await in_time(admin.create_topics([NewTopic(name, 1)]))
            assert name in {one.name for one in await in_time(admin.list_topics())}
            return cancelled

    assert run(at_every_suspension(scenario)) >= 1
