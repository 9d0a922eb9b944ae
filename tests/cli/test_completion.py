"""Shell completion of names of topics, groups and users, read from the cluster."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner

from moldau import Admin, TopicPartition
from moldau.cli import completion
from moldau.cli.completion import join_addresses
from moldau.cli.main import app
from moldau.client.admin import UserScramDeletion, UserScramUpsertion
from tests.cli.conftest import Command

TIMEOUT_S = 60


def bash_at_the_end_of(line: str) -> dict[str, str]:
    """The variables that bash sets. Bash splits words at each colon."""
    words = line.replace(":", " : ").split()
    if line.endswith(" "):
        words.append("")
    return {"_MOLDAU_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}


def completed(line: str, **environment: str) -> list[str]:
    """The completions offered at the end of a line."""
    environment |= bash_at_the_end_of(line)
    join_addresses(environment)
    done = CliRunner().invoke(app, [], prog_name="moldau", env=environment)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Longer time-outs, since a machine that is busy with other tests answers late."""
    monkeypatch.setattr(completion, "TIMEOUT_MS", 30_000)
    monkeypatch.setattr(completion, "CONNECT_TIMEOUT_S", 30.0)
    yield
    logging.disable(logging.NOTSET)  # completion has disabled logging, since its process does nothing else


@pytest.fixture
def topics(new_topic: Callable[..., str]) -> list[str]:
    return sorted(new_topic() for _ in range(2))


def test_topics_are_completed_from_the_cluster_of_the_command_line(bootstrap: str, topics: list[str]) -> None:
    for start in ("topics describe", "produce", "consume", "perf produce --topic", "configs describe --topic"):
        command, _, option = start.partition(" --")
        line = f"moldau {command} -b {bootstrap} {f'--{option} ' if option else ''}"
        assert completed(line + topics[0]) == [topics[0]], start
    assert set(topics) <= set(completed("moldau consume ", MOLDAU_BOOTSTRAP_SERVERS=bootstrap))


def test_internal_topics_are_completed_where_their_name_is_begun(bootstrap: str, moldau: Command) -> None:
    moldau("topics", "create", "__completed")
    try:
        assert completed(f"moldau topics describe -b {bootstrap} __compl") == ["__completed"]
        assert "__completed" not in completed(f"moldau topics describe -b {bootstrap} ")
    finally:
        moldau("topics", "delete", "__completed")


def test_users_and_principals_are_completed(bootstrap: str, topics: list[str]) -> None:
    user = f"user-of-{topics[0]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_user_scram_credentials(UserScramUpsertion(user, "a password"))
        for line in ("users remove", "users list", "users add", "quotas list --user", "quotas set --user"):
            command, _, option = line.partition(" --")
            start = f"moldau {command} -b {bootstrap} {f'--{option} ' if option else ''}"
            assert completed(start + user[:-1]) == [user], line
        assert f"User:{user}" in completed(f"moldau acls list -b {bootstrap} --principal Use")
        admin.alter_user_scram_credentials(UserScramDeletion(user))


def test_groups_are_completed(bootstrap: str, topics: list[str]) -> None:
    group = f"group-of-{topics[0]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(group, {TopicPartition(topics[0], 0): 0})
    for line in ("groups describe", "groups reset", "consume"):
        option = "--group " if line == "consume" else ""
        assert completed(f"moldau {line} -b {bootstrap} {option}{group[:-1]}") == [group], line


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_without_a_broker_completion_is_empty_and_silent(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "TIMEOUT_MS", 100)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        refusing = f"127.0.0.1:{taken.getsockname()[1]}"
        for bootstrap in (silent, refusing, "no-such-host.invalid:9092", "nonsense"):
            assert completed(f"moldau topics describe -b {bootstrap} o") == []
            assert completed(f"moldau groups describe --command-config /no/such/file -b {bootstrap} o") == []


def test_the_command_itself_joins_addresses_before_it_completes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "moldau"],
        env=os.environ | bash_at_the_end_of("moldau consume -b 127.0.0.1:9092 orders --from-b"),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("--from-beginning\n", "")


@pytest.mark.parametrize(
    ("words", "at", "joined", "then_at"),
    [
        ("moldau consume -b a : 1 t", "6", "moldau consume -b a:1 t", "4"),
        ("moldau consume -b a : 1,b : 2 t", "8", "moldau consume -b a:1,b:2 t", "4"),
        ("moldau produce t -K : 5", "5", "moldau produce t -K : 5", "5"),
        ("moldau produce t -K :", "4", "moldau produce t -K :", "4"),
    ],
)
def test_addresses_that_bash_has_split_are_joined(words: str, at: str, joined: str, then_at: str) -> None:
    environment = {"COMP_WORDS": words, "COMP_CWORD": at}
    join_addresses(environment)
    assert environment == {"COMP_WORDS": joined, "COMP_CWORD": then_at}
