from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.settings import BROKER, SettingError, gather, read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1 \r\nb:2\rc 3", {"a": "1 ", "b": "2", "c": "3"}),
        ("# comment\n! comment\n\n  \t\n a=1", {"a": "1"}),
        ("a=x,\\\n   y,\\\n\tz\nb=1", {"a": "x,y,z", "b": "1"}),
        ("a=ends in a backslash\\\\\nb=1", {"a": "ends in a backslash\\", "b": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=C:\\\\data\\tx", {"a": "C:\\data\tx"}),
        ("a=\\u00e9\\u20ac", {"a": "é€"}),
        ("a=1\\", {"a": "1"}),
        ("a=one\u2028line", {"a": "one\u2028line"}),
        ("", {}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert read_properties(text) == expected


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u12g4", "ok=1\na=\\u"])
def test_a_broken_escape_is_an_error_with_its_line(text: str) -> None:
    with pytest.raises(SettingError, match=r"line \d: .* four hexadecimal digits"):
        read_properties(text)


@given(st.text())
def test_any_text_is_read_or_refused_as_a_setting_error(text: str) -> None:
    try:
        properties = read_properties(text)
    except SettingError:
        return
    assert len(properties) <= len(text)


def test_the_environment_wins_over_the_file_and_the_command_line_over_both() -> None:
    texts = gather(
        BROKER,
        properties="num.partitions=1\nlog.dirs=a\nbroker.rack=r",
        environment={"MOLDAU_NUM_PARTITIONS": "2", "MOLDAU_LOG_DIRS": "b", "HOME": "/root"},
        assignments=["num.partitions=3"],
    )
    assert texts == {"num.partitions": "3", "log.dirs": "b", "broker.rack": "r"}


def test_settings_of_our_own_need_no_second_prefix_in_the_environment() -> None:
    assert gather(BROKER, environment={"MOLDAU_METRICS_PORT": "9"}) == {"moldau.metrics.port": "9"}
    assert gather(BROKER, environment={"MOLDAU_MOLDAU_METRICS_PORT": "9"}) == {"moldau.metrics.port": "9"}


def test_variables_that_are_no_settings_are_left_alone() -> None:
    assert gather(BROKER, environment={"MOLDAU_PURE": "1", "MOLDAU_SOAK": "1", "PATH": "x"}) == {}


def test_the_error_of_an_unknown_variable_names_it_and_suggests_a_setting() -> None:
    with pytest.raises(SettingError, match=r"MOLDAU_NUM_PARTITION: .*did you mean num\.partitions\?"):
        gather(BROKER, environment={"MOLDAU_NUM_PARTITION": "1"})


def test_an_unknown_setting_in_the_file_is_an_error() -> None:
    with pytest.raises(SettingError, match=r"did you mean log\.dirs\?"):
        gather(BROKER, properties="log.drs=x")


def test_a_file_may_have_settings_of_kafka_and_of_its_plugins() -> None:
    given = {"sasl.kerberos.min.time.before.relogin": "1", "cleanup.policy": "compact", "my.plugin.url": "x"}
    assert gather(BROKER, properties="\n".join(f"{name}={text}" for name, text in given.items())) == given


def test_the_command_line_and_the_environment_may_have_settings_of_kafka_only() -> None:
    assert gather(BROKER, assignments=["sasl.kerberos.kinit.cmd=x"]) == {"sasl.kerberos.kinit.cmd": "x"}
    assert gather(BROKER, environment={"MOLDAU_SASL_KERBEROS_KINIT_CMD": "x"}) == {"sasl.kerberos.kinit.cmd": "x"}
    with pytest.raises(SettingError, match=r"my\.plugin\.url: unknown broker setting"):
        gather(BROKER, assignments=["my.plugin.url=x"])


@pytest.mark.parametrize("text", ["num.partitions", "=3", " =3"])
def test_an_assignment_without_a_name_or_a_value_is_an_error(text: str) -> None:
    with pytest.raises(SettingError, match="not of the form name=value"):
        gather(BROKER, assignments=[text])


def test_an_assignment_may_contain_more_equals_signs() -> None:
    assert gather(BROKER, assignments=["broker.rack=a=b"]) == {"broker.rack": "a=b"}
