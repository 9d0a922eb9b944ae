"""Projects without Spark: the specification and its mistakes, errors in plain words, the state directory, commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moldau.pipelines.errors import PipelineError, SourceLine
from moldau.pipelines.new_project import create_project
from moldau.pipelines.plain_words import TOO_BUSY, error_in_python_file, error_in_sql_file, reason_of
from moldau.pipelines.project import find_project
from moldau.pipelines.run_status import LOST, RunStatus
from moldau.pipelines.spark_server import server_settings
from moldau.pipelines.state_files import ProjectState
from moldau.pipelines.topics import client_settings
from tests.support.waiting import wait_until


def moldau(*arguments: str, directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "moldau", "pipeline", *arguments]
    environment = {**os.environ, **variables}
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=100, check=False, env=environment
    )


def write(directory: Path, text: str) -> Path:
    (directory / "spark-pipeline.yml").write_text(text)
    return directory


def test_a_new_project_is_complete_and_has_its_name_everywhere(tmp_path: Path) -> None:
    project = create_project(tmp_path, "shop")
    files = sorted(str(path.relative_to(project)) for path in project.rglob("*") if path.is_file())
    assert files == [
        ".gitignore",
        "README.md",
        "generate.py",
        "spark-pipeline.yml",
        "test_pipeline.py",
        "transformations/orders.py",
        "transformations/sales.sql",
    ]
    assert all("{{" not in path.read_text() for path in project.rglob("*") if path.is_file())
    found = find_project(project / "transformations")
    assert (found.name, found.storage, found.demo_data) == ("shop", f"file://{project}/storage", "generate.py")
    assert found.includes == ("transformations/**",)


@pytest.mark.parametrize("name", ["", "Shop", "a b", "../x", "1a", "x" * 80])
def test_a_name_that_cannot_be_a_topic_or_directory_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PipelineError, match="cannot be the name"):
        create_project(tmp_path, name)


def test_a_directory_with_files_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "mine.txt").write_text("mine")
    done = moldau("new", "shop", directory=tmp_path)
    assert done.returncode == 1 and "already exists" in done.stderr
    assert [path.name for path in (tmp_path / "shop").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("name: a\nstorage: s\nlibraries: [\n", 4, "not YAML"),
        ("name: a\n  storage: s\n", 2, "not YAML"),
        ("- a\n", None, "must have fields"),
        ("name: a\nstorage: s\nlibrarys: []\n", 3, "unknown field librarys; did you mean libraries?"),
        ("storage: s\n", None, "the field name is missing"),
        ("name: 7\nstorage: s\n", 1, "the field name must be a text"),
        ("name: a\nstorage: s\nlibraries: [x]\n", 3, "an entry of libraries"),
        ("name: a\nstorage: s\n", None, "libraries names no files"),
        (
            "name: a\nstorage: s\nlibraries: [{glob: {include: t/**}}]\nconfiguration:\n  spark.x: 1\n",
            5,
            "the setting spark.x must be a text: write it in quotes, '1'",
        ),
    ],
)
def test_a_mistake_in_the_specification_has_its_line(tmp_path: Path, text: str, line: int | None, reason: str) -> None:
    with pytest.raises(PipelineError) as raised:
        find_project(write(tmp_path, text))
    assert raised.value.where == SourceLine(
        "spark-pipeline.yml", line, raised.value.where and raised.value.where.column
    )
    assert reason in str(raised.value)


def test_a_directory_without_a_project_is_an_error_that_says_how_to_create_one(tmp_path: Path) -> None:
    done = moldau("status", directory=tmp_path)
    assert done.returncode == 1 and "moldau pipeline new NAME" in done.stderr and "Traceback" not in done.stderr


def test_a_project_that_never_ran_has_no_status_no_picture_and_nothing_to_stop(tmp_path: Path) -> None:
    project = create_project(tmp_path, "shop")
    for command in ("status", "graph", "stop"):
        done = moldau(command, directory=project)
        assert done.returncode == 1, command
        assert done.stderr.count("\n") == 1


def test_without_a_broker_nothing_is_started(tmp_path: Path) -> None:
    project = create_project(tmp_path, "shop")
    done = moldau("run", "--once", "-b", "127.0.0.1:1", directory=project)
    assert done.returncode == 1 and "nothing listens at 127.0.0.1:1" in done.stderr
    assert not (project / ".moldau").exists()


def test_bad_yaml_is_an_error_of_one_line_on_the_command_line(tmp_path: Path) -> None:
    done = moldau("run", "--once", directory=write(tmp_path, "name: [\n"))
    assert done.returncode == 1 and done.stderr.startswith("moldau: spark-pipeline.yml:2:1: not YAML")


def test_without_the_packages_the_error_names_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['grpc'] = None\n")
    project = create_project(tmp_path, "shop")
    done = moldau("run", directory=project, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1 and "pip install 'moldau[pipelines]'" in done.stderr


SPARK_FAILURE = """[STREAM_FAILED] Query [id = 63bc, runId = 07e9] terminated with exception: \
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform latestOffset: \
Traceback (most recent call last):
  File "/x/plain_errors.py", line 34, in called_by_spark
    raise _bare(error) from None
moldau.spark.data_loss.DataLoss: shop-orders-0 from offset 100 on cannot be read: it was deleted
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: orders"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SPARK_FAILURE, "shop-orders-0 from offset 100 on cannot be read: it was deleted"),
        ("[A.B] No column `x`. SQLSTATE: 42703; line 2 pos 7;\n'Project\n+- x", "No column `x`."),
        (
            "Job aborted.\n\nTraceback (most recent call last):\nValueError: no number: 'a'\n",
            "ValueError: no number: 'a'",
        ),
        ("[TABLE_OR_VIEW_NOT_FOUND] no such table: orders\n\nJVM stacktrace:\nx", "no such table: orders"),
        ("[STREAM_FAILED] x\nCaused by: Python worker failed to connect back. SQLSTATE: X", TOO_BUSY),
        ("", ""),
        ("x" * 2000, "x" * 600 + " …"),
    ],
)
def test_reasons_are_told_without_classes_plans_and_traces(text: str, reason: str) -> None:
    assert reason_of(text) == reason


def test_a_parse_error_gets_the_line_of_the_file() -> None:
    sql = "CREATE MATERIALIZED VIEW a AS SELECT 1;\n\n\nCREATE MATERIALIZED VIEW b AS\nSELEC 2;\n"
    error = ValueError(
        "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. SQLSTATE: 42601 (line 2, pos 0)\n\n== SQL ==\n"
        "CREATE MATERIALIZED VIEW b AS\nSELEC 2\n^^^\n"
    )
    assert str(error_in_sql_file(error, "b.sql", sql)) == "b.sql:5:1: Syntax error at or near 'SELEC'."


def test_an_error_in_python_code_has_the_last_line_of_the_project(tmp_path: Path) -> None:
    code = compile("def f():\n    int('a')\n\nf()\n", str(tmp_path / "transformations" / "a.py"), "exec")
    with pytest.raises(ValueError, match="invalid literal") as raised:
        exec(code, {})
    told = str(error_in_python_file(raised.value, tmp_path))
    assert told.startswith("transformations/a.py:2: ValueError: invalid literal for int()")
    broken = SyntaxError("bad", (str(tmp_path / "b.py"), 3, 7, ""))
    assert str(error_in_python_file(broken, tmp_path)) == "b.py:3:7: not Python: bad"


def test_settings_of_the_command_reach_the_source_and_the_sink(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nsecurity.protocol=SSL\nacks=1\nfetch.min.bytes=5\nlinger.ms=3\n")
    environment = {"MOLDAU_COMMAND_CONFIG": str(file), "MOLDAU_BOOTSTRAP_SERVERS": "given:2"}
    assert client_settings("consumer", environment) == {
        "bootstrap.servers": "given:2",
        "security.protocol": "SSL",
        "fetch.min.bytes": "5",
    }
    del environment["MOLDAU_BOOTSTRAP_SERVERS"]
    assert client_settings("producer", environment) == {
        "bootstrap.servers": "file:1",
        "security.protocol": "SSL",
        "linger.ms": "3",
    }
    assert client_settings("admin", {}) == {"bootstrap.servers": "127.0.0.1:9092"}


def test_the_settings_of_a_project_override_ours(tmp_path: Path) -> None:
    text = "name: a\nstorage: s3://bucket/a\nlibraries: [{glob: {include: t/**}}]\n"
    text += "configuration: {spark.ui.enabled: 'true'}\n"
    settings = server_settings(find_project(write(tmp_path, text)), "local[3]")
    assert settings["spark.ui.enabled"] == "true" and settings["spark.sql.shuffle.partitions"] == "3"
    assert "spark.sql.warehouse.dir" not in settings, "a storage that is not a directory has a catalogue of its own"
    assert settings["spark.connect.grpc.binding.address"] == "127.0.0.1"


HOLDER = """
import sys, time
from pathlib import Path
from moldau.pipelines.state_files import ProjectState
with ProjectState(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def status() -> dict[str, Any]:
    return RunStatus("shop", "once", 1, 0).to_json()


def test_only_the_process_that_holds_the_lock_is_stopped(tmp_path: Path, status: dict[str, Any]) -> None:
    state = ProjectState(tmp_path / ".moldau")
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(state.directory)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
        state.write_status(status)
        assert state.running_pid() == holder.pid
        with pytest.raises(PipelineError, match=f"already run by process {holder.pid}"):
            ProjectState(state.directory).lock()
        assert state.read_status() == status
        assert state.stop(now=False, timeout_s=60)
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()
    lost = state.read_status()
    assert lost is not None and lost["state"] == LOST
    assert not state.stop(now=False, timeout_s=1)


def test_the_id_of_a_process_that_does_not_hold_the_lock_is_ignored(tmp_path: Path) -> None:
    state = ProjectState(tmp_path)
    (tmp_path / "lock").write_text(f"{os.getpid()}\n")
    assert state.running_pid() is None
    with ProjectState(tmp_path):
        (tmp_path / "lock").write_text("1\n")  # process 1 exists, and has another file open
        assert state.running_pid() is None
        wait_until(lambda: not state.stop(now=True, timeout_s=1))


def test_a_status_that_is_not_json_is_no_status(tmp_path: Path) -> None:
    state = ProjectState(tmp_path)
    assert state.read_status() is None
    (tmp_path / "status.json").write_text(json.dumps({"a": 1})[:-1])
    assert state.read_status() is None
