"""Registry process of `moldau up --registry`: started when the brokers are ready, stopped before they stop."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Final

from moldau.cli.children import ChildProcess
from moldau.cli.output import complain, usage_error
from moldau.cli.ports import is_free, who_listens

DEFAULT_PORT: Final = 8081
LOCAL: Final = "127.0.0.1"
STOP_TIMEOUT_S: Final = 30.0
ANNOUNCEMENT: Final = "moldau-registry-ready "
"""What the process prints with its address, for the program that started it."""


def require_port(port: int) -> None:
    """End the command if the port is in use: the registry would fail only after the brokers have started."""
    if port and not is_free(LOCAL, port):
        usage_error(
            f"the registry cannot listen on {LOCAL}:{port}: {who_listens(LOCAL, port)}; or choose another port with "
            "--registry-port (0: any free one)"
        )


class RegistryChild:
    """The process, and the thread that prints its address and forwards its log. Not started yet: `start`."""

    def __init__(self, port: int, options: Sequence[str]) -> None:
        self._port = port
        self._options = options
        self._child: ChildProcess | None = None
        self._reader: threading.Thread | None = None
        self._stopping = False

    @property
    def broker_settings(self) -> list[str]:
        """So that topics with schema validation work at once. A port that the system chooses is not known yet."""
        return [f"confluent.schema.registry.url=http://{LOCAL}:{self._port}"] if self._port else []

    @property
    def children(self) -> list[ChildProcess]:
        return [] if self._child is None else [self._child]

    def start(self, bootstrap: str) -> None:
        """Start the process. It must be the main thread, which lives as long as the command."""
        command = ["-m", "moldau", "registry", "--announce", "-b", bootstrap, "--port", str(self._port), *self._options]
        self._child = ChildProcess(
            "the registry", [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._reader = threading.Thread(target=self._read, args=(bootstrap,), name="registry-log", daemon=True)
        self._reader.start()

    def stop(self) -> bool:
        """Stop the process; return whether it stopped cleanly. One that has died before was reported then."""
        child, self._stopping = self._child, True
        if child is None or self._reader is None:
            return True
        if not child.alive:
            return False
        code = child.stop(STOP_TIMEOUT_S)
        self._reader.join(STOP_TIMEOUT_S)
        return code == 0

    def _read(self, bootstrap: str) -> None:
        assert self._child is not None
        output = self._child.process.stdout
        assert output is not None
        with output:
            for raw in output:
                line = raw.decode(errors="replace").rstrip("\n")
                if line.startswith(ANNOUNCEMENT):
                    url = line.removeprefix(ANNOUNCEMENT)
                    print(f"Schema registry is ready on {url}", flush=True)
                    print(f"  use     schema.registry.url={url}", flush=True)
                else:
                    print(f"registry | {line}", file=sys.stderr, flush=True)
        if not self._stopping:
            again = f"moldau registry -b {bootstrap}" + ("" if self._port == DEFAULT_PORT else f" --port {self._port}")
            complain(f"the registry has ended; the brokers continue. Start it again with: {again}")
