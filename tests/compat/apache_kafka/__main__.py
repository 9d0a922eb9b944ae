"""`python -m tests.compat.apache_kafka [PROGRAM ...]`: a real Apache Kafka while a command runs, or until Ctrl-C.

    python -m tests.compat.apache_kafka pytest tests/client tests/cli tests/compat --bootstrap {}

`{}` is replaced by its address. Without a command the address is printed, and the server runs until it is interrupted.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.compat.apache_kafka.jars import JarsUnavailableError, fetch_jars
from tests.compat.apache_kafka.processes import ApacheKafka


def main(command: list[str]) -> int:
    try:
        jars = fetch_jars()
    except JarsUnavailableError as error:
        print(f"Apache Kafka could not be fetched: {error}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as directory, ApacheKafka(jars, Path(directory)) as kafka:
        if not command:
            print(kafka.bootstrap, flush=True)
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
            return 0
        return subprocess.run([part.replace("{}", kafka.bootstrap) for part in command], check=False).returncode


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM} if len(sys.argv) == 1 else set())
    sys.exit(main(sys.argv[1:]))
