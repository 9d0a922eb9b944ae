"""Chapter 6: kill -9. Runs at_most_once.py, at_least_once.py and exactly_once.py, kills each of them, and counts."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from course import broker_address, new_topic, read_all

from moldau import Producer

EXAMPLES = Path(__file__).resolve().parents[1]
PAYMENTS = 300
LINES_BEFORE_KILL = 5


def kill_and_restart(bootstrap: str, payments: str, program: str) -> Counter[bytes]:
    """Run the program twice, the first time until it is killed. Returns the receipts of each payment."""
    receipts = new_topic(bootstrap, program.replace("_", "-"))
    command = [sys.executable, str(EXAMPLES / f"{program}.py"), bootstrap, "--payments", payments]
    command += ["--receipts", receipts, "--name", receipts, "--batch", "5", "--stop-at-the-end"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(LINES_BEFORE_KILL):
            process.stdout.readline()
        process.kill()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return Counter(one.value for one in read_all(bootstrap, receipts, isolation_level="read_committed"))


def main() -> None:
    programs = ("at_most_once", "at_least_once", "exactly_once")
    with broker_address(__doc__) as bootstrap:
        payments = new_topic(bootstrap, "payments")
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(PAYMENTS):
                producer.send(payments, b"payment %d" % number)
        with ThreadPoolExecutor() as pool:
            runs = {program: pool.submit(kill_and_restart, bootstrap, payments, program) for program in programs}
        found = {program: run.result() for program, run in runs.items()}
    lost = {program: PAYMENTS - len(receipts) for program, receipts in found.items()}
    twice = {program: sum(times > 1 for times in receipts.values()) for program, receipts in found.items()}
    for program in programs:
        print(f"{program:14} {lost[program]:3} payments without a receipt, {twice[program]:3} with two or more")
    assert twice["at_most_once"] == 0
    assert lost["at_least_once"] == 0
    assert lost["exactly_once"] == twice["exactly_once"] == 0


if __name__ == "__main__":
    main()
