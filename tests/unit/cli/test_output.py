"""Output and input of commands: tables, times, Kafka's group tables, and options of Kafka's tools."""

from __future__ import annotations

import json
import shlex

import pytest

from moldau.cli import output
from moldau.cli.group_reset import parse_offsets, parse_partitions
from moldau.cli.group_rows import OffsetRow, rows
from moldau.cli.kafka_tools import console_consumer, console_producer, group_tables
from moldau.cli.kafka_tools.configs import parse_pairs
from moldau.cli.kafka_tools.delete_records import parse_offsets as parse_json
from moldau.cli.kafka_tools.get_offsets import parse_rule, parse_time
from moldau.cli.kafka_tools.tool import ToolError, java_text
from moldau.cli.times import parse_datetime_ms, parse_duration_ms
from moldau.client.admin import GroupDescription, MemberDescription
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import ErrorCode, error_for

M1, M2 = (TopicPartition("m1", 0), TopicPartition("m2", 0))


def test_columns_are_aligned_numbers_to_the_right_and_gaps_are_dashes() -> None:
    lines = output.aligned(("name", "size", "here"), [("a", 5, True), ("longer", None, False)])
    assert lines == ["NAME    SIZE  HERE", "a          5  yes", "longer     -  no"]


def test_without_a_terminal_there_are_no_table_lines(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(("name",), [("[red]x",)], "Title")
    output.print_json({"a": "ä"})
    assert capsys.readouterr().out == 'Title\nNAME\n[red]x\n{"a": "ä"}\n'


def test_a_terminal_gets_a_table_and_names_stay_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    output.print_table(("name",), [("[red]x",)])
    assert "[red]x" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:01.500", 1_500),
        ("1970-01-01T00:00:01.500Z", 1_500),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-02", 86_400_000),
    ],
)
def test_times_without_a_zone_are_utc(text: str, milliseconds: int) -> None:
    assert parse_datetime_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("PT1H", 3_600_000), ("P1DT2H3M4.5S", 93_784_500), ("P7D", 604_800_000), ("-PT1S", -1_000), ("pt5m", 300_000)],
)
def test_durations_are_iso_8601(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1H", "PT1X", "1 hour"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="PnDTnHnMnS"):
        parse_duration_ms(text)


def test_partitions_and_offsets_are_parsed() -> None:
    assert parse_partitions("m1") == ["m1"]
    assert parse_partitions("m1:0,2") == [M1, TopicPartition("m1", 2)]
    assert parse_offsets(["m1,0,5", "", " m2 , 0 , 7"]) == {M1: 5, M2: 7}
    assert parse_json(json.dumps({"partitions": [{"topic": "m1", "partition": 0, "offset": 5}]})) == {M1: 5}
    with pytest.raises(ToolError, match="duplicate"):
        parse_json(json.dumps({"partitions": [{"topic": "m1", "partition": 0, "offset": 5}] * 2}))
    with pytest.raises(ToolError, match="valid JSON"):
        parse_json("{")


def test_settings_with_commas_stand_in_brackets() -> None:
    assert parse_pairs("a=1,b=[2,3],c=[],d=x=y") == {"a": "1", "b": "2,3", "c": "", "d": "x=y"}


@pytest.mark.parametrize(
    ("rule", "indexes"),
    [
        ("m1", [0, 1, 2, 3]),
        ("m1:1", [1]),
        ("m1:1-3", [1, 2]),
        ("m1:2-", [2, 3]),
        ("m1:-2", [0, 1]),
        ("m.*:", [0, 1, 2, 3]),
    ],
)
def test_the_end_of_a_partition_range_is_exclusive(rule: str, indexes: list[int]) -> None:
    wanted = parse_rule(rule)
    assert [index for index in range(4) if wanted(TopicPartition("m1", index))] == indexes
    assert not wanted(TopicPartition("other", 1))


def test_times_have_names_and_numbers() -> None:
    assert [parse_time(text) for text in ("latest", "-2", "earliest", "1234")] == [-1, -2, -2, 1234]
    with pytest.raises(ToolError, match="Malformed time argument soon"):
        parse_time("soon")


# Tables, as Kafka 4.3's kafka-consumer-groups printed them ------------------------------------------------------------


def classic_group() -> GroupDescription:
    static = MemberDescription(
        "inst-1-jw3r0yT9RGma6HgFnUeHGg", "inst-1", "static1", "/127.0.0.1", (TopicPartition("m1", 2),)
    )
    much = (TopicPartition("m1", 0), TopicPartition("m1", 1), TopicPartition("m2", 0), TopicPartition("m2", 1))
    other = MemberDescription("c1-rOZs3NVJRlORd_2MTH9cbg", None, "c1", "/127.0.0.1", much)
    idle = MemberDescription("c2-rOZs3NVJRlORd_2MTH9cbg", None, "c2", "/127.0.0.1", ())
    return GroupDescription("live", "Classic", "Stable", "consumer", "range", (static, other, idle))


def test_static_members_have_an_extra_column(capsys: pytest.CaptureFixture[str]) -> None:
    group_tables.print_members(classic_group(), verbose=True)
    assert capsys.readouterr().out.splitlines()[:3] == [
        "",
        (
            "GROUP           CONSUMER-ID                   GROUP-INSTANCE-ID HOST            CLIENT-ID       "
            "#PARTITIONS     CURRENT-EPOCH   CURRENT-ASSIGNMENT   TARGET-EPOCH    TARGET-ASSIGNMENT   "
        ),
        (
            "live            inst-1-jw3r0yT9RGma6HgFnUeHGg inst-1            /127.0.0.1      static1         "
            "1               -               m1:2                 -               -                   "
        ),
    ]


def test_members_with_more_partitions_are_first_and_unassigned_partitions_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    left = TopicPartition("m3", 0)
    found = rows(classic_group(), {M1: OffsetAndMetadata(20), left: OffsetAndMetadata(1)}, {M1: 23, left: 1})
    assert [row.member and row.member.client_id for row in found] == ["c1", "c1", "c1", "c1", "static1", None]
    assert found[0] == OffsetRow(M1, OffsetAndMetadata(20), 23, classic_group().members[1])
    assert [row.lag for row in found] == [3, None, None, None, None, 0]
    group_tables.print_offsets("live", found[:1], verbose=False)
    assert capsys.readouterr().out.splitlines() == [
        "",
        (
            "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             "
            "CONSUMER-ID               HOST            CLIENT-ID"
        ),
        (
            "live            m1              0          20              23              3               "
            "c1-rOZs3NVJRlORd_2MTH9cbg /127.0.0.1      c1"
        ),
    ]


def test_exports_name_the_group_only_where_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    group_tables.print_export({"g": {M1: 5}}, several=False)
    group_tables.print_export({"g": {M1: 5}}, several=True)
    assert capsys.readouterr().out == "m1,0,5\n\ng,m1,0,5\n\n"


def test_errors_have_the_names_of_kafkas_exceptions() -> None:
    start = "org.apache.kafka.common.errors."
    assert (
        java_text(error_for(ErrorCode.GROUP_ID_NOT_FOUND, "x"))
        == f"{start}GroupIdNotFoundException: The group id does not exist."
    )
    assert java_text(error_for(ErrorCode.TOPIC_ALREADY_EXISTS, "x", "Topic 'a' already exists.")) == (
        f"{start}TopicExistsException: Topic 'a' already exists."
    )
    assert java_text(error_for(ErrorCode.POLICY_VIOLATION, "x", "no")) == f"{start}PolicyViolationException: no"


# Console tools: our own commands with Kafka's flags -------------------------------------------------------------------


def test_flags_of_the_console_producer_become_ours() -> None:
    options = console_producer.parser().parse(
        shlex.split(
            "--bootstrap-server b:1 --topic t --property parse.key=true --reader-property key.separator=: --sync "
            "--compression-codec --request-required-acks 1 --producer-property linger.ms=5 --max-memory-bytes 99"
        )
    )
    assert console_producer.translated(options) == shlex.split(
        "--topic t --bootstrap-server b:1 --wait --producer-property buffer.memory=99 --producer-property acks=1 "
        "--producer-property compression.type=gzip --producer-property linger.ms=5 --reader-property parse.key=true "
        "--reader-property key.separator=: --sync"
    )


def test_flags_of_the_console_consumer_become_ours() -> None:
    options = console_consumer.parser().parse(
        shlex.split(
            "--bootstrap-server b:1 --topic t --from-beginning --max-messages 5 --timeout-ms -1 --partition 0 "
            "--offset 3 --property print.key=true --consumer-property check.crcs=false --isolation-level read_committed"
        )
    )
    assert console_consumer.translated(options) == shlex.split(
        "--bootstrap-server b:1 --wait --topic t --partition 0 --offset 3 --max-messages 5 "
        "--isolation-level read_committed --consumer-property check.crcs=false --formatter-property print.key=true "
        "--from-beginning"
    )


@pytest.mark.parametrize(
    "arguments",
    ["--topic t", "--bootstrap-server b:1", "--bootstrap-server b:1 --topic t --formatter a.B", "--nonsense"],
)
def test_contradictory_flags_end_with_exit_code_1(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        console_consumer.main(arguments.split())
    assert ended.value.code == 1
    assert capsys.readouterr().err
