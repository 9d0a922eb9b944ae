"""Decisions of the engine: supervision, plans, tolerance, headers, topics to create, secrets in traces."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError, ProducerFenced, TimedOut
from moldau.connect.config_def import ConfigDef, ConfigError, ConfigKey, ConfigType
from moldau.connect.connector import RetriableError
from moldau.connect.engine import sink_plan
from moldau.connect.engine.batch_result import BatchResult
from moldau.connect.engine.identities import connector_id
from moldau.connect.engine.job import DeadlineExceeded, SessionDied, balanced
from moldau.connect.engine.pipeline import header_columns, header_lists
from moldau.connect.engine.progress import ProgressMeter
from moldau.connect.engine.run_settings import ErrorSettings, client_configs, converter_specs, run_settings
from moldau.connect.engine.runner import kind_of
from moldau.connect.engine.scrubbing import MAX_TRACE, secret_values, trace_of
from moldau.connect.engine.session import spark_settings, task_slots
from moldau.connect.engine.sink_plan import CommittedMark, SinkView
from moldau.connect.engine.supervision import (
    FENCED_PAUSE_S,
    LONGEST_PAUSE_S,
    MAX_RETRIES,
    FailureKind,
    GiveUp,
    RetryLater,
    Supervision,
)
from moldau.connect.engine.tolerance import BadRow, ErrorHandler, ToleranceExceeded
from moldau.connect.engine.topic_creation import topic_rules
from moldau.connect.errors import RowError, Stage
from moldau.spark.commit_log import query_prefix

# -- supervision ------------------------------------------------------------------------------------------------------


def test_retries_pause_longer_each_time_and_end() -> None:
    supervision = Supervision()
    pauses = []
    for _ in range(MAX_RETRIES):
        decision = supervision.failed(FailureKind.RETRIABLE, 0.5)
        assert isinstance(decision, RetryLater)
        pauses.append(decision.pause_s)
    assert pauses == sorted(pauses) and pauses[0] < 1 and pauses[-1] == LONGEST_PAUSE_S
    assert isinstance(supervision.failed(FailureKind.RETRIABLE, 0.5), GiveUp)
    supervision.succeeded()
    assert isinstance(supervision.failed(FailureKind.RETRIABLE, 0.5), RetryLater), "a success forgets the failures"


def test_a_permanent_error_is_not_tried_again() -> None:
    assert isinstance(Supervision().failed(FailureKind.PERMANENT, 0.0), GiveUp)


def test_three_deaths_of_the_jvm_are_too_many_and_a_success_clears_the_suspicion() -> None:
    supervision = Supervision()
    assert supervision.failed(FailureKind.JVM_DEATH, 0.0) == RetryLater(0.0, alone=True)
    assert supervision.suspect
    supervision.succeeded()
    assert not supervision.suspect
    found = [supervision.failed(FailureKind.JVM_DEATH, 0.0) for _ in range(3)]
    assert [isinstance(one, GiveUp) for one in found] == [False, False, True]


def test_a_fenced_connector_waits_longer_than_the_session_of_its_worker() -> None:
    decision = Supervision().failed(FailureKind.FENCED, 0.0)
    assert isinstance(decision, RetryLater) and decision.pause_s > 10 and FENCED_PAUSE_S > 10


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SessionDied("x"), FailureKind.JVM_DEATH),
        (DeadlineExceeded("x"), FailureKind.HUNG),
        (ProducerFenced("x"), FailureKind.FENCED),
        (RetriableError("x"), FailureKind.RETRIABLE),
        (TimedOut("x"), FailureKind.RETRIABLE),
        (ConnectionRefusedError("x"), FailureKind.RETRIABLE),
        (MoldauError("x"), FailureKind.PERMANENT),
        (ValueError("x"), FailureKind.PERMANENT),
        (ConfigError("x"), FailureKind.PERMANENT),
    ],
)
def test_errors_have_a_kind(error: Exception, kind: FailureKind) -> None:
    assert kind_of(error) is kind


# -- plans ------------------------------------------------------------------------------------------------------------

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def test_a_plan_reads_from_the_position_to_the_end_and_no_more_than_allowed() -> None:
    view = SinkView({A: 10, B: 1000}, {})
    slices = sink_plan.capped(sink_plan.pending({A: 4, B: 0}, view), 100)
    assert {one.partition: one.start for one in slices} == {A: 4, B: 0}
    assert sum(one.end - one.start for one in slices) == 100
    assert sink_plan.pending({A: 10, B: 1000}, view) == []
    assert sink_plan.pending({A: 10}, view) == [], "a partition without a position is not read"


def test_partitions_without_a_valid_position_are_found() -> None:
    view = SinkView({A: 10, B: 5}, {})
    assert sink_plan.unknown({A: 3}, view) == [B]
    assert sink_plan.truncated({A: 11, B: 5}, view) == [A]
    assert sink_plan.has_work({A: 11, B: 5}, view) and not sink_plan.has_work({A: 10, B: 5}, view)
    assert sink_plan.lag({A: 3, B: 9}, view) == 7


def test_partitions_of_a_topic_with_another_id_are_recreated() -> None:
    view = SinkView({A: 10, B: 5}, {A.topic: "new", B.topic: "same"})
    assert sink_plan.recreated({A.topic: "old", B.topic: "same"}, view) == [A]
    assert sink_plan.recreated({A.topic: "new"}, view) == []
    assert sink_plan.recreated({}, view) == [], "seen for the first time"
    assert sink_plan.recreated({A.topic: "old"}, SinkView({A: 10}, {A.topic: ""})) == [], "brokers without topic ids"


@given(st.integers(-1, 2**62), st.integers(-1, 2**62))
def test_marks_of_offsets_are_read_back(batch: int, dead: int) -> None:
    mark = CommittedMark(batch, dead)
    assert CommittedMark.parse(mark.text()) == mark


@pytest.mark.parametrize("metadata", ["", "something else", "moldau:", "moldau:batch=x,dead=1", "moldau:batch=1"])
def test_metadata_of_others_is_no_mark(metadata: str) -> None:
    assert CommittedMark.parse(metadata) == CommittedMark()


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30), st.integers(1, 8))
def test_tasks_get_every_piece_once_and_none_is_empty(sizes: list[int], at_most: int) -> None:
    tasks = balanced([[index] for index in range(len(sizes))], sizes, at_most)
    assert sorted(piece for task in tasks for piece in task) == list(range(len(sizes)))
    assert 1 <= len(tasks) <= at_most and all(tasks)


def test_ids_of_connectors_are_no_prefixes_of_each_other() -> None:
    first, second = connector_id("g", "a"), connector_id("g", "a-b")
    assert not query_prefix(second).startswith(query_prefix(first))
    assert connector_id("g", "a") == first != connector_id("h", "a")


# -- tolerance --------------------------------------------------------------------------------------------------------


def handler(settings: ErrorSettings, bad: list[BadRow], sleeps: list[float]) -> ErrorHandler:
    return ErrorHandler(settings, sleeps.append, lambda: sum(sleeps), bad.append, lambda rows: " somewhere")


def numbers(rows: Any) -> list[int]:
    return [row["n"] for row in rows.to_pylist()]


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.booleans())
def test_exactly_the_bad_rows_are_found(good: list[bool], named: bool) -> None:
    """Whether the step names its bad rows or fails as a whole, in any batch."""
    batch = pa.RecordBatch.from_pydict({"n": list(range(len(good)))})

    def step(rows: pa.RecordBatch) -> list[int]:
        wrong = {at: "bad" for at, n in enumerate(numbers(rows)) if not good[n]}
        if wrong and named:
            raise RowError(wrong)
        if wrong:
            raise ValueError("something in it is bad")
        return numbers(rows)

    bad: list[BadRow] = []
    errors = handler(ErrorSettings(tolerate=True), bad, [])
    assert errors.apply(step, batch, Stage.TRANSFORMATION, "Step") == [n for n, ok in enumerate(good) if ok]
    assert sorted(numbers(one.rows)[0] for one in bad) == [n for n, ok in enumerate(good) if not ok]
    assert errors.skipped == good.count(False)


def test_without_tolerance_the_first_bad_row_is_an_error() -> None:
    def step(rows: pa.RecordBatch) -> list[int]:
        if 3 in numbers(rows):
            raise ValueError("three")
        return numbers(rows)

    errors = handler(ErrorSettings(), [], [])
    batch = pa.RecordBatch.from_pydict({"n": list(range(8))})
    with pytest.raises(ToleranceExceeded, match=r"TRANSFORMATION \(Step\) failed somewhere: three"):
        errors.apply(step, batch, Stage.TRANSFORMATION, "Step")


def test_an_error_about_the_world_is_retried_and_never_tolerated() -> None:
    def step(rows: pa.RecordBatch) -> list[int]:
        raise RetriableError("away")

    batch = pa.RecordBatch.from_pydict({"n": [1, 2]})
    bad: list[BadRow] = []
    sleeps: list[float] = []
    errors = handler(ErrorSettings(tolerate=True, retry_timeout_ms=2500, retry_delay_max_ms=1000), bad, sleeps)
    with pytest.raises(RetriableError):
        errors.apply(step, batch, Stage.TRANSFORMATION, "Step")
    assert sleeps == [0.3, 0.6, 1.0] and errors.retries == 3 and not bad


# -- headers ----------------------------------------------------------------------------------------------------------

HEADERS = st.lists(
    st.none() | st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.binary(max_size=3)), max_size=4), max_size=8
)


@given(HEADERS)
def test_headers_by_name_keep_all_values_and_the_order_of_equal_names(rows: list[Any]) -> None:
    given_type = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
    plain = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows]
    found: dict[int, dict[str, list[Any]]] = {}
    columns = header_columns(pa.array(plain, given_type))
    for name, places, values in columns:
        for place, value in zip(places.tolist(), values.to_pylist(), strict=True):
            found.setdefault(place, {}).setdefault(name, []).append(value)
    expected: dict[int, dict[str, list[Any]]] = {}
    for number, row in enumerate(rows):
        for key, value in row or ():
            expected.setdefault(number, {}).setdefault(key, []).append(value)
    assert found == expected
    if columns:
        _check_lists(columns, len(rows), expected)


def _check_lists(columns: list[Any], count: int, expected: dict[int, dict[str, list[Any]]]) -> None:
    whole = []
    for name, places, values in columns:
        cells: list[Any] = [None] * count
        present = [False] * count
        for place, value in zip(places.tolist(), values.to_pylist(), strict=True):
            cells[place], present[place] = value, True
        whole.append((name, pa.array(cells, pa.binary()), pa.array(present)))
    again: dict[int, dict[str, list[Any]]] = {}
    for number, row in enumerate(header_lists(whole, count).to_pylist()):
        for one in row or ():
            again.setdefault(number, {}).setdefault(one["key"], []).append(one["value"])
    assert again == expected


# -- settings ---------------------------------------------------------------------------------------------------------


def test_overrides_replace_settings_of_the_worker_and_some_are_refused() -> None:
    worker = {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SSL",
        "producer.linger.ms": "7",
        "producer.batch.size": "1",
        "group.id": "workers",
    }
    found = client_configs(worker, {"producer.override.batch.size": "2", "consumer.override.fetch.min.bytes": "3"})
    assert found.producer == {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SSL",
        "linger.ms": "7",
        "batch.size": "2",
    }
    assert found.consumer == {"bootstrap.servers": "b:9092", "security.protocol": "SSL", "fetch.min.bytes": "3"}
    for name in ("producer.override.transactional.id", "consumer.override.group.id"):
        with pytest.raises(ConfigError, match=name):
            client_configs(worker, {name: "x"})


@pytest.mark.parametrize("text", ["${env:PATH}", "a ${file:/etc/hostname} b", "${file:/run/secrets:key}"])
def test_a_reference_that_no_config_provider_knows_is_not_left_to_the_client(text: str) -> None:
    with pytest.raises(ConfigError, match=r"producer\.override\.client\.id refers to a file or a variable"):
        client_configs({"bootstrap.servers": "b:1"}, {"producer.override.client.id": text})


def test_settings_of_a_converter_belong_to_the_place_that_names_it() -> None:
    worker = {"key.converter": "W", "key.converter.a": "1", "value.converter": "V", "value.converter.a": "2"}
    found = converter_specs({"key.converter": "C", "key.converter.b": "3", "value.converter.b": "4"}, worker)
    assert (found.key.class_name, found.key.config) == ("C", {"b": "3"})
    assert (found.value.class_name, found.value.config) == ("V", {"a": "2"})


def test_the_deadline_and_the_tolerance_are_read() -> None:
    config = {"task.deadline.ms": "2500", "errors.tolerance": "all", "tasks.max": "4", "topics": "a, b"}
    found = run_settings("n", config, {})
    assert (found.deadline_s, found.errors.tolerate, found.max_tasks, found.topics) == (2.5, True, 4, ("a", "b"))
    with pytest.raises(ConfigError, match=r"task\.deadline\.ms"):
        run_settings("n", {"task.deadline.ms": "0"}, {})


def test_groups_of_topics_inherit_from_the_default() -> None:
    config = {
        "topic.creation.groups": "logs",
        "topic.creation.default.partitions": "3",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.retention.ms": "5",
        "topic.creation.logs.include": "log-.*, event",
        "topic.creation.logs.exclude": "log-x",
        "topic.creation.logs.cleanup.policy": "compact",
    }
    rules = topic_rules(config, {})
    logs, default = rules.group_of("log-a"), rules.group_of("log-x")
    assert logs is not None and default is not None
    assert (logs.name, logs.partitions, logs.configs) == ("logs", 3, {"retention.ms": "5", "cleanup.policy": "compact"})
    assert (default.name, default.configs) == ("default", {"retention.ms": "5"})
    assert topic_rules({}, {}).group_of("x") is None
    assert topic_rules(config, {"topic.creation.enable": "false"}).group_of("x") is None
    with pytest.raises(ConfigError, match=r"default\.partitions"):
        topic_rules({"topic.creation.default.replication.factor": "1"}, {})
    with pytest.raises(ConfigError, match=r"logs\.include"):
        topic_rules({name: value for name, value in config.items() if "include" not in name}, {})


def test_the_number_of_slots_is_read_from_the_master() -> None:
    assert [task_slots(one) for one in ("local", "local[4]", "local[8,3]", "local[*]", "spark://x:7077")] == [
        1,
        4,
        8,
        16,
        16,
    ]
    assert spark_settings({"spark.ui.enabled": "true"})["spark.ui.enabled"] == "true"


# -- secrets ----------------------------------------------------------------------------------------------------------


def test_traces_show_neither_provided_values_nor_passwords() -> None:
    declared = ConfigDef([ConfigKey("pass", ConfigType.PASSWORD, "")])
    raw = {"url": "db://${file:/s:user}:${file:/s:secret}@host", "pass": "open-sesame", "short": "${env:A}"}
    resolved = {"url": "db://scott-42:tiger-42@host", "pass": "open-sesame", "short": "ab"}
    secrets = secret_values(raw, resolved, declared)
    text = trace_of(ValueError("db://scott-42:tiger-42@host or tiger-42 or open-sesame; abacus"), secrets)
    assert "tiger" not in text and "scott" not in text and "sesame" not in text
    assert "abacus" in text, "a value that is too short to be a secret does not hide words"


def test_a_trace_has_a_bound_and_an_error_of_ours_has_no_frames() -> None:
    assert len(trace_of(ValueError("x" * 10 * MAX_TRACE), ())) < 2 * MAX_TRACE
    assert trace_of(MoldauError("the reason"), ()) == "the reason"


def test_rates_are_those_of_the_last_seconds() -> None:
    meter = ProgressMeter()
    for second in range(30):
        meter.add(BatchResult(records=100, bytes=1000, duration_s=1.0), float(second))
    found = meter.progress(29.0)
    assert (found.records, found.batches) == (3000, 30)
    assert 90 <= found.records_per_s <= 120
    assert meter.progress(100.0).records_per_s == 0
