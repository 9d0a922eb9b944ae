"""Apache Kafka's own jars, fetched once from Maven Central by the pom.xml beside this file.

They are kept in the git-ignored build/ directory. The directory's name depends on the pom, so that another version is
fetched again and an interrupted download is never used. Nothing here is needed to use Moldau.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")
CACHE = Path(__file__).parents[3] / "build" / "apache-kafka"
FETCH_TIMEOUT_S = 300
TOOL_TIMEOUT_S = 60

# These programs run briefly: optimising them would take longer than it saves.
JVM_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx384m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


class JarsUnavailableError(Exception):
    """Java or Maven is missing, or Maven Central did not answer."""


@dataclass(frozen=True)
class KafkaJars:
    """A class path with Apache Kafka, and the command to run a program from it."""

    directory: Path
    jvm_flags: Sequence[str] = JVM_FLAGS
    more_jars: Sequence[str] = ()
    """Further jars, which come after those of the directory."""

    def command(self, main_class: str, *arguments: str) -> list[str]:
        class_path = ":".join([f"{self.directory}/*", *self.more_jars])
        return ["java", *self.jvm_flags, "-cp", class_path, main_class, *arguments]

    def run(self, main_class: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command-line tool to its end. The caller checks the exit code."""
        command = self.command(main_class, *arguments)
        return subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)

    def dump_log_segments(self, files: Sequence[Path], *flags: str) -> subprocess.CompletedProcess[str]:
        names = ",".join(str(file) for file in files)
        return self.run("org.apache.kafka.tools.DumpLogSegments", "--files", names, *flags)


def fetch_jars(pom: Path = POM) -> KafkaJars:
    """The jars that the pom names, from the cache if they are there. JarsUnavailableError gives the reason if there
    are none."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise JarsUnavailableError(f"{program} is not installed")
    target = CACHE / hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    if not target.is_dir():
        _fetch_into(target, pom)
    return KafkaJars(target)


def _fetch_into(target: Path, pom: Path) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        jars = Path(scratch) / "lib"
        command = [
            "mvn",
            "--batch-mode",
            "--quiet",
            f"--file={pom}",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={jars}",
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise JarsUnavailableError(f"Maven did not finish within {FETCH_TIMEOUT_S} s") from None
        if done.returncode != 0:
            lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
            raise JarsUnavailableError(f"Maven failed: {lines[0]}")
        try:
            os.rename(jars, target)
        except OSError:
            # Two runs fetched the jars at the same time and the other one was first: its jars are the same.
            if not target.is_dir():
                raise
