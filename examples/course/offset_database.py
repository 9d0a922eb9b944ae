"""Chapter 5: offsets in a database. Runs examples/offsets_in_sqlite.py, kills it midway, and runs it again."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path

from course import broker_address, new_topic

from moldau import Producer

PROGRAM = Path(__file__).resolve().parents[1] / "offsets_in_sqlite.py"
PAYMENTS = 2_000


def main() -> None:
    with broker_address(__doc__) as bootstrap, tempfile.TemporaryDirectory() as directory:
        topic = new_topic(bootstrap, "payments", partitions=2)
        expected: Counter[str] = Counter()
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(PAYMENTS):
                account = f"account-{number % 5}"
                expected[account] += number
                producer.send(topic, b"%d" % number, key=account.encode())

        database = Path(directory, "totals.db")
        command = [sys.executable, str(PROGRAM), bootstrap, "--topic", topic, "--group", topic]
        command += ["--database", str(database), "--stop-at-the-end"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            print(f"killed after its first line: {process.stdout.readline().strip()}")
            process.kill()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

        with closing(sqlite3.connect(database)) as connection:
            totals = dict(connection.execute("select account, total from totals").fetchall())
        print(f"totals after the second run: {totals}")
        assert totals == expected


if __name__ == "__main__":
    main()
