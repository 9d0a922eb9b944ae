"""Options and fixtures of all tests.

The tests of tests/client, tests/cli and tests/compat (except for Apache Kafka's own tools) need only the address of a
server:

    pytest tests/compat                              one Moldau broker process for the whole run
    pytest tests/client --bootstrap 127.0.0.1:9092   the server at that address, for example a real Apache Kafka

Such a test is right when Apache Kafka passes it. Where Moldau differs on purpose, the test uses the fixture
`moldau_only`, and docs/compatibility.md gives the reason.

`make soak` sets MOLDAU_SOAK=1 (or pass --soak): the same tests then run with their full counts. A test gets its number
from the fixture `count(short, full)` and does not read the environment.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.compat import wire
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection

SOAK_TEST_TIMEOUT_S = 6 * 3600
MAX_NAME = 80

# A mark of pyproject.toml, and the program that has to be on the PATH for tests that carry it.
REQUIRED_PROGRAMS = {"needs_kcat": "kcat", "needs_java": "java", "needs_versitygw": "versitygw"}

# Reasons of planned skips. Every other reason is reported as a warning at the end of the run.
PLANNED_SKIPS = ("with make soak", "Moldau differs here on purpose")

# Skips that no installation avoids: a right that this user lacks, a port in use, a missing processor instruction.
# With --require-tools every other unplanned skip fails the run: its tool could have been installed.
MACHINE_SKIPS = (
    "network namespaces cannot be made",
    "a small tmpfs cannot be mounted here",
    "the last port is in use",
    "without the instruction",
)

# A shell that starts pytest in the background makes it, and its child processes, ignore SIGINT. Some tests send SIGINT.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Time limits per example say nothing on shared cores; the time-out per test stays.
hypothesis.settings.register_profile("short", max_examples=100, deadline=None)
hypothesis.settings.register_profile("soak", max_examples=5_000, deadline=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak",
        action="store_true",
        default=os.environ.get("MOLDAU_SOAK", "") not in ("", "0"),
        help="run every test with its full counts (also: MOLDAU_SOAK=1)",
    )
    parser.addoption(
        "--require-tools",
        action="store_true",
        default=os.environ.get("PYTEST_REQUIRE_TOOLS", "") not in ("", "0"),
        help="fail when a test is skipped because a tool is not installed (also: PYTEST_REQUIRE_TOOLS=1)",
    )
    parser.addoption("--fuzz-seed", dest="seed", type=int, help="repeat what chance did to fuzzing and system tests")
    parser.addoption(
        "--bootstrap", metavar="HOST:PORT", help="test the server that listens there, not a broker of ours"
    )


def pytest_configure(config: pytest.Config) -> None:
    soak = config.getoption("--soak")
    hypothesis.settings.load_profile("soak" if soak else "short")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    missing = {mark: program for mark, program in REQUIRED_PROGRAMS.items() if shutil.which(program) is None}
    soak = config.getoption("--soak")
    for item in items:
        for mark, program in missing.items():
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=f"{program} is not installed"))
        if soak:
            item.add_marker(pytest.mark.timeout(SOAK_TEST_TIMEOUT_S), append=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report each unplanned reason to skip tests on its own line, not only as an `s`."""
    for reason, count in sorted(_unplanned_skips(terminalreporter).items()):
        tests = "test" if count == 1 else "tests"
        terminalreporter.write_line(f"WARNING: {reason}: {count} {tests} SKIPPED", red=True, bold=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With --require-tools, a run fails if it skipped tests because a tool is missing."""
    if not session.config.getoption("--require-tools"):
        return
    reporter: pytest.TerminalReporter | None = session.config.pluginmanager.get_plugin("terminalreporter")
    assert reporter is not None
    for reason in _unplanned_skips(reporter):
        if not any(known in reason for known in MACHINE_SKIPS):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _unplanned_skips(reporter: pytest.TerminalReporter) -> Counter[str]:
    reasons = Counter(_reason(report) for report in reporter.stats.get("skipped", []))
    return Counter({why: n for why, n in reasons.items() if not any(planned in why for planned in PLANNED_SKIPS)})


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The reason why a test, or a whole module, was skipped."""
    reason = report.longrepr
    return str(reason[2] if isinstance(reason, tuple) else reason).removeprefix("Skipped: ")


@pytest.fixture(scope="session")
def soak(pytestconfig: pytest.Config) -> bool:
    """True if this run uses full counts."""
    return bool(pytestconfig.getoption("--soak"))


@pytest.fixture(scope="session")
def count(soak: bool) -> Callable[[int, int], int]:
    """`count(short, full)`: how many times this run should do a thing."""
    return lambda short, full: full if soak else short


@pytest.fixture
def seed(pytestconfig: pytest.Config) -> int:
    """Seed of a test's random choices. A failing test shows it; --fuzz-seed makes the same choices again."""
    chosen = pytestconfig.getoption("seed")
    value = random.SystemRandom().randrange(1 << 32) if chosen is None else int(chosen)
    print(f"the seed is {value}: repeat with --fuzz-seed={value}")
    return value


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker process for one test."""
    with BrokerProcess(tmp_path / "data") as process:
        yield process


@pytest.fixture(scope="session")
def bootstrap(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server under test."""
    given: str | None = pytestconfig.getoption("--bootstrap")
    if given is not None:
        yield given
        return
    with BrokerProcess(tmp_path_factory.mktemp("compat") / "data") as broker:
        yield broker.bootstrap
        assert broker.alive(), broker.log
    # No client may cause an internal error in the broker's log, or a RuntimeWarning of Python.
    faults = [line for line in broker.log.splitlines() if re.match(r"\S+ (ERROR|CRITICAL) |.*\bRuntimeWarning\b", line)]
    assert not faults, broker.log


@pytest.fixture
def moldau_only(pytestconfig: pytest.Config) -> None:
    """For tests of behaviour in which Moldau differs from Apache Kafka on purpose."""
    if pytestconfig.getoption("--bootstrap") is not None:
        pytest.skip("Moldau differs here on purpose, see docs/compatibility.md")


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawConnection]:
    with RawConnection(bootstrap) as connection:
        yield connection


@pytest.fixture
def unused_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """`unused_name()`: a topic name that no other test has, and that contains the name of the test."""
    readable = re.sub(r"[^a-zA-Z0-9-]+", "-", request.node.name)[:MAX_NAME]
    return lambda: f"{readable}.{uuid.uuid4().hex[:12]}"


@pytest.fixture
def new_topic(bootstrap: str, unused_name: Callable[[], str]) -> Callable[..., str]:
    """`new_topic(partitions=1, configs={})`: create an empty topic and return its name."""

    def create(partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        name = unused_name()
        with RawConnection(bootstrap) as connection:
            wire.create_topic(connection, name, partitions, configs or {})
        return name

    return create


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """An empty topic with one partition."""
    return new_topic()
