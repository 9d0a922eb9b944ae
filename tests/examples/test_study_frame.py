"""Frame of the case studies: how a study is found, copied, prepared and compared."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from moldau import NewTopic, Producer
from moldau.examples import study as studies
from moldau.examples.place import Place, read_topic, topic_sender
from moldau.examples.processes import PipelineProcess
from moldau.examples.results import MAX_KEYS, RECENT, Results, check, compare
from moldau.examples.run import create_topics, paced
from moldau.examples.study import Study, StudyError, StudyRecord

# -- Studies by name ---------------------------------------------------------------------------------------------------


def test_every_study_has_its_parts_and_a_title() -> None:
    assert len(studies.names()) == 10
    for name in studies.names():
        files = {path.name for path in (studies.HERE / name).iterdir()}
        assert {"README.md", "picture.svg", "generator.py", "pipeline.py", "reference.py", "view.py"} <= files, name
        study = studies.find(name)
        assert study.title
        topics = [topic.name for topic in (*study.input_topics, *study.result_topics)]
        assert topics and len(topics) == len(set(topics))
        assert f"moldau examples run {name}" in (studies.HERE / name / "README.md").read_text()


def test_topics_of_studies_do_not_collide() -> None:
    found = [topic.name for name in studies.names() for topic in studies.find(name).input_topics]
    found += [topic.name for name in studies.names() for topic in studies.find(name).result_topics]
    assert len(found) == len(set(found))


@pytest.mark.parametrize("name", ["taxis", "", "study", "./missing", "../examples", "/"])
def test_a_study_that_does_not_exist_is_an_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StudyError, match=r"there is no example|is not a copy"):
        studies.find(name)


@pytest.mark.parametrize("name", studies.names())
def test_a_copy_is_a_study_of_its_own(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    directory = tmp_path / f"my_{name}"
    studies.copy(name, directory)
    assert not [path for path in directory.rglob("*.py") if f"moldau.examples.{name}" in path.read_text()]
    study = studies.find(str(directory))
    assert study.title == studies.find(name).title
    assert study.location == str(directory)
    first, same = (next(iter(one.records(1, 0, 10))) for one in (study, studies.find(name)))
    assert first == same
    # pipeline.py can be imported, and is not the original.
    assert study.result_topics == studies.find(name).result_topics
    assert f"{directory.name}.pipeline" in sys.modules


@pytest.mark.parametrize(
    ("name", "directory", "error"),
    [
        ("taxis", "my_taxi", "there is no example 'taxis'"),
        ("taxi", "my-taxi", "cannot be the name of a Python package"),
        ("taxi", ".", "cannot be the name of a Python package"),
        ("taxi", "there", "exists"),
    ],
)
def test_a_copy_to_a_wrong_place_is_an_error(
    name: str, directory: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    with pytest.raises(StudyError, match=error):
        studies.copy(name, Path(directory))
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


# -- Comparison --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "found", "differences"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, 0),
        ({"a": 1}, {"a": 2}, 1),
        ({"a": 1}, {}, 1),
        ({}, {"a": 1}, 1),
        ({"a": {"n": 1}, "b": {"n": 1}}, {"a": {"n": 2}}, 2),
        ([{"n": 1}, {"n": 2}], [{"n": 2}, {"n": 1}], 0),
        ([{"n": 1, "m": 2}], [{"m": 2, "n": 1}], 0),
        ([{"n": 1}], [{"n": 1}, {"n": 1}], 1),
        ([{"n": 1}, {"n": 1}], [{"n": 1}], 1),
        ([{"n": 1}], [{"n": 2}], 2),
        ([], [{"n": 2}], 1),
    ],
)
def test_contents_are_equal_or_each_difference_is_named(expected: Any, found: Any, differences: int) -> None:
    result = compare("topic", expected, found)
    assert len(result.differences) == differences
    assert ("differ" in str(result)) == bool(differences)
    assert result.compared == len(expected)


SPOILED: list[tuple[str, int]] = [("right", 0), ("twice", 1), ("missing", 1), ("other value", 2)]


@pytest.mark.parametrize(("how", "differences"), SPOILED)
def test_a_wrong_result_is_found(how: str, differences: int, place: Place) -> None:
    """The pipeline's results are written by this test: as expected, or spoiled."""
    study = studies.find("taxi")
    create_topics(study, place, fresh=False)
    with topic_sender(place) as send:
        for record, _ in zip(study.records(1, 1_767_225_600_000, 10), range(100), strict=False):
            send(record._replace(at_ms=int(time.time() * 1000)))
    expected = study.expected(lambda topic: read_topic(place, topic))
    with Producer(dict(place.client)) as producer:
        for topic, content in expected.items():
            rows = list(content.items()) if isinstance(content, dict) else [(row["ride"], row) for row in content]
            if topic == "taxi.matches":
                rows = {
                    "right": rows,
                    "twice": [*rows, rows[3]],
                    "missing": rows[1:],
                    "other value": [("ride", {**rows[0][1], "metres": -1}), *rows[1:]],
                }[how]
            for key, value in rows:
                producer.send(topic, json.dumps(value).encode(), key=key.encode())
    results = {result.name: result for result in check(study, place)}
    assert all(result.compared for result in results.values())
    assert len(results.pop("taxi.matches").differences) == differences
    assert not any(result.differences for result in results.values())


# -- Preparation -------------------------------------------------------------------------------------------------------


def test_topics_of_an_earlier_run_are_an_error_or_deleted(place: Place) -> None:
    study = studies.find("campaign_comparison")
    create_topics(study, place, fresh=False)
    record = StudyRecord("campaign.visits", "key", {"a": 1}, int(time.time() * 1000))
    with topic_sender(place) as send:
        send(record)
    with pytest.raises(StudyError, match=r"campaign\.results, campaign\.visits; delete them with --fresh"):
        create_topics(study, place, fresh=False)
    assert list(read_topic(place, record.topic)) == [record]
    create_topics(study, place, fresh=True)
    assert list(read_topic(place, record.topic)) == []


def test_a_record_that_the_broker_refuses_is_an_error(place: Place) -> None:
    from moldau import Admin

    with Admin(dict(place.client)) as admin:
        admin.create_topics([NewTopic("small", 1, configs={"max.message.bytes": "100"})])
    with (
        pytest.raises(StudyError, match="a record was not written"),
        topic_sender(place) as send,
    ):
        send(StudyRecord("small", "key", {"text": "x" * 1000}, int(time.time() * 1000)))


def test_a_place_survives_its_way_to_another_process(tmp_path: Path) -> None:
    place = Place({"bootstrap.servers": "127.0.0.1:1", "sasl.password": "secret"}, tmp_path, 7)
    assert Place.from_json(place.to_json()) == place


def test_a_pipeline_that_ends_says_why(tmp_path: Path) -> None:
    process = PipelineProcess.finishing(["no_such_study"], Place({"bootstrap.servers": "127.0.0.1:1"}, tmp_path))
    with pytest.raises(StudyError, match="there is no example 'no_such_study'"):
        process.wait()
    assert process.ended


def test_records_are_sent_when_their_time_has_come() -> None:
    now_ms = int(time.time() * 1000)
    times = [now_ms - 1000, now_ms, now_ms + 300, now_ms + 300]
    sent = []
    for record in paced((StudyRecord("topic", "key", {}, at_ms) for at_ms in times), threading.Event()):
        assert time.time() * 1000 >= record.at_ms - 1
        sent.append(record.at_ms)
    assert sent == times


def test_a_stopped_generator_sends_nothing_more() -> None:
    stopped = threading.Event()
    endless = (StudyRecord("topic", "key", {}, 0) for _ in iter(int, 1))
    for number, _ in enumerate(paced(endless, stopped)):
        if number == 10:
            stopped.set()
    assert number == 10
    far = iter([StudyRecord("topic", "key", {}, int(time.time() * 1000) + 3_600_000)])
    assert list(paced(far, stopped)) == []


def test_the_view_remembers_what_changed_last() -> None:
    results = Results()
    for number in range(MAX_KEYS + 5):
        results.add(StudyRecord("topic", str(number), {"n": number}, 0))
    results.add(StudyRecord("topic", str(MAX_KEYS), None, 0))
    table = results.table("topic")
    assert len(table) == MAX_KEYS - 1
    assert "4" not in table and "6" in table and str(MAX_KEYS) not in table
    assert results.count("topic") == MAX_KEYS + 6
    assert [record.key for record in results.recent("topic")][:2] == [str(MAX_KEYS), str(MAX_KEYS + 4)]
    assert len(results.recent("topic")) == RECENT
    assert results.table("other") == {} and results.recent("other") == [] and results.count("other") == 0


def test_a_study_without_stores_has_none(place: Place) -> None:
    study: Study = studies.find("taxi")
    assert study.stored(place) == {}
