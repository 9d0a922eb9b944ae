"""Options and fixtures that every kind of test shares.

All of tests/compat (Apache Kafka's own tools aside) and tests/client talks to one server and asks nothing of it but its
address:

    pytest tests/compat                              one Moldau broker process for the whole run
    pytest tests/client --bootstrap 127.0.0.1:9092   whatever listens there, for example a real Apache Kafka

Such a test is right when Apache Kafka passes it; where Moldau answers differently on purpose, it asks for `moldau_only`
and docs/compatibility.md says why.

`make soak` sets MOLDAU_SOAK=1 (or pass --soak): the same tests then run with their full counts. A test asks for the
number that it should use, `count(short, full)`, and never looks at the environment itself.
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
REQUIRED_PROGRAMS = {"needs_kcat": "kcat", "needs_java": "java"}

# What a run leaves out because it was asked to: every other reason to skip a test is told loudly.
PLANNED_SKIPS = ("with make soak", "Moldau differs here on purpose")

# A shell that starts us in the background has us ignore Ctrl-C, and all that we start with us: tests send it to some.
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
    """A skipped test is a promise not checked: say it in a line of its own, not only as an `s`."""
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    for reason, count in sorted(reasons.items()):
        if not any(planned in reason for planned in PLANNED_SKIPS):
            tests = "test" if count == 1 else "tests"
            terminalreporter.write_line(f"WARNING: {reason}: {count} {tests} SKIPPED", red=True, bold=True)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Of tests, and of modules that say it where they begin."""
    told = report.longrepr
    return str(told[2] if isinstance(told, tuple) else told).removeprefix("Skipped: ")


@pytest.fixture(scope="session")
def soak(pytestconfig: pytest.Config) -> bool:
    """Whether this run has full counts."""
    return bool(pytestconfig.getoption("--soak"))


@pytest.fixture(scope="session")
def count(soak: bool) -> Callable[[int, int], int]:
    """`count(short, full)`: how many times this run should do a thing."""
    return lambda short, full: full if soak else short


@pytest.fixture
def seed(pytestconfig: pytest.Config) -> int:
    """Where a test's chances come from. A failing test shows it; with --fuzz-seed the same ones come again."""
    chosen = pytestconfig.getoption("seed")
    value = random.SystemRandom().randrange(1 << 32) if chosen is None else int(chosen)
    print(f"the seed is {value}: repeat with --fuzz-seed={value}")
    return value


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker process of the test's own."""
    with BrokerProcess(tmp_path / "data") as process:
        yield process


@pytest.fixture(scope="session")
def bootstrap(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the server under test listens."""
    given: str | None = pytestconfig.getoption("--bootstrap")
    if given is not None:
        yield given
        return
    with BrokerProcess(tmp_path_factory.mktemp("compat") / "data") as broker:
        yield broker.bootstrap
        assert broker.alive(), broker.log
    # No client, however rude, may make the broker log a fault of its own.
    faults = [line for line in broker.log.splitlines() if re.match(r"\S+ (ERROR|CRITICAL) ", line)]
    assert not faults, broker.log


@pytest.fixture
def moldau_only(pytestconfig: pytest.Config) -> None:
    """For behaviour that is Moldau's own choice."""
    if pytestconfig.getoption("--bootstrap") is not None:
        pytest.skip("Moldau differs here on purpose, see docs/compatibility.md")


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawConnection]:
    with RawConnection(bootstrap) as connection:
        yield connection


@pytest.fixture
def unused_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Topic names that no other test has, and that tell which test they belong to."""
    readable = re.sub(r"[^a-zA-Z0-9-]+", "-", request.node.name)[:MAX_NAME]
    return lambda: f"{readable}.{uuid.uuid4().hex[:12]}"


@pytest.fixture
def new_topic(bootstrap: str, unused_name: Callable[[], str]) -> Callable[..., str]:
    """`new_topic(partitions=1, configs={})`: the name of a topic that is there and empty."""

    def create(partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        name = unused_name()
        with RawConnection(bootstrap) as connection:
            wire.create_topic(connection, name, partitions, configs or {})
        return name

    return create


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """An empty topic of one partition."""
    return new_topic()
