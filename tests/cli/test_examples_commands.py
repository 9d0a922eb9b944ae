"""Commands of the case studies: the list, a copy, and a run whose numbers are checked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from moldau.cli.main import app
from moldau.examples import study as studies
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

RUN_TIMEOUT_S = 600


def moldau(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, prog_name="moldau", env={"COLUMNS": "200"})


@pytest.mark.parametrize("arguments", [[], ["list"]])
def test_the_list_has_every_study_and_what_it_shows(arguments: list[str]) -> None:
    lines = moldau("examples", *arguments).stdout.splitlines()
    assert lines[0].split() == ["NAME", "SHOWS"]
    assert [line.split()[0] for line in lines[1:]] == studies.names()
    assert all(len(line.split()) > 4 for line in lines[1:])


def test_a_copy_can_be_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = moldau("examples", "copy", "taxi", "my_taxi")
    assert made.exit_code == 0
    assert "moldau examples run ./my_taxi" in made.stdout
    assert (tmp_path / "my_taxi" / "README.md").exists()
    again = moldau("examples", "copy", "taxi", "my_taxi")
    assert again.exit_code == 1
    assert again.stderr == "moldau: my_taxi exists; give a directory that does not exist yet\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["run", "taxis"], "there is no example 'taxis'; there are bank_alerts, "),
        (["run", "./nowhere"], "nowhere is not a copy of an example"),
        (["copy", "taxis", "x"], "there is no example 'taxis'"),
        (["copy", "taxi", "not-a-name"], "cannot be the name of a Python package"),
    ],
)
def test_a_wrong_name_is_an_error(
    arguments: list[str], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = moldau("examples", *arguments)
    assert ended.exit_code == 1
    assert error in ended.stderr
    assert not list(tmp_path.iterdir())


def test_without_java_the_error_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    ended = moldau("examples", "run", "taxi")
    assert (ended.exit_code, ended.stderr) == (1, "moldau: Java is not installed; Spark needs version 17 or later\n")


def test_topics_of_an_earlier_run_are_not_touched(broker: BrokerProcess) -> None:
    from moldau import Admin, NewTopic

    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic("taxi.events", 5)])
        ended = moldau("examples", "run", "taxi", "-b", broker.bootstrap)
        assert ended.exit_code == 1
        assert ended.stderr == "moldau: topics of an earlier run exist: taxi.events; delete them with --fresh\n"
        assert {topic.name for topic in admin.list_topics()} == {"taxi.events"}


def started(*arguments: str, directory: Path) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MOLDAU_")}
    return subprocess.Popen(
        [sys.executable, "-m", "moldau", "examples", "run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=directory,
        env={**environment, "COLUMNS": "200"},
    )


@pytest.mark.needs_java
@pytest.mark.timeout(RUN_TIMEOUT_S)
def test_a_run_whose_numbers_differ_ends_with_exit_code_1(tmp_path: Path) -> None:
    """The copy of a study gets a wrong reference: all else is as in any run."""
    studies.copy("campaign_comparison", tmp_path / "wrong")
    reference = tmp_path / "wrong" / "reference.py"
    right = reference.read_text()
    wrong = right.replace('result[f"seen_{variant}"] = seen', 'result[f"seen_{variant}"] = 1 + seen')
    assert wrong != right
    reference.write_text(wrong)
    with started("./wrong", "--seconds", "2", "--rate", "50", directory=tmp_path) as process:
        said, errors = process.communicate(timeout=RUN_TIMEOUT_S)
    assert process.returncode == 1, said + errors
    assert "campaign.results: 3 of 3 differ" in said
    assert "Campaign comparison" in said
    reference.write_text(right)


@pytest.mark.needs_java
@pytest.mark.timeout(RUN_TIMEOUT_S)
def test_ctrl_c_ends_a_run_and_the_numbers_are_compared(tmp_path: Path, broker: BrokerProcess, soak: bool) -> None:
    if not soak:
        pytest.skip("with make soak")
    from moldau import Consumer

    found: dict[bytes, dict[str, object]] = {}
    with started("campaign_comparison", "-b", broker.bootstrap, directory=tmp_path) as process:
        settings = {"allow.auto.create.topics": "false", "metadata.max.age.ms": "1000", "auto.offset.reset": "earliest"}
        with Consumer("campaign.results", settings, bootstrap_servers=broker.bootstrap, group_id="test") as consumer:

            def see() -> bool:
                found.update({record.key: json.loads(record.value) for record in consumer.poll(timeout=0.1)})
                return len(found) == 3 or process.poll() is not None

            wait_until(see, "there are results", RUN_TIMEOUT_S)
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=RUN_TIMEOUT_S)
    assert process.returncode == 0, said + errors
    assert "campaign.results: 3 as computed by reference.py" in said
