"""`moldau up` with one broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from moldau import Admin, ConfigResource, Producer
from moldau.errors import BrokerError, MoldauError
from moldau.settings.sources import read_properties

END_TIMEOUT_S = 60.0


class Up:
    """A running `moldau up`, with its output up to the ready line."""

    def __init__(self, *options: str, **environment: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MOLDAU_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "moldau", "up", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=kept | environment,
        )
        assert self.process.stdout is not None
        self.banner: list[str] = []
        for line in self.process.stdout:
            self.banner.append(line.strip())
            if line.startswith("  stop"):
                break
        assert self.banner, self.end()
        self.address = self.banner[0].split()[4]

    def setting(self, name: str) -> str | None:
        with Admin(bootstrap_servers=self.address) as admin:
            broker = ConfigResource.broker(admin.describe_cluster().brokers[0].id)
            return admin.describe_configs([broker])[broker][name].value

    def end(self) -> tuple[int, str]:
        """The exit code and the output on standard error."""
        _, complaints = self.process.communicate(timeout=END_TIMEOUT_S)
        return self.process.returncode, complaints


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def start(*options: str, **environment: str) -> Up:
        started.append(Up("--data", str(tmp_path / "data"), *options, **environment))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.end()


def test_it_listens_only_on_the_given_addresses(up: Callable[..., Up]) -> None:
    broker = up("--listen", "127.0.0.2:0")
    host, _, port = broker.address.partition(":")
    connections = psutil.Process(broker.process.pid).net_connections("inet")
    assert [one.laddr for one in connections if one.status == psutil.CONN_LISTEN] == [(host, int(port))]
    assert host == "127.0.0.2"
    broker.process.send_signal(signal.SIGINT)
    assert broker.end() == (0, "")


def test_the_commands_in_the_banner_work_and_a_new_group_reads_at_once(up: Callable[..., Up]) -> None:
    broker = up("--port", "0")
    _, write, read, others, _ = broker.banner
    assert others == f"or use  any Kafka client: bootstrap.servers={broker.address}"
    shell = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    for line, word, options, printed in (
        (write, "write   ", "", ""),
        (read, "read    ", "--max-messages 1 --group g", "hello\n"),
    ):
        command = f"{line.removeprefix(word)} {options}"
        done = subprocess.run(command, shell=True, env=shell, capture_output=True, text=True, timeout=END_TIMEOUT_S)
        assert (done.returncode, done.stdout) == (0, printed), done.stderr
    assert broker.setting("group.initial.rebalance.delay.ms") == "0"


@pytest.mark.parametrize("way", ["command line", "environment"])
def test_settings_of_the_user_override_its_defaults(up: Callable[..., Up], way: str) -> None:
    if way == "environment":
        broker = up("--port", "0", MOLDAU_GROUP_INITIAL_REBALANCE_DELAY_MS="1234")
    else:
        broker = up("--port", "0", "--set", "group.initial.rebalance.delay.ms=1234")
    assert broker.setting("group.initial.rebalance.delay.ms") == "1234"


def test_a_secured_broker_serves_its_users_and_nobody_else(up: Callable[..., Up], tmp_path: Path) -> None:
    broker = up("--port", "0", "--secure")
    files = tmp_path / "data" / "security"
    assert f"--command-config {files / 'admin.properties'}" in broker.banner[1]
    admin = {"bootstrap.servers": broker.address, **read_properties((files / "admin.properties").read_text())}
    user = {"bootstrap.servers": broker.address, **read_properties((files / "user.properties").read_text())}
    with Producer(admin) as producer:
        assert producer.send("greetings", b"hello").result().offset == 0
    with pytest.raises(BrokerError, match="AUTHORIZATION_FAILED"), Producer(user) as producer:
        producer.send("greetings", b"hello").result()
    with pytest.raises(MoldauError, match="TLS"), Admin(bootstrap_servers=broker.address) as nobody:
        nobody.list_topics()
    broker.process.send_signal(signal.SIGINT)
    assert broker.end()[0] == 0

    again = up("--port", "0", "--secure")
    with Admin({**admin, "bootstrap.servers": again.address}) as same:
        assert "greetings" in [topic.name for topic in same.list_topics()]
    again.process.send_signal(signal.SIGINT)
    assert again.end()[0] == 0

    command = [sys.executable, "-m", "moldau", "up", "--data", str(tmp_path / "data"), "--port", "0"]
    opened = subprocess.run(command, capture_output=True, text=True, timeout=END_TIMEOUT_S, check=False)
    assert opened.returncode == 2
    assert "--secure" in opened.stderr
