"""Network namespaces, if this machine allows them; otherwise the run reports the untested part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.system.cluster.network import NO_NAMESPACES, Bridge, Loopback, NoNamespaces

_UNCUT = pytest.StashKey[list[str]]()
"""Tests of this run that could not cut links."""


@pytest.fixture
def network(request: pytest.FixtureRequest) -> Iterator[Bridge | Loopback]:
    """Network namespaces with links that can be cut; otherwise loopback, where only processes can be disturbed."""
    with ExitStack() as stack:
        found: Bridge | Loopback
        try:
            found = stack.enter_context(Bridge())
        except NoNamespaces as error:
            request.config.stash.setdefault(_UNCUT, []).append(f"{request.node.name}: {error}")
            found = Loopback()
        yield found


@pytest.fixture
def bridge(network: Bridge | Loopback) -> Bridge:
    """Network namespaces with links that can be cut; otherwise the test is skipped."""
    if not isinstance(network, Bridge):
        pytest.skip(NO_NAMESPACES)
    return network


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report tests that ran without cutting links: their guarantee was checked only in part."""
    for what in config.stash.get(_UNCUT, []):
        terminalreporter.write_line(f"WARNING: {NO_NAMESPACES}, NO LINK WAS CUT: {what}", red=True, bold=True)
