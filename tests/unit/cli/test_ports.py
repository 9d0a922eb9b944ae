"""The process that listens on a port, found in /proc."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.cli import ports

LISTENS = """
import socket, sys
server = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("listens", "asked"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("127.0.0.1", ""), ("127.0.0.1", "localhost")],
)
def test_the_process_that_has_a_port_is_named_with_its_command(listens: str, asked: str) -> None:
    command = [sys.executable, "-c", LISTENS, listens]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        assert not ports.is_free("127.0.0.1", port)
        found = ports.find_listener(asked, port)
        assert found is not None
        assert found.pid == other.pid
        assert found.command.startswith(shlex.join(command[:2]))
        assert len(found.command) <= ports.MAX_COMMAND_CHARACTERS + 1
        other.communicate("")
    assert ports.is_free("127.0.0.1", port)
    assert ports.find_listener("127.0.0.1", port) is None


def test_a_listener_on_another_address_does_not_have_the_port() -> None:
    with socket.create_server(("127.0.0.2", 0)) as other:
        assert ports.find_listener("127.0.0.1", other.getsockname()[1]) is None


def test_a_listener_on_ipv6_is_found() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    with server:
        found = ports.find_listener("::1", server.getsockname()[1])
        assert found is not None
        assert found.pid == os.getpid()


def test_without_proc_the_message_names_no_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ports, "PROC", tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert ports.who_listens("127.0.0.1", other.getsockname()[1]) == "another program listens there"


def test_an_address_of_another_machine_has_its_own_error() -> None:
    with pytest.raises(OSError, match=r"192\.0\.2\.1:9092"):
        ports.is_free("192.0.2.1", 9092)
