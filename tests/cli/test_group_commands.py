"""`moldau groups`, `moldau transactions` and `moldau cluster`: effects, output and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.wire.errors import ErrorCode
from tests.cli.conftest import Command
from tests.cli.prefixed_objects import Member
from tests.compat.transactions import requests
from tests.compat.wire import produced
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

Name = Callable[[], str]


@pytest.fixture
def written(raw: RawConnection, topic: str) -> str:
    produced(raw, topic, *[b"value"] * 8)
    return topic


def in_json(moldau: Command, *arguments: str) -> Any:
    result = moldau(*arguments, "--output", "json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_reset_is_only_shown_without_execute(moldau: Command, written: str, unused_name: Name) -> None:
    group = unused_name()
    shown = moldau("groups", "reset", group, "--topic", written, "--to-offset", "3")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[1].split() == [group, written, "0", "-", "3"]
    assert "Nothing was changed" in shown.stderr
    assert group not in moldau("groups", "list").stdout.splitlines()

    done = moldau("groups", "reset", group, "--topic", written, "--to-offset", "3", "--execute")
    assert (done.exit_code, done.stdout, done.stderr) == (0, shown.stdout, "")
    assert group in moldau("groups", "list").stdout.splitlines()
    (row,) = in_json(moldau, "groups", "offsets", group)
    assert (row["committed"], row["end"], row["lag"], row["member"]) == (3, 8, 5, None)
    (summary,) = in_json(moldau, "groups", "describe", group)
    assert (summary["state"], summary["lag"], summary["members"]) == ("Empty", 5, 0)


def test_every_kind_of_reset_has_an_option(moldau: Command, written: str, unused_name: Name) -> None:
    group = unused_name()
    rules = {
        "--to-earliest": 0,
        "--to-latest": 8,
        "--to-current": 4,
        "--shift-by -3": 1,
        "--to-datetime 2001-02-03T04:05:06.789Z": 0,
        "--by-duration -PT1H": 8,
    }
    moldau("groups", "reset", group, "--topic", f"{written}:0", "--to-offset", "4", "--execute")
    for rule, after in rules.items():
        (moved,) = in_json(moldau, "groups", "reset", group, "--all-topics", *rule.split())
        assert (rule, moved["before"], moved["after"]) == (rule, 4, after)


def test_offsets_come_from_a_file(moldau: Command, written: str, unused_name: Name, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"{written},0,6\n")
    (moved,) = in_json(moldau, "groups", "reset", unused_name(), "--from-file", str(file), "--execute")
    assert moved["after"] == 6
    file.write_text(f"{written},0\n")
    wrong = moldau("groups", "reset", unused_name(), "--from-file", str(file))
    assert wrong.exit_code == 2
    assert "line 1" in wrong.stderr
    assert moldau("groups", "reset", unused_name(), "--from-file", str(tmp_path / "missing")).exit_code == 2


def test_a_group_with_a_member_is_shown_with_it_and_not_moved(
    moldau: Command, bootstrap: str, written: str, unused_name: Name
) -> None:
    group = unused_name()
    member = Member(bootstrap, group, written)
    (shown,) = in_json(moldau, "groups", "members", group)
    assert shown["assignment"] == [f"{written}:0"]
    assert shown["member"] in moldau("groups", "offsets", group).stdout
    assert group in moldau("groups", "list", "--long", "--type", "Consumer", "--state", "Stable").stdout
    refused = moldau("groups", "reset", group, "--topic", written, "--to-earliest", "--execute")
    assert refused.exit_code == 1
    assert "stop them first" in refused.stderr
    assert moldau("groups", "delete", group).exit_code == 1
    member.close()


def test_groups_are_deleted_and_missing_ones_are_named(moldau: Command, written: str, unused_name: Name) -> None:
    group, other = unused_name(), unused_name()
    moldau("groups", "reset", group, "--topic", written, "--to-latest", "--execute")
    result = moldau("groups", "delete", group, other)
    assert (result.exit_code, result.stdout) == (1, f"{group} deleted\n")
    assert other in result.stderr
    assert group not in result.stderr
    assert moldau("groups", "describe", group).exit_code == 1


def test_transactions_are_listed_described_and_ended(
    moldau: Command, raw: RawConnection, topic: str, unused_name: Name
) -> None:
    name = unused_name()
    identity = requests.producer(raw, name)
    assert requests.add_each(raw, name, identity, topic, [0]) == [ErrorCode.NONE]
    assert requests.write(raw, name, identity, topic, b"value") == ErrorCode.NONE

    assert name in moldau("transactions", "list", "--state", "Ongoing").stdout
    (described,) = in_json(moldau, "transactions", "describe", name)
    assert described["partitions"] == [f"{topic}-0"]
    assert in_json(moldau, "transactions", "find-hanging", "--topic", topic) == []
    wrong = moldau("transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "77")
    assert (wrong.exit_code, "77" in wrong.stderr) == (1, True)

    identifying = ("--producer-id", str(identity.producer_id), "--producer-epoch", str(identity.epoch))
    assert moldau("transactions", "complete", name, *identifying, "--commit").exit_code == 0
    wait_until(lambda: in_json(moldau, "transactions", "describe", name)[0]["state"] == "CompleteCommit")
    assert moldau("transactions", "abort", name).exit_code == 0
    assert moldau("transactions", "abort", f"{name}-not").exit_code == 1


def test_the_cluster_is_described(moldau: Command, bootstrap: str, written: str) -> None:
    found = in_json(moldau, "cluster", "describe")
    assert [f"{one['host']}:{one['port']}" for one in found["brokers"]] == [bootstrap]
    assert found["cluster_id"] in moldau("cluster", "describe").stdout
    (log_dir,) = in_json(moldau, "cluster", "log-dirs", "--topic", written)
    assert [one["size"] > 0 for one in log_dir["partitions"]] == [True]
    assert written in moldau("cluster", "log-dirs", "--topic", written).stdout
    features = {one["feature"]: one["finalized"] for one in in_json(moldau, "cluster", "features")}
    assert features["group.version"] == 1
    assert {"key": 0, "api": "Produce"}.items() <= in_json(moldau, "cluster", "apis")[0].items()
