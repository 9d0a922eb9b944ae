"""Two-phase commit of the sink against a real broker, step by step, without Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from moldau import Consumer, Producer, TopicPartition
from moldau.cli.main import app
from moldau.client.errors import MoldauError
from moldau.spark.columns import Columns
from moldau.spark.commit_log import CommitDecision, PreparedWrite
from moldau.spark.sink_broker import DECISIONS_TAIL, SinkBroker
from moldau.spark.sink_options import SinkOptions, parse
from moldau.spark.two_phase import DecidedButLost, TaskTransaction, TwoPhaseCommit, end_run
from moldau.spark.writer import RunIsOver, Target, TaskAttempt, write_task
from moldau.testing import Broker

TOPIC = "out"
COLUMNS = Columns(key=None, topic=None, partition=None, headers=None, timestamp=None)


@pytest.fixture(scope="module", params=["two-phase", "time-outs only"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    settings = {"transaction.two.phase.commit.enable": str(request.param == "two-phase").lower()}
    with Broker(settings) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"out-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, partitions=2)
    return name


@pytest.fixture
def options(broker: Broker, topic: str) -> SinkOptions:
    given = parse({"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic})
    with SinkBroker(given) as access:
        return access.checked(given)


@pytest.fixture
def query() -> str:
    return str(uuid.uuid4())


def committed(broker: Broker, topic: str) -> list[bytes]:
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    found: list[bytes] = []
    settings = {"bootstrap.servers": broker.bootstrap_servers, "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(*partitions)
        while any(consumer.position(one) < ends[one] for one in partitions):
            found += [record.value for record in consumer.poll(timeout=1)]
    return sorted(found)


def write(options: SinkOptions, query: str, run: str, batch: int, task: int, attempt: int = 0) -> PreparedWrite:
    rows = pa.record_batch({"value": [f"{batch}/{task}/{row}".encode() for row in range(100)]})
    wrote = write_task(Target(options, COLUMNS), TaskAttempt(query, run, batch, task, attempt), iter([rows]))
    assert wrote.rows == 100 and wrote.write is not None
    return wrote.write


def rows(*batches: int, tasks: int = 2) -> list[bytes]:
    return sorted(f"{batch}/{task}/{row}".encode() for batch in batches for task in range(tasks) for row in range(100))


def test_nothing_is_visible_before_the_commit_and_all_of_it_after(
    broker: Broker, options: SinkOptions, topic: str, query: str
) -> None:
    writes = [write(options, query, "r1", 0, task) for task in range(2)]
    assert committed(broker, topic) == []
    with SinkBroker(options) as access:
        assert TwoPhaseCommit(access).commit(query, "r1", 0, writes)
        assert access.open_transactions(f"moldau-spark-{query}-") == []
    assert committed(broker, topic) == rows(0)


def test_the_next_run_finishes_the_decision_and_drops_the_repeated_batch(
    broker: Broker, options: SinkOptions, topic: str, query: str
) -> None:
    writes = [write(options, query, "r1", 0, task) for task in range(2)]
    with SinkBroker(options) as first:
        first.take_over(query)
        first.decide(CommitDecision(query, "r1", 0, tuple(writes)))
        first.commit([])  # the driver dies here
    copies = [write(options, query, "r2", 0, task) for task in range(2)]
    with SinkBroker(options) as access:
        commits = TwoPhaseCommit(access)
        assert not commits.commit(query, "r2", 0, copies)
        assert commits.commit(query, "r2", 1, [write(options, query, "r2", 1, task) for task in range(2)])
        assert access.open_transactions(f"moldau-spark-{query}-") == []
    assert committed(broker, topic) == rows(0, 1)


def test_repeating_a_commit_changes_nothing(broker: Broker, options: SinkOptions, topic: str, query: str) -> None:
    writes = [write(options, query, "r1", 0, task) for task in range(2)]
    with SinkBroker(options) as first:
        assert TwoPhaseCommit(first).commit(query, "r1", 0, writes)
    with SinkBroker(options) as second:
        copies = [write(options, query, "r2", 0, task) for task in range(2)]
        assert not TwoPhaseCommit(second).commit(query, "r2", 0, copies)
    assert committed(broker, topic) == rows(0)


def test_transactions_of_killed_attempts_are_aborted(
    broker: Broker, options: SinkOptions, topic: str, query: str
) -> None:
    write(options, query, "r1", 0, 1, attempt=0)
    writes = [write(options, query, "r1", 0, 0), write(options, query, "r1", 0, 1, attempt=1)]
    with SinkBroker(options) as access:
        TwoPhaseCommit(access).commit(query, "r1", 0, writes)
        assert access.open_transactions(f"moldau-spark-{query}-") == []
    assert committed(broker, topic) == rows(0)


def test_a_replaced_driver_cannot_commit(broker: Broker, options: SinkOptions, topic: str, query: str) -> None:
    with SinkBroker(options) as old, SinkBroker(options) as new:
        first = TwoPhaseCommit(old)
        assert first.commit(query, "r1", 0, [write(options, query, "r1", 0, task) for task in range(2)])
        second = TwoPhaseCommit(new)
        assert second.commit(query, "r2", 1, [write(options, query, "r2", 1, task) for task in range(2)])
        with pytest.raises(MoldauError):
            first.commit(query, "r1", 2, [write(options, query, "r1", 2, task) for task in range(2)])
        assert second.commit(query, "r2", 2, [write(options, query, "r2", 2, task) for task in range(2)])
    assert committed(broker, topic) == rows(0, 1, 2)


def test_a_decision_that_was_partly_aborted_is_reported_as_a_loss(
    broker: Broker, options: SinkOptions, topic: str, query: str
) -> None:
    writes = [write(options, query, "r1", 0, task) for task in range(2)]
    with SinkBroker(options) as first:
        first.take_over(query)
        decision = CommitDecision(query, "r1", 0, tuple(writes))
        first.decide(decision)
        first.abort([TaskTransaction(decision.transactional_id(writes[1]), writes[1].producer_id, writes[1].epoch)])
    with SinkBroker(options) as access, pytest.raises(DecidedButLost, match="1 of its 2 transactions"):
        TwoPhaseCommit(access).commit(query, "r2", 0, [write(options, query, "r2", 0, task) for task in range(2)])
    with SinkBroker(options) as access:
        commits = TwoPhaseCommit(access, fail_on_data_loss=False)
        commits.commit(query, "r3", 0, [write(options, query, "r3", 0, task) for task in range(2)])
    assert committed(broker, topic) == [row for row in rows(0) if row.startswith(b"0/0/")]


def test_an_abandoned_query_is_resolved_by_a_command(
    broker: Broker, options: SinkOptions, topic: str, query: str
) -> None:
    writes = [write(options, query, "r1", 0, task) for task in range(2)]
    with SinkBroker(options) as first:
        first.take_over(query)
        first.decide(CommitDecision(query, "r1", 0, tuple(writes)))
    write(options, query, "r1", 1, 0)
    result = CliRunner().invoke(app, ["transactions", "resolve", query, "-b", broker.bootstrap_servers])
    assert result.exit_code == 0, result.output
    assert "1 open transactions are aborted" in result.output
    assert committed(broker, topic) == rows(0)


def test_an_attempt_that_starts_after_its_run_leaves_nothing(
    broker: Broker, options: SinkOptions, topic: str, query: str
) -> None:
    writes = [write(options, query, "r1", 0, task) for task in range(2)]
    with SinkBroker(options) as access:
        TwoPhaseCommit(access).abort(query, "r1", 0, writes)
        with pytest.raises(RunIsOver, match="attempt 1 of task 0 started too late"):
            write(options, query, "r1", 0, 0, attempt=1)
        assert access.open_transactions(f"moldau-spark-{query}-") == []
        # The next run has its own gate.
        assert TwoPhaseCommit(access).commit(
            query, "r2", 0, [write(options, query, "r2", 0, task) for task in range(2)]
        )
    assert committed(broker, topic) == rows(0)


def test_an_attempt_that_is_about_to_write_when_its_run_ends_is_fenced(
    broker: Broker, options: SinkOptions, topic: str, query: str
) -> None:
    name = TaskAttempt(query, "r1", 0, 0, 0).transactional_id
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name}
    with Producer(settings) as late, SinkBroker(options) as access:
        late.init_transactions()
        end_run(access, query, "r1")
        late.begin_transaction()
        late.send(topic, b"too late")
        with pytest.raises(MoldauError):
            late.commit_transaction()
        assert access.open_transactions(f"moldau-spark-{query}-") == []
    assert committed(broker, topic) == []


def test_a_task_without_rows_opens_no_transaction(options: SinkOptions, query: str) -> None:
    empty = pa.record_batch({"value": pa.array([], pa.binary())})
    wrote = write_task(Target(options, COLUMNS), TaskAttempt(query, "r1", 0, 0, 0), iter([empty]))
    assert (wrote.rows, wrote.write) == (0, None)
    with SinkBroker(options) as access:
        assert access.open_transactions(f"moldau-spark-{query}-") == []


@pytest.mark.parametrize(
    ("later", "begins"),
    [(0, [0]), (DECISIONS_TAIL - 3, [1]), (DECISIONS_TAIL, [4, 0]), (5 * DECISIONS_TAIL, [4 + 4 * DECISIONS_TAIL, 0])],
)
def test_the_last_decision_is_found_from_the_end_of_the_topic(
    broker: Broker, query: str, monkeypatch: pytest.MonkeyPatch, later: int, begins: list[int]
) -> None:
    name = f"decisions-{uuid.uuid4().hex[:8]}"
    options = parse({"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": TOPIC, "decisionsTopic": name})
    decided = [CommitDecision(query, "run", batch, (PreparedWrite(0, 0, 7, batch),)) for batch in range(2)]
    with SinkBroker(options) as access:
        assert access.take_over(query) is None
        for decision in decided:
            access.decide(decision)
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for number in range(later):
            producer.send(name, b"{}", key=f"another query {number}".encode())
    sought: list[int] = []
    seek = Consumer.seek

    def spy(self: Consumer, partition: TopicPartition, offset: int) -> None:
        sought.append(offset)
        seek(self, partition, offset)

    monkeypatch.setattr(Consumer, "seek", spy)
    with SinkBroker(options) as access:
        assert access.take_over(query) == decided[-1]
    assert sought == begins  # the two decisions have the offsets 0 and 2, with a marker after each


def test_a_query_without_a_decision_and_one_whose_decision_was_deleted_have_none(broker: Broker, query: str) -> None:
    name = f"decisions-{uuid.uuid4().hex[:8]}"
    options = parse({"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": TOPIC, "decisionsTopic": name})
    with SinkBroker(options) as access:
        access.take_over(query)
        access.decide(CommitDecision(query, "run", 3, ()))
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        producer.send(name, None, key=query.encode())
        for number in range(2 * DECISIONS_TAIL):
            producer.send(name, b"{}", key=f"another query {number}".encode())
    with SinkBroker(options) as access:
        assert access.take_over(query) is None
        assert access.take_over("unknown") is None
