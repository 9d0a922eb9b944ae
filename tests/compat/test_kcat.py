"""kcat as Debian ships it, with a librdkafka of 2023: listings, queries, and the features it detects."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat import wire
from tests.compat.drivers import FETCH_WAIT_MS, TIMEOUT_S, ConfluentKafka, Kcat, Message, kcat
from tests.support.raw import RawConnection

pytestmark = pytest.mark.needs_kcat

CLIENT = Kcat()


def test_the_metadata_listing_names_brokers_topics_and_partitions(
    bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=3)
    listing = json.loads(kcat(bootstrap, "-L", "-J", "-t", topic))
    (broker,) = listing["brokers"]
    assert broker["name"] == bootstrap
    (found,) = listing["topics"]
    assert found["topic"] == topic
    assert [(each["partition"], each["leader"]) for each in found["partitions"]] == [
        (index, broker["id"]) for index in range(3)
    ]
    assert listing["controllerid"] == broker["id"]


def test_offsets_are_looked_up_by_time(bootstrap: str, topic: str) -> None:
    times = [1_000, 2_000, 3_000]
    ConfluentKafka().produce(bootstrap, topic, [Message(b"key", b"value", (), time) for time in times])

    def asked(time: int) -> int:
        output = kcat(bootstrap, "-Q", "-t", f"{topic}:0:{time}").decode()
        found = re.search(r"offset (-?\d+)", output)
        assert found is not None, output
        return int(found[1])

    assert [asked(time) for time in (-2, -1, 0, 1_500, 3_000)] == [0, 3, 0, 1, 2]
    assert asked(9_000) == -1


@pytest.mark.parametrize(("start", "expected"), [("beginning", "0123456789"), ("7", "789"), ("-2", "89")])
def test_reading_starts_at_the_given_offset(start: str, expected: str, bootstrap: str, topic: str) -> None:
    CLIENT.produce(bootstrap, topic, [Message(b"key", b"%d" % number) for number in range(10)])
    options = ("-C", "-t", topic, "-p", "0", "-o", start, "-e", "-X", f"fetch.wait.max.ms={FETCH_WAIT_MS}", "-f", "%s")
    assert kcat(bootstrap, *options).decode() == expected


def test_reading_between_two_times(bootstrap: str, topic: str) -> None:
    times = [1_000, 2_000, 3_000, 4_000]
    messages = [Message(b"key", b"%d" % time, (), time) for time in times]
    ConfluentKafka().produce(bootstrap, topic, messages)
    options = ("-X", f"fetch.wait.max.ms={FETCH_WAIT_MS}", "-f", "%s ")
    found = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", "s@1500", "-o", "e@3500", "-e", *options)
    assert found.decode().split() == ["2000", "3000"]


def test_json_output_has_the_timestamp_type(bootstrap: str, new_topic: Callable[..., str]) -> None:
    kinds = {}
    for kind in ("CreateTime", "LogAppendTime"):
        topic = new_topic(configs={"message.timestamp.type": kind})
        CLIENT.produce(bootstrap, topic, [Message(b"key", b"value")])
        output = kcat(
            bootstrap, "-C", "-J", "-t", topic, "-p", "0", "-o", "beginning", "-c", "1",
            "-X", f"fetch.wait.max.ms={FETCH_WAIT_MS}",
        )  # fmt: skip
        kinds[kind] = json.loads(output)["tstype"]
    assert kinds == {"CreateTime": "create", "LogAppendTime": "logappend"}


def test_a_whole_file_is_one_record(bootstrap: str, topic: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * 1_000
    path = tmp_path / "file"
    path.write_bytes(content)
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", str(path))
    assert [read.value for read in CLIENT.consume(bootstrap, topic)] == [content]


def test_a_header_without_a_value_is_null(bootstrap: str, topic: str, raw: RawConnection) -> None:
    CLIENT.produce(bootstrap, topic, [Message(b"key", b"value", (("null", None), ("empty", b"")))])
    answer = wire.fetch_one(raw, topic)
    assert [tuple(record.headers) for record in wire.records_in(answer.records)] == [(("null", None), ("empty", b""))]


def test_keys_spread_over_partitions_and_stay_together(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=4)
    lines = b"".join(b"key-%d:%d\n" % (number % 20, number) for number in range(200))
    kcat(bootstrap, "-P", "-t", topic, "-K", ":", stdin=lines)
    homes: dict[bytes, set[int]] = {}
    for partition in range(4):
        for read in CLIENT.consume(bootstrap, topic, partition=partition):
            assert read.key is not None
            homes.setdefault(read.key, set()).add(partition)
    assert len(homes) == 20
    assert all(len(partitions) == 1 for partitions in homes.values())


# Features that an old librdkafka detects ------------------------------------------------------------------------------


def debugged(bootstrap: str, contexts: str, *arguments: str, stdin: str | None = None) -> str:
    command = ["kcat", "-b", bootstrap, "-d", contexts, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    return done.stderr


def test_librdkafka_finds_every_feature_that_it_looks_for(bootstrap: str, topic: str) -> None:
    """librdkafka decides by the advertised version ranges, and silently disables features that it misses."""
    debug = debugged(bootstrap, "feature", "-L", "-t", topic)
    enabled = set(re.findall(r"Enabling feature (\w+)", debug))
    assert {"ApiVersion", "MsgVer2", "LZ4", "ZSTD", "OffsetTime"} <= enabled, debug


def test_librdkafka_uses_the_newest_versions_that_it_knows(bootstrap: str, topic: str) -> None:
    written = debugged(bootstrap, "protocol", "-P", "-t", topic, "-p", "0", "-z", "zstd", stdin="value\n")
    options = ("-t", topic, "-p", "0", "-o", "beginning", "-e", "-X", f"fetch.wait.max.ms={FETCH_WAIT_MS}")
    read = debugged(bootstrap, "protocol", "-C", *options)
    spoken = {name: int(version) for name, version in re.findall(r"Sent (\w+)Request \(v(\d+),", written + read)}
    assert spoken == {"ApiVersion": 3, "Metadata": 4, "Produce": 7, "Fetch": 11, "ListOffsets": 2}
