"""Delivery under any network behaviour: no loss, no duplicates, no reordering.

A simulation with a seed (see simulation.py), with the real accumulator, sender, rules and request bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.client.errors import MoldauError, TimedOut
from tests.unit.client.producer.simulation import ProducerSimulation

LONG_S = 3600.0

TROUBLE = {
    "lost before": 0.05,
    "lost after": 0.05,
    "late requests": 0.5,
    "not leader": 0.1,
    "after append": 0.1,
}


def play(simulation: ProducerSimulation, rounds: int = 20) -> None:
    """An application that sends in bursts, until the result of every record is known."""
    for number in range(rounds):
        for _ in range(simulation.chance.randrange(8)):
            partition = simulation.chance.randrange(len(simulation.logs))
            simulation.send(partition, b"%d-%d-%d" % (partition, number, len(simulation.sent[partition])))
        simulation.loop.run_until(simulation.loop.now + simulation.chance.uniform(0, 0.02))
    simulation.loop.run_until(simulation.loop.now + LONG_S)


def delivered(simulation: ProducerSimulation, partition: int) -> list[bytes]:
    """The values whose futures report success."""
    values = []
    for value, future in simulation.sent[partition]:
        assert future.done(), value
        if future.exception(0) is None:
            values.append(value)
    return values


@pytest.fixture
def seeds(count: Callable[[int, int], int]) -> range:
    return range(count(25, 5_000))


def test_with_retries_every_record_is_there_once_and_in_order(seeds: range) -> None:
    for seed in seeds:
        in_flight = str(1 + seed % 5)
        simulation = ProducerSimulation(
            seed, TROUBLE, max_in_flight_requests_per_connection=in_flight, delivery_timeout_ms="2000000"
        )
        play(simulation)
        for partition, log in enumerate(simulation.logs):
            assert log.values == [value for value, _ in simulation.sent[partition]], seed
            assert delivered(simulation, partition) == log.values, seed
        assert simulation.accumulator.memory_used == 0 and simulation.sender.in_flight == 0, seed


def test_offsets_are_those_of_the_log(seeds: range) -> None:
    for seed in seeds:
        simulation = ProducerSimulation(seed, TROUBLE, delivery_timeout_ms="2000000")
        play(simulation)
        for partition, log in enumerate(simulation.logs):
            for value, future in simulation.sent[partition]:
                assert log.values[future.result(0).offset] == value, seed


def test_expired_and_refused_records_neither_delay_nor_duplicate_the_others(seeds: range) -> None:
    for seed in seeds:
        trouble = TROUBLE | {"invalid": 0.03, "lost before": 0.2, "lost after": 0.2}
        simulation = ProducerSimulation(
            seed, trouble, delivery_timeout_ms="150", request_timeout_ms="100", retry_backoff_ms="20"
        )
        play(simulation)
        for partition, log in enumerate(simulation.logs):
            good = delivered(simulation, partition)
            assert len(set(log.values)) == len(log.values), seed
            # Failed records may be in the log, if their result was unknown. Delivered records are in it, in order.
            wanted = set(good)
            assert [value for value in log.values if value in wanted] == good, seed
        assert simulation.accumulator.memory_used == 0, seed


def test_batches_written_by_a_former_leader_are_never_duplicated(seeds: range) -> None:
    for seed in seeds:
        simulation = ProducerSimulation(
            seed, TROUBLE | {"leader moves after append": 0.2}, delivery_timeout_ms="2000000"
        )
        play(simulation)
        for log in simulation.logs:
            assert len(set(log.values)) == len(log.values), seed


def test_a_new_leader_with_all_records_recognises_every_retried_batch(seeds: range) -> None:
    for seed in seeds:
        simulation = ProducerSimulation(seed, {"leader moves": 0.1, "lost after": 0.03}, delivery_timeout_ms="2000000")
        play(simulation, rounds=100)
        for partition, log in enumerate(simulation.logs):
            assert log.values == [value for value, _ in simulation.sent[partition]], seed
            assert delivered(simulation, partition) == log.values, seed


def test_after_a_gap_the_next_records_are_delivered(seeds: range) -> None:
    for seed in seeds:
        simulation = ProducerSimulation(seed, {"invalid": 0.3}, delivery_timeout_ms="2000000")
        play(simulation)
        simulation.faults = {}
        for partition, log in enumerate(simulation.logs):
            simulation.send(partition, b"the last one")
            simulation.loop.run_until(simulation.loop.now + LONG_S)
            assert log.values[-1] == b"the last one", seed
            assert delivered(simulation, partition) == log.values, seed


def test_without_idempotence_nothing_is_lost(seeds: range) -> None:
    for seed in seeds:
        simulation = ProducerSimulation(
            seed, TROUBLE, enable_idempotence="false", delivery_timeout_ms="2000000", acks="1"
        )
        play(simulation)
        for partition, log in enumerate(simulation.logs):
            assert set(log.values) == {value for value, _ in simulation.sent[partition]}, seed


def test_one_request_in_flight_keeps_the_order_also_without_idempotence(seeds: range) -> None:
    for seed in seeds:
        simulation = ProducerSimulation(
            seed,
            {"not leader": 0.3},
            enable_idempotence="false",
            max_in_flight_requests_per_connection="1",
            delivery_timeout_ms="2000000",
        )
        play(simulation)
        for partition, log in enumerate(simulation.logs):
            assert log.values == [value for value, _ in simulation.sent[partition]], seed


def test_one_request_in_flight_keeps_the_order_also_when_the_leader_changes(seeds: range) -> None:
    for seed in seeds:
        simulation = ProducerSimulation(
            seed,
            {"leader moves": 0.3},
            enable_idempotence="false",
            max_in_flight_requests_per_connection="1",
            delivery_timeout_ms="2000000",
        )
        play(simulation, rounds=100)
        for partition, log in enumerate(simulation.logs):
            # records that an old leader stored without acknowledgement are stored again
            once = list(dict.fromkeys(log.values))
            assert once == [value for value, _ in simulation.sent[partition]], seed


def test_the_error_of_an_undelivered_record_lists_the_attempts() -> None:
    simulation = ProducerSimulation(1, {"not leader": 1.0}, delivery_timeout_ms="3000", request_timeout_ms="100")
    simulation.send(0, b"x")
    simulation.loop.run_until(simulation.loop.now + LONG_S)
    error = simulation.sent[0][0][1].exception(0)
    assert isinstance(error, TimedOut)
    assert "orders-0" in str(error) and "attempts" in str(error) and "NOT_LEADER_OR_FOLLOWER" in str(error)


def test_the_number_of_retries_is_bounded_by_the_setting() -> None:
    simulation = ProducerSimulation(
        1, {"not leader": 1.0}, retries="2", delivery_timeout_ms="2000000", enable_idempotence="false"
    )
    simulation.send(0, b"x")
    simulation.loop.run_until(simulation.loop.now + LONG_S)
    error: MoldauError | None = simulation.sent[0][0][1].exception(0)
    assert error is not None and "NOT_LEADER_OR_FOLLOWER" in str(error)
    assert simulation.sent[0][0][1].batch.attempts == 3
