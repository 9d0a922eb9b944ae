"""Two SQL servers: the other one takes over from one that was killed or frozen, and every record counts once.

A server that was frozen past the takeover writes nothing when it wakes up, and stands by again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.testing import Broker
from tests.compat.apache_kafka.processes import free_port
from tests.support.sql_server import SqlServerProcess
from tests.system.sql.numbers_queries import (
    COPY,
    TOTALS,
    Results,
    define_both,
    flowing_numbers,
    wait_running,
)

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(900)]


def test_the_other_server_takes_over_and_every_record_counts_once(tmp_path: Path, soak: bool) -> None:
    if not soak:
        pytest.skip("two servers run with make soak")
    with Broker() as broker:
        bootstrap = broker.bootstrap_servers
        define_both(bootstrap)
        first, second = (SqlServerProcess(bootstrap, free_port(), tmp_path / "state") for _ in range(2))
        with (
            first.start("leader"),
            second.start("standby"),
            Results(bootstrap) as results,
            flowing_numbers(bootstrap) as numbers,
        ):
            seen = results.wait_copied(0)
            assert second.status(COPY)["server"] == first.url  # the one that stands by forwards the request
            first.freeze()
            second.wait_role("leader")
            results.wait_copied(seen)
            seen = results.wait_copied(numbers.sent)
            first.thaw()
            first.wait_role("standby")
            results.wait_copied(max(seen, numbers.sent))
            wait_running(first, COPY, TOTALS)
            assert first.status(COPY)["server"] == second.url
            assert first.status(TOTALS)["restarts"] == 0
            second.kill()
            first.wait_role("leader")
            seen = results.wait_copied(numbers.sent)
            results.check_once(numbers.end())
