"""Producer behind a network that cuts, loses and refuses: no loss, no duplicates, no reordering."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable

import pytest

from moldau import errors
from moldau.wire.api import ApiKey
from tests.client.producer.support import PATIENCE_S, producer, values
from tests.support.adversity import AdversityProxy, Spoil

SHORT = {"request_timeout_ms": 2_000, "delivery_timeout_ms": 100_000, "reconnect_backoff_ms": 10}


@pytest.mark.parametrize("how", Spoil)
def test_a_produce_request_that_breaks_off_is_sent_again_and_stored_once(
    bootstrap: str, topic: str, how: Spoil
) -> None:
    with AdversityProxy(bootstrap) as proxy, producer(proxy.bootstrap, batch_size=200, **SHORT) as p:
        p.send(topic, b"first").result(PATIENCE_S)
        proxy.spoil(how, ApiKey.PRODUCE)
        futures = [p.send(topic, b"%d" % i) for i in range(100)]
        proxy.wait_until_spoiled()
        assert [future.result(PATIENCE_S).offset for future in futures] == list(range(1, 101))
    assert values(bootstrap, topic) == [b"first", *(b"%d" % i for i in range(100))]


def test_a_network_that_misbehaves_again_and_again_changes_nothing(
    bootstrap: str, new_topic: Callable[..., str], seed: int, count: Callable[[int, int], int]
) -> None:
    topic = new_topic(partitions=2)
    chance = random.Random(seed)
    sent: list[list[bytes]] = [[], []]
    stop = threading.Event()
    with AdversityProxy(bootstrap) as proxy, producer(proxy.bootstrap, batch_size=500, **SHORT) as p:

        def keep_sending() -> None:
            number = 0
            while not stop.is_set():
                for _ in range(20):
                    value = b"%d" % number
                    p.send(topic, value, partition=number % 2)
                    sent[number % 2].append(value)
                    number += 1
                time.sleep(0.001)  # a paced sender: faults strike between its bursts

        sender = threading.Thread(target=keep_sending)
        sender.start()
        try:
            for _ in range(count(4, 200)):
                print(proxy.misbehave(chance, longest_s=0.1))
        finally:
            stop.set()
            sender.join()
        p.flush(PATIENCE_S)
        assert p.metrics()["record-error-total"] == 0
    for partition in range(2):
        assert values(bootstrap, topic, partition) == sent[partition]


def test_a_record_that_is_not_delivered_in_time_fails_and_the_next_one_arrives(bootstrap: str, topic: str) -> None:
    settings = {"request_timeout_ms": 200, "delivery_timeout_ms": 400, "reconnect_backoff_ms": 10}
    with AdversityProxy(bootstrap) as proxy, producer(proxy.bootstrap, **settings) as p:
        p.send(topic, b"before").result(PATIENCE_S)
        with proxy.refusing():
            proxy.cut()
            late = p.send(topic, b"too late")
            with pytest.raises(errors.TimedOut, match=r"delivery\.timeout\.ms \(0\.4 s\)"):
                late.result(PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while True:  # one attempt may fall into the pause before the next connection
            try:
                p.send(topic, b"after").result(PATIENCE_S)
                break
            except errors.TimedOut:
                assert time.monotonic() < deadline
    assert values(bootstrap, topic)[0] == b"before"
    assert values(bootstrap, topic)[-1] == b"after"


def test_full_memory_makes_send_wait_at_most_max_block(bootstrap: str, topic: str) -> None:
    settings = {"buffer_memory": 3_000, "max_block_ms": 200, "batch_size": 500}
    with AdversityProxy(bootstrap) as proxy, producer(proxy.bootstrap, **settings) as p:
        p.send(topic, b"first").result(PATIENCE_S)
        with proxy.black_hole():
            accepted = 0
            with pytest.raises(errors.BufferFull, match=r"buffer\.memory"):  # noqa: PT012
                while True:
                    p.send(topic, b"x" * 100)
                    accepted += 1
                    assert accepted < 100
        p.flush(PATIENCE_S)
        assert p.send(topic, b"last").result(PATIENCE_S).offset == accepted + 1


def test_threads_that_wait_for_memory_are_all_served(bootstrap: str, topic: str) -> None:
    with producer(bootstrap, buffer_memory=2_000, batch_size=500, max_block_ms=100_000) as p:

        def send(thread: int) -> None:
            for i in range(100):
                p.send(topic, b"%d-%d" % (thread, i) + b"x" * 100)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        p.flush(PATIENCE_S)
    assert len(values(bootstrap, topic)) == 400


def test_closing_gives_up_records_that_cannot_be_sent_in_time(bootstrap: str, topic: str) -> None:
    with AdversityProxy(bootstrap) as proxy:
        p = producer(proxy.bootstrap)
        p.send(topic, b"first").result(PATIENCE_S)
        with proxy.black_hole():
            future = p.send(topic, b"never answered")
            p.close(timeout=0.1)
        with pytest.raises(errors.ClosedError, match="closed before"):
            future.result(PATIENCE_S)


def test_a_forked_child_cannot_use_the_producer_of_its_parent(bootstrap: str, topic: str) -> None:
    with producer(bootstrap) as p:
        p.send(topic, b"parent").result(PATIENCE_S)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            said = "nothing"
            try:
                p.send(topic, b"child")
            except errors.ClosedError as error:
                said = str(error)
            finally:
                os.write(write, said.encode())
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            assert "before a fork" in answer.read()
        os.waitpid(child, 0)
        assert p.send(topic, b"parent again").result(PATIENCE_S).offset == 1
    assert values(bootstrap, topic) == [b"parent", b"parent again"]
