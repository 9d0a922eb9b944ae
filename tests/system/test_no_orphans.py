"""A killed test run leaves no broker processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil

END_TIMEOUT_S = 30.0
STARTS_ONE_IN_A_THREAD_THAT_ENDS = """
import sys, threading
from pathlib import Path
from tests.support.process import BrokerProcess

broker = BrokerProcess(Path(sys.argv[1]))
starting = threading.Thread(target=broker.start)
starting.start()
starting.join()
assert broker.alive()
print(broker.pid, flush=True)
sys.stdin.read()
"""


def test_a_broker_ends_with_the_tests_that_started_it_and_not_before(tmp_path: Path) -> None:
    tests = subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE_IN_A_THREAD_THAT_ENDS, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with tests:
        assert tests.stdout is not None
        broker = psutil.Process(int(tests.stdout.readline()))
        assert broker.is_running()
        tests.send_signal(signal.SIGKILL)
        tests.wait()
        broker.wait(END_TIMEOUT_S)
