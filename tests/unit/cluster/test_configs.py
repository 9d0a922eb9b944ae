"""Altering stored settings: results and refusals."""

from __future__ import annotations

import pytest

from moldau.cluster.changes import BrokerConfigsChanged, GroupConfigsChanged, TopicConfigsChanged, applied
from moldau.cluster.configs import Alteration, ConfigOperation, ConfigResourceType, ConfigsChanged, alter_configs
from moldau.cluster.errors import Refusal
from moldau.cluster.image import ALL_BROKERS, ClusterImage, PartitionState, TopicImage
from moldau.wire.errors import ErrorCode
from tests.unit.cluster.support import RULES, cluster

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC, BROKER, GROUP = ConfigResourceType


@pytest.fixture
def image() -> ClusterImage:
    configs = {"retention.ms": "5", "cleanup.policy": "compact"}
    topic = TopicImage("t", bytes([1]) * 16, (PartitionState((0,), (0,), 0, 0, 0),), configs)
    return cluster().with_topics([topic]).with_broker_configs({ALL_BROKERS: {"segment.bytes": "1"}})


def alter(image: ClusterImage, *alterations: Alteration) -> list[ConfigsChanged | Refusal]:
    return alter_configs(image, alterations, topic_rules=RULES, broker_rules=RULES, group_rules=RULES)


def altered_topic(image: ClusterImage, *operations: tuple[str, int, str | None], replace_all: bool = False) -> object:
    (answer,) = alter(image, Alteration(TOPIC, "t", operations, replace_all))
    return answer.topic.configs if isinstance(answer, TopicConfigsChanged) else answer


def test_set_and_delete_change_only_the_named_settings(image: ClusterImage) -> None:
    assert altered_topic(image, ("segment.bytes", SET, "7"), ("retention.ms", DELETE, None)) == {
        "segment.bytes": "7",
        "cleanup.policy": "compact",
    }
    assert altered_topic(image, ("segment.bytes", DELETE, None)) == image.topics["t"].configs


@pytest.mark.parametrize(
    ("operation", "value", "becomes"),
    [
        (APPEND, "delete", "compact,delete"),
        (APPEND, "compact", "compact"),
        (APPEND, " delete , compact,", "compact,delete"),
        (SUBTRACT, "compact", ""),
        (SUBTRACT, "delete", "compact"),
    ],
)
def test_lists_are_appended_to_and_subtracted_from(
    image: ClusterImage, operation: int, value: str, becomes: str
) -> None:
    assert altered_topic(image, ("cleanup.policy", operation, value)) == {
        "retention.ms": "5",
        "cleanup.policy": becomes,
    }


def test_a_list_without_an_override_is_changed_from_its_default(image: ClusterImage) -> None:
    plain = image.with_topics([TopicImage("t", bytes([1]) * 16, image.topics["t"].partitions)])
    assert altered_topic(plain, ("cleanup.policy", APPEND, "compact")) == {"cleanup.policy": "delete,compact"}
    assert altered_topic(plain, ("leader.throttled", APPEND, "0:1")) == {"leader.throttled": "0:1"}


def test_replacing_all_removes_settings_that_are_not_named(image: ClusterImage) -> None:
    assert altered_topic(image, ("segment.bytes", SET, "7"), replace_all=True) == {"segment.bytes": "7"}
    assert altered_topic(image, replace_all=True) == {}


@pytest.mark.parametrize("name", [ALL_BROKERS, "0"])
def test_brokers_have_settings_of_their_own_and_in_common(image: ClusterImage, name: str) -> None:
    (answer,) = alter(image, Alteration(BROKER, name, (("retention.ms", SET, "9"),)))
    common = {"segment.bytes": "1"} if name == ALL_BROKERS else {}
    assert answer == BrokerConfigsChanged(name, {**common, "retention.ms": "9"})


GOOD = (("retention.ms", SET, "1"),)


@pytest.mark.parametrize(
    ("alteration", "code", "says"),
    [
        (Alteration(TOPIC, "t", (("nonsense", SET, "1"),)), ErrorCode.INVALID_CONFIG, "Unknown setting nonsense"),
        (Alteration(TOPIC, "t", (("retention.ms", SET, "x"),)), ErrorCode.INVALID_CONFIG, "must be a number"),
        (
            Alteration(TOPIC, "t", (("retention.ms", APPEND, "1"),)),
            ErrorCode.INVALID_CONFIG,
            "APPEND is only for list settings",
        ),
        (Alteration(TOPIC, "t", (("retention.ms", SUBTRACT, "1"),)), ErrorCode.INVALID_CONFIG, "SUBTRACT is only for"),
        (Alteration(TOPIC, "t", (("retention.ms", SET, None),)), ErrorCode.INVALID_REQUEST, "value is needed for ret"),
        (Alteration(TOPIC, "t", (("retention.ms", 9, "1"),)), ErrorCode.INVALID_REQUEST, "Unknown operation 9"),
        (Alteration(TOPIC, "t", GOOD * 2), ErrorCode.INVALID_REQUEST, "only once in a request: retention.ms"),
        (Alteration(TOPIC, "none", GOOD), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "'none' does not exist"),
        (Alteration(TOPIC, "", GOOD), ErrorCode.INVALID_REQUEST, "needs the name of a topic"),
        (Alteration(TOPIC, "a b", GOOD), ErrorCode.INVALID_TOPIC_EXCEPTION, "ASCII letters"),
        (Alteration(BROKER, "7", GOOD), ErrorCode.INVALID_REQUEST, "Broker 7 is not registered"),
        (Alteration(BROKER, "-1", GOOD), ErrorCode.INVALID_REQUEST, "not '-1'"),
        (Alteration(BROKER, "01", GOOD), ErrorCode.INVALID_REQUEST, "not '01'"),
        (Alteration(BROKER, "default", GOOD), ErrorCode.INVALID_REQUEST, "not 'default'"),
        (Alteration(BROKER, "1" * 5_000, GOOD), ErrorCode.INVALID_REQUEST, "needs a broker id"),
        (Alteration(BROKER, "0", (("nonsense", SET, "1"),)), ErrorCode.INVALID_REQUEST, "Unknown setting"),
        (Alteration(8, "0", GOOD), ErrorCode.INVALID_REQUEST, "type 8"),
    ],
)
def test_a_refused_alteration(image: ClusterImage, alteration: Alteration, code: ErrorCode, says: str) -> None:
    (answer,) = alter(image, alteration)
    assert isinstance(answer, Refusal), answer
    assert answer.code == code
    assert says in answer.message


def test_a_resource_that_is_twice_in_a_request_is_refused_both_times(image: ClusterImage) -> None:
    twice = Alteration(TOPIC, "t", GOOD)
    first, other, second = alter(image, twice, Alteration(BROKER, "0", GOOD), twice)
    for answer in (first, second):
        assert isinstance(answer, Refusal)
        assert answer.code == ErrorCode.INVALID_REQUEST
    assert isinstance(other, BrokerConfigsChanged)


def test_a_group_has_settings_of_its_own_whether_it_exists_or_not(image: ClusterImage) -> None:
    (set_,) = alter(image, Alteration(GROUP, "a/b.c", (("retention.ms", SET, "9"),)))
    assert set_ == GroupConfigsChanged("a/b.c", {"retention.ms": "9"})
    changed = applied(image, [set_])
    assert changed.group_config("a/b.c") == {"retention.ms": "9"}
    assert changed.group_config("other") == {}
    (deleted,) = alter(changed, Alteration(GROUP, "a/b.c", (("retention.ms", DELETE, None),)))
    assert isinstance(deleted, GroupConfigsChanged)
    assert applied(changed, [deleted]).group_configs == {}


def test_groups_have_no_settings_in_common(image: ClusterImage) -> None:
    (answer,) = alter(image, Alteration(GROUP, "", (("retention.ms", SET, "9"),)))
    assert isinstance(answer, Refusal)
    assert answer.code == ErrorCode.INVALID_REQUEST
