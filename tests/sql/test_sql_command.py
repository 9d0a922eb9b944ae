"""`moldau sql` with statements from options, files and pipes: output and exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sql.terminal import environment
from tests.support.process import BrokerProcess

TIMEOUT_S = 300


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "moldau", "sql", "--master", "local[2]", *arguments]


class Processes:
    """Runs `moldau sql` against the broker of the tests."""

    def __init__(self, bootstrap: str, state: Path) -> None:
        self.environment = environment(bootstrap, state)

    def run(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*arguments),
            input=given,
            env=self.environment,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT_S,
            check=False,
        )


@pytest.fixture
def moldau_sql(sql_broker: BrokerProcess, tmp_path: Path) -> Processes:
    return Processes(sql_broker.bootstrap, tmp_path / "state")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-e", "SELECT 1; SELEC 2"], 1, "moldau: line 1, column 11: SELEC is not a statement; did you mean SELECT?\n"),
        (["-e", "SELECT 1", "-e", "SELECT 'x"], 1, "moldau: -e 2: line 1, column 8: the string"),
        (["-f", "/no/such/file.sql"], 1, "moldau: /no/such/file.sql: No such file or directory\n"),
        (["-e", "SELECT 1", "-f", "x.sql"], 2, "-e and -f: give one of them"),
        (["-e", "SELECT 1", "--set", "x"], 2, "--set: 'x' is not NAME=VALUE"),
        (["-e", "SELECT 1", "--output", "xml"], 2, "xml"),
        (["--frobnicate"], 2, "frobnicate"),
        (["-e", "SELECT 1", "-b", "127.0.0.1:1"], 1, "nothing listens at 127.0.0.1:1"),
        (["-e", "-- nothing"], 0, ""),
    ],
)
def test_what_cannot_run_fails_before_spark_starts(
    moldau_sql: Processes, arguments: list[str], code: int, message: str
) -> None:
    finished = moldau_sql.run(*arguments)
    assert finished.returncode == code, finished.stderr
    assert message in finished.stderr
    assert finished.stdout == ""
    assert not (Path(moldau_sql.environment["XDG_STATE_HOME"]) / "moldau" / "sql_spark.log").exists()


@pytest.mark.needs_java
@pytest.mark.timeout(600)
def test_a_script_ends_at_the_statement_that_fails(
    moldau_sql: Processes, name: str, records: Callable[..., None], tmp_path: Path
) -> None:
    records(name, [({"city": "Praha", "price": 1.5}, "a"), ({"city": None, "price": 2}, "b")])
    script = tmp_path / "report.sql"
    script.write_text(f"""-- a report
        DEFINE t = '{name}';
        SELECT city, price FROM ${{t}} ORDER BY price;
        CREATE STREAM IF NOT EXISTS s_{name} WITH (topic='${{t}}');
        SELECT 1 AS one,
          nope FROM ${{t}};
        SELECT 'never' AS word;""")
    finished = moldau_sql.run("-f", str(script), "--output", "json")
    assert finished.returncode == 1
    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    assert lines == [{"city": "Praha", "price": 1.5}, {"city": None, "price": 2.0}]
    [notice, error] = finished.stderr.splitlines()
    assert f"s_{name}" in notice
    assert error.startswith(f"moldau: {script}: line 6, column 11: ")
    assert "nope" in error


@pytest.mark.needs_java
@pytest.mark.timeout(600)
def test_ctrl_c_ends_a_continuous_query_of_a_pipe(
    moldau_sql: Processes, name: str, records: Callable[..., None]
) -> None:
    records(name, [({"city": "Praha, CZ"}, "a"), ({"city": "Brno"}, "b")])
    process = subprocess.Popen(
        command("--output", "csv", "--set", "auto.offset.reset=earliest"),
        env=moldau_sql.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"SELECT count(*) AS n FROM {name};\nSELECT city FROM {name} AT OFFSET 0 EMIT CHANGES;")
        process.stdin.close()
        lines = [process.stdout.readline() for _ in range(5)]
        assert lines == ["n\n", "2\n", "city\n", '"Praha, CZ"\n', "Brno\n"]
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.close()


def test_a_closed_pipe_ends_the_command_silently(moldau_sql: Processes, tmp_path: Path) -> None:
    script = tmp_path / "many.sql"
    script.write_text("DEFINE a = 'some line';" + "SHOW VARIABLES;" * 5_000)
    arguments = command("-f", str(script), "-o", "csv")
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, env=moldau_sql.environment, stdout=pipe, stderr=pipe, encoding="utf-8") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline() for _ in range(2)] == ["name,value\n", "a,some line\n"]
        process.stdout.close()
        assert (process.wait(TIMEOUT_S), process.stderr.read()) == (0, "")


def test_the_command_line_starts_without_spark_and_prompt_toolkit() -> None:
    heavy = ("pyspark", "prompt_toolkit", "pygments", "pandas", "moldau.sql.session", "moldau.sql.parser")
    program = f"import sys, moldau.cli.main; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True)
    assert found.stdout == "[]\n"
