"""Choice of Python for Spark's workers: the virtual environment is not activated, and `python3` is another Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark import topics

README = Path(__file__).resolve().parents[2] / "README.md"
JOB_TIMEOUT_S = 240
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    # This JVM runs one short job: the full compiler and a parallel collector cost more than they save.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(2 * JOB_TIMEOUT_S)]


@pytest.fixture
def run_job(tmp_path: Path) -> Callable[[str], str]:
    """`run_job(program)`: run a program with this interpreter, by its path, and return what it printed."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    chosen = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "PYTHONPATH"}
    environment = {name: value for name, value in os.environ.items() if name not in chosen}
    environment |= {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}

    def run(program: str) -> str:
        (tmp_path / "job.py").write_text(program)
        done = subprocess.run(
            [sys.executable, "job.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=JOB_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def spark_example() -> str:
    """The example in the README that reads a topic with Spark."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    return next(block for block in blocks if "readStream" in block)


def test_the_example_of_the_readme_runs_with_another_python3_in_the_path(
    run_job: Callable[[str], str], bootstrap: str, topic: str
) -> None:
    topics.send(bootstrap, topic, [b"1", b"2", b"3"])
    example = spark_example().replace("localhost:9092", bootstrap).replace('"orders"', f'"{topic}"')
    example = example.replace("session()", f"session(config={SETTINGS!r})")
    output = run_job(
        f"""{example}
reader = spark.read.format("moldau").option("kafka.bootstrap.servers", "{bootstrap}").option("subscribe", "{topic}")
print("streaming", orders.isStreaming, "rows", reader.load().count())
print(spark.conf.get("spark.sql.session.timeZone"), spark.conf.get("spark.sql.shuffle.partitions"))
"""
    )
    assert "streaming True rows 3" in output
    assert "UTC 2" in output
