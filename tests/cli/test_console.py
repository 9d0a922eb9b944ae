"""Console producer and consumer: pipes, groups, end conditions, Ctrl-C and exit codes."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner

from moldau import Consumer, Producer
from moldau.cli import connection_options
from moldau.cli.console_input_format import Format, LineError, line_form
from moldau.cli.console_output_format import text_form, text_renderer
from moldau.cli.consume import Ending, Reading, Start, What, _begin, start_of
from moldau.cli.main import app
from moldau.cli.produce import Common, Pump
from moldau.cli.progress import ProgressBar
from moldau.client.errors import MoldauError, UnknownTopicOrPartition
from moldau.testing import Broker
from tests.cli.processes import TIMEOUT_S, done, run, start

PLAIN = line_form({}, Format.STRING)


@pytest.fixture
def producer(bootstrap: str) -> Iterator[Producer]:
    with Producer(bootstrap_servers=bootstrap) as client:
        yield client


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[Consumer]:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as client:
        yield client


def pumped(producer: Producer, topic: str, lines: list[bytes], **common: object) -> None:
    pump = Pump(producer, Common(topic, **common), PLAIN)  # type: ignore[arg-type]
    pump.send(lines)
    pump.check()
    assert (pump.counts.lines, pump.counts.failed) == (len(lines), 0)


def read(consumer: Consumer, what: What, begin: Start, ending: Ending, **shown: str) -> bytes:
    """The records that the command would print."""
    written: list[bytes] = []
    properties = {name.replace("_", "."): value for name, value in shown.items()}
    reading = Reading(consumer, text_renderer(text_form(properties, Format.STRING)), written.append, commits=False)
    ends = _begin(consumer, what, begin, ending, in_group=False)
    reading.run(ending, ends, ProgressBar("", None, "records"))
    return b"".join(written)


UNTIL_END = Ending(until_end=True)
FROM_BEGINNING = Start(at="earliest")


# Start and end of reading ---------------------------------------------------------------------------------------------


def test_all_records_are_read(producer: Producer, consumer: Consumer, topic: str) -> None:
    pumped(producer, topic, [b"1", b"2", b"3"])
    assert read(consumer, What(topic), FROM_BEGINNING, UNTIL_END) == b"1\n2\n3\n"


def test_an_empty_topic_has_an_end(consumer: Consumer, topic: str) -> None:
    assert read(consumer, What(topic), FROM_BEGINNING, UNTIL_END) == b""


def test_reading_ends_after_markers_and_aborted_records(
    bootstrap: str, producer: Producer, topic: str, unused_name: Callable[[], str]
) -> None:
    with Producer(bootstrap_servers=bootstrap, transactional_id=unused_name()) as transactional:
        transactional.init_transactions()
        transactional.begin_transaction()
        transactional.send(topic, b"kept")
        transactional.commit_transaction()
        transactional.begin_transaction()
        transactional.send(topic, b"aborted")
        transactional.abort_transaction()
    with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as committed:
        assert read(committed, What(topic), FROM_BEGINNING, UNTIL_END) == b"kept\n"


def test_reading_starts_at_an_offset(producer: Producer, consumer: Consumer, topic: str) -> None:
    pumped(producer, topic, [b"0", b"1", b"2"])
    assert read(consumer, What(topic, partition=0), Start(offset=1), UNTIL_END) == b"1\n2\n"


def test_reading_starts_at_a_time(producer: Producer, consumer: Consumer, topic: str) -> None:
    for at in (1_000, 2_000, 3_000):
        producer.send(topic, b"%d" % at, timestamp=at).result()
    assert read(consumer, What(topic), Start(timestamp_ms=1_500), UNTIL_END) == b"2000\n3000\n"
    with_nothing_behind = Start(timestamp_ms=10_000)
    assert read(consumer, What(topic), with_nothing_behind, UNTIL_END) == b""


def test_one_partition_can_be_read_alone(producer: Producer, consumer: Consumer, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    for partition in range(3):
        pumped(producer, topic, [b"in %d" % partition], partition=partition)
    assert read(consumer, What(topic, partition=1), FROM_BEGINNING, UNTIL_END) == b"in 1\n"


def test_reading_ends_after_a_number_of_records(producer: Producer, consumer: Consumer, topic: str) -> None:
    pumped(producer, topic, [b"%d" % number for number in range(100)])
    found = read(consumer, What(topic), FROM_BEGINNING, Ending(max_messages=42))
    assert found.split() == [b"%d" % number for number in range(42)]


def test_reading_ends_after_a_time_without_records(consumer: Consumer, topic: str) -> None:
    assert read(consumer, What(topic), FROM_BEGINNING, Ending(timeout_s=0.01)) == b""


def test_an_unknown_topic_is_reported(consumer: Consumer, unused_name: Callable[[], str]) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="does not exist"):
        read(consumer, What(unused_name()), FROM_BEGINNING, UNTIL_END)


def test_an_unknown_partition_is_reported(consumer: Consumer, topic: str) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="partition 7"):
        read(consumer, What(topic, partition=7), FROM_BEGINNING, UNTIL_END)


@pytest.mark.parametrize(
    ("options", "begin"),
    [
        ((False, None, None), Start()),
        ((True, None, None), Start(at="earliest")),
        ((False, "earliest", None), Start(at="earliest")),
        ((False, "17", None), Start(offset=17)),
        ((False, None, "1970-01-01T00:00:01Z"), Start(timestamp_ms=1000)),
        ((False, None, "12345"), Start(timestamp_ms=12345)),
    ],
)
def test_options_choose_the_start_of_reading(options: tuple[bool, str | None, str | None], begin: Start) -> None:
    assert start_of(*options) == begin


@pytest.mark.parametrize("options", [(True, "1", None), (False, "x", None), (False, None, "yesterday")])
def test_contradictory_options_are_reported(options: tuple[bool, str | None, str | None]) -> None:
    with pytest.raises(ValueError, match=r"only one of|number|date"):
        start_of(*options)


# Writing --------------------------------------------------------------------------------------------------------------


def test_records_have_the_common_key_and_headers_of_the_run(producer: Producer, consumer: Consumer, topic: str) -> None:
    pumped(producer, topic, [b"1"], key=b"k", headers=(("h", b"x"),))
    found = read(consumer, What(topic), FROM_BEGINNING, UNTIL_END, print_key="true", print_headers="true")
    assert found == b"h:x\tk\t1\n"


def test_a_bad_line_is_named_and_the_lines_before_it_are_written(producer: Producer, topic: str) -> None:
    pump = Pump(producer, Common(topic), line_form({}, Format.STRING, ":"))
    with pytest.raises(LineError, match="line 2: no key"):
        pump.send([b"k:1", b"oops"])
    pump.check()
    assert (pump.counts.lines, pump.counts.failed) == (2, 0)


def test_a_record_that_is_too_large_is_counted_and_the_others_are_written(
    bootstrap: str, consumer: Consumer, topic: str
) -> None:
    with Producer(bootstrap_servers=bootstrap, max_request_size=10_000) as producer:
        pump = Pump(producer, Common(topic), PLAIN)
        pump.send([b"1", b"x" * 20_000, b"2"])
        pump.check()
    assert (pump.counts.lines, pump.counts.failed) == (3, 1)
    assert pump.counts.first_failure.startswith("line 2: ")
    assert read(consumer, What(topic), FROM_BEGINNING, UNTIL_END) == b"1\n2\n"


def test_a_slow_acknowledgement_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connection_options, "SILENCE_S", 0.1)
    with Broker() as broker:
        broker.faults.fail_next("Produce", "NOT_ENOUGH_REPLICAS", times=None)
        settings = {"bootstrap_servers": broker.bootstrap_servers, "delivery_timeout_ms": 1_000}
        with Producer(**settings, request_timeout_ms=500) as producer:
            pump = Pump(producer, Common("orders"), PLAIN)
            pump.send([b"1", b"2"])
            pump.look()
    assert pump.counts.failed == 2
    printed = capsys.readouterr().err
    assert printed.startswith("moldau: no acknowledgement from orders for 0.1 s, still trying")
    assert len(printed.splitlines()) == 1


@pytest.fixture
def closed_port() -> Iterator[str]:
    """An address that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_the_producer_reports_an_unreachable_broker_before_the_error(
    closed_port: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connection_options, "SILENCE_S", 0.1)
    with (
        Producer(bootstrap_servers=closed_port, max_block_ms=1_000) as producer,
        pytest.raises(MoldauError, match="refused the connection"),
    ):
        Pump(producer, Common("t"), PLAIN).send([b"1"])
    assert capsys.readouterr().err.startswith("moldau: no answer for 0.1 s, still trying")


@pytest.mark.parametrize("what", [("t",), ("t", "--group", "g"), ("--include", "t.*")])
def test_the_consumer_reports_an_unreachable_broker_before_the_error(
    closed_port: str, what: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_options, "SILENCE_S", 0.1)
    ended = CliRunner().invoke(
        app, ["consume", *what, "-b", closed_port, "--wait", "-X", "default.api.timeout.ms=1000"]
    )
    at_once, told, trouble = ended.stderr.splitlines()
    assert at_once == f"moldau: nothing listens at {closed_port} (connection refused); still trying"
    assert told.startswith("moldau: no answer for 0.1 s, still trying")
    assert "refused the connection" in trouble
    assert ended.exit_code == 1


def test_a_failure_that_every_record_would_have_is_raised(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, max_block_ms=200) as producer, pytest.raises(MoldauError):
        Pump(producer, Common(topic, partition=99), PLAIN).send([b"1"])


# The commands ---------------------------------------------------------------------------------------------------------


def test_lines_pass_through_a_topic_unchanged(bootstrap: str, topic: str) -> None:
    lines = b"".join(b"line %d \xff\xfe\n" % number for number in range(20_000))
    assert done(bootstrap, "produce", topic, given=lines) == b""
    assert done(bootstrap, "consume", topic, "--from-beginning", "--until-end") == lines


def test_json_passes_from_topic_to_topic_unchanged(bootstrap: str, topic: str, new_topic: Callable[..., str]) -> None:
    copy = new_topic()
    headers = ["-H", "a=1", "--property", "parse.key=true", "--property", "key.separator=:"]
    done(bootstrap, "produce", "--topic", topic, *headers, given=b"k:v\n\xff:\xfe\n")
    arguments = ["--from-beginning", "--max-messages", "2", "--output", "json"]
    original = done(bootstrap, "consume", "--topic", topic, *arguments)
    done(bootstrap, "produce", copy, "--format", "json", given=original)
    copied = done(bootstrap, "consume", copy, *arguments)
    assert [json.loads(line) | {"topic": copy} for line in original.splitlines()] == [
        json.loads(line) for line in copied.splitlines()
    ]


def test_a_group_continues_at_its_committed_offset(
    bootstrap: str, producer: Producer, topic: str, unused_name: Callable[[], str]
) -> None:
    pumped(producer, topic, [b"1", b"2", b"3"])
    member = ["consume", topic, "--group", unused_name(), "--from-beginning", "--max-messages"]
    assert done(bootstrap, *member, "2") == b"1\n2\n"
    assert done(bootstrap, *member, "1") == b"3\n"


def test_ctrl_c_ends_a_consumer_and_commits_the_printed_records(
    bootstrap: str, producer: Producer, topic: str, unused_name: Callable[[], str]
) -> None:
    group = unused_name()
    pumped(producer, topic, [b"1", b"2"])
    reader = start(bootstrap, ["consume", topic, "--group", group, "--from-beginning"])
    assert reader.stdout is not None
    assert [reader.stdout.readline() for _ in range(2)] == [b"1\n", b"2\n"]
    reader.send_signal(signal.SIGINT)
    _, said = reader.communicate(timeout=TIMEOUT_S)
    assert (reader.returncode, said) == (130, b"Processed a total of 2 messages\n")
    with Consumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        (committed,) = consumer.committed((topic, 0)).values()
    assert committed is not None
    assert committed.offset == 2


def test_a_closed_pipe_ends_the_consumer_silently(bootstrap: str, producer: Producer, topic: str) -> None:
    pumped(producer, topic, [b"some line"] * 50_000)
    with start(bootstrap, ["consume", topic, "--from-beginning"]) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        assert reader.stdout.readline() == b"some line\n"
        reader.stdout.close()
        assert (reader.wait(TIMEOUT_S), reader.stderr.read()) == (0, b"")


def test_ctrl_c_ends_a_producer_after_the_lines_it_has_read(bootstrap: str, consumer: Consumer, topic: str) -> None:
    writer = start(bootstrap, ["produce", topic])
    assert writer.stdin is not None
    writer.stdin.write(b"read\n")
    writer.stdin.flush()
    assert read(consumer, What(topic), FROM_BEGINNING, Ending(max_messages=1)) == b"read\n"
    writer.send_signal(signal.SIGINT)
    _, said = writer.communicate(timeout=TIMEOUT_S)
    assert (writer.returncode, said) == (130, b"")


@pytest.mark.parametrize("listens", [True, False])
def test_ctrl_c_ends_a_producer_that_waits_for_a_broker(listens: bool) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if listens:
            silent.listen()
        silent.settimeout(TIMEOUT_S)
        port = silent.getsockname()[1]
        with start(f"127.0.0.1:{port}", ["produce", "t", "--wait"]) as writer, contextlib.ExitStack() as cleanup:
            cleanup.callback(writer.kill)
            assert writer.stdin is not None
            assert writer.stderr is not None
            writer.stdin.write(b"read\n")
            writer.stdin.flush()
            if listens:
                # The first connection only checks that a server listens, and is closed without sending a byte.
                while not cleanup.enter_context(silent.accept()[0]).recv(1):
                    pass
            else:
                assert b"nothing listens at" in writer.stderr.readline()
            # If the line has not been read yet, Ctrl-C ends the read.
            writer.send_signal(signal.SIGINT)
            _, said = writer.communicate(timeout=TIMEOUT_S / 3)
            assert writer.returncode == 130
            assert said in (b"", b"moldau: stopped before a broker answered: nothing was written\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["produce"], 2, "give the name of a topic"),
        (["consume"], 2, "give a topic"),
        (["consume", "t", "--include", "t.*"], 2, "give a topic, or a pattern"),
        (["produce", "t", "--property", "pasre.key=true"], 2, "unknown property 'pasre.key'"),
        (["produce", "t", "-H", "nothing"], 2, "'nothing' is not of the form NAME=VALUE"),
        (["consume", "t", "--group", "g", "--offset", "3"], 2, "a group continues at its committed offsets"),
        (["consume", "t", "--offset", "x"], 2, "--offset must be a number"),
        (
            ["consume", "t", "-o", "json", "--property", "print.key=true"],
            2,
            "--property cannot be used with --output json",
        ),
        (["consume", "t", "-X", "fetch.min.byte=1"], 1, "fetch.min.bytes"),
        (["produce", "t", "-X", "linger.m=1"], 1, "linger.ms"),
    ],
)
def test_wrong_arguments_give_one_line_and_an_exit_code(arguments: list[str], code: int, said: str) -> None:
    finished = CliRunner().invoke(app, arguments)
    assert finished.exit_code == code
    assert said in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_a_malformed_line_ends_the_command_with_its_number(bootstrap: str, consumer: Consumer, topic: str) -> None:
    finished = run(bootstrap, "produce", topic, "-K", ":", given=b"k:v\nno separator\n")
    assert (finished.returncode, finished.stdout) == (1, b"")
    assert finished.stderr == b"moldau: line 2: no key: the separator ':' is not in the line\n"
    assert read(consumer, What(topic), FROM_BEGINNING, UNTIL_END) == b"v\n"
