from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.settings import BROKER, TOPIC, Setting, SettingError, SettingType, Value

EVERY_SETTING = [*BROKER, *TOPIC]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("segment.bytes", " 2097152 ", 2097152),
        ("segment.bytes", "+2097152", 2097152),
        ("retention.ms", "-1", -1),
        ("retention.bytes", "-5", -5),
        ("preallocate", "TRUE", True),
        ("cleanup.policy", " compact , delete ", ("compact", "delete")),
        ("cleanup.policy", "delete,delete", ("delete",)),
        ("cleanup.policy", "", ()),
        ("min.cleanable.dirty.ratio", ".5", 0.5),
        ("min.cleanable.dirty.ratio", "1e-1", 0.1),
        ("compression.gzip.level", "-1", -1),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),
    ],
)
def test_values_that_kafka_accepts_have_the_same_meaning(name: str, text: str, value: Value) -> None:
    assert TOPIC[name].parse(text) == value


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("segment.bytes", "0", "0 is out of bounds: 1048576 or more is allowed"),
        ("segment.bytes", "abc", "'abc' is not a whole number"),
        ("segment.bytes", "", "'' is not a whole number"),
        ("segment.bytes", "1048576.0", "'1048576.0' is not a whole number"),
        ("segment.bytes", "1_048_576", "'1_048_576' is not a whole number"),
        ("segment.bytes", "99999999999", "'99999999999' does not fit INT"),
        ("retention.ms", "-2", "-2 is out of bounds: -1 or more is allowed"),
        ("retention.ms", "9223372036854775808", "does not fit LONG"),
        ("retention.ms", "9" * 5000, "does not fit LONG"),
        ("cleanup.policy", "shred", "'shred' is not one of compact, delete"),
        ("cleanup.policy", "compact,", "has an empty item"),
        ("compression.type", "none", "'none' is not one of uncompressed, zstd"),
        ("compression.gzip.level", "0", "0 is out of bounds: 1 to 9, or -1 is allowed"),
        ("preallocate", "yes", "'yes' is neither true nor false"),
        ("min.cleanable.dirty.ratio", "1.5", "1.5 is out of bounds: 0 to 1 is allowed"),
        ("min.cleanable.dirty.ratio", "NaN", "'NaN' is not a finite number"),
        ("min.cleanable.dirty.ratio", "half", "'half' is not a finite number"),
        ("message.timestamp.type", "createtime", "'createtime' is not one of CreateTime, LogAppendTime"),
        ("follower.replication.throttled.replicas", "x", "'x' is neither * nor PARTITION:BROKER"),
    ],
)
def test_a_bad_value_is_refused_by_name_and_with_the_reason(name: str, text: str, complaint: str) -> None:
    with pytest.raises(SettingError) as caught:
        TOPIC[name].parse(text)
    assert caught.value.name == name
    assert str(caught.value).startswith(f"{name}: ")
    assert complaint in str(caught.value)


@pytest.mark.parametrize("setting", EVERY_SETTING, ids=lambda setting: setting.name)
def test_every_default_is_a_value_that_the_setting_accepts(setting: Setting) -> None:
    text = setting.format(setting.default)
    if text is not None:
        assert setting.parse(text) == setting.default


@pytest.mark.parametrize("setting", EVERY_SETTING, ids=lambda setting: setting.name)
def test_every_setting_is_explained_in_whole_sentences(setting: Setting) -> None:
    assert setting.doc[0].isupper()
    assert setting.doc.endswith(".")
    assert "|" not in setting.documentation, "this would break the table of docs/configuration.md"
    assert not setting.no_effect.endswith("."), "the sentence around it has its own full stop"


@given(st.text())
def test_any_text_is_either_a_value_or_a_setting_error(text: str) -> None:
    for setting in EVERY_SETTING:
        try:
            value = setting.parse(text)
        except SettingError:
            continue
        formatted = setting.format(value)
        assert formatted is not None
        assert setting.parse(formatted) == value


@given(st.floats(min_value=0, max_value=1))
def test_a_double_survives_its_own_text(number: float) -> None:
    setting = TOPIC["min.cleanable.dirty.ratio"]
    text = setting.format(number)
    assert text is not None
    assert setting.parse(text) == number


def test_doubles_are_spelt_as_java_spells_them() -> None:
    setting = Setting("x", SettingType.DOUBLE, 0.0, "X.")
    assert setting.format(0.5) == "0.5"
    assert setting.format(math.ldexp(2 - 2**-52, 1023)) == "1.7976931348623157E308"


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("segmnt.bytes", "segment.bytes"),
        ("retention_ms", "retention.ms"),
        ("log.retention.hours", "retention.ms"),
        ("message.max.bytes", "max.message.bytes"),
    ],
)
def test_the_error_of_an_unknown_topic_setting_suggests_a_known_one(wrong: str, meant: str) -> None:
    with pytest.raises(SettingError, match=rf"{wrong}: unknown topic setting; did you mean {meant}\?"):
        TOPIC.parse({wrong: "1"})


def test_the_error_of_an_unknown_broker_setting_suggests_a_known_one() -> None:
    with pytest.raises(SettingError, match=r"did you mean log\.retention\.ms\?"):
        BROKER.parse({"retention.ms": "1"})
    with pytest.raises(SettingError, match=r"did you mean num\.partitions\?"):
        BROKER.parse({"num.partition": "1"})


def test_a_name_that_resembles_nothing_gets_no_guess() -> None:
    with pytest.raises(SettingError) as caught:
        TOPIC.parse({"zzzz": "1"})
    assert str(caught.value) == "zzzz: unknown topic setting"


def test_settings_and_defaults_are_found_by_name() -> None:
    assert TOPIC.is_list("cleanup.policy")
    assert not TOPIC.is_list("retention.ms")
    assert not TOPIC.is_list("no.such.setting")
    assert TOPIC.default_text("cleanup.policy") == "delete"
    assert TOPIC.default_text("no.such.setting") is None


def test_no_setting_is_declared_twice() -> None:
    for table in (BROKER, TOPIC):
        assert len(table) == sum(len(settings) for settings in table.sections.values())
