"""Settings of schema validation: topics whose records need a registered schema id, and the registry to ask.

They are part of the tables in `topic.py` and `broker.py`. The names `confluent.` are those of Confluent's brokers.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from moldau.settings.setting import LONG_MAX, Scope, Setting, SettingType, Value

BOOLEAN, STRING, INT, LONG, LIST, PASSWORD = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.LONG,
    SettingType.LIST,
    SettingType.PASSWORD,
)

NOT_VALIDATED: Final = "none"
STRATEGIES: Final = ("topic", "record", "topic-record")
_CLASSES: Final = "io.confluent.kafka.serializers.subject."
TOPIC_NAME_STRATEGY: Final = f"{_CLASSES}TopicNameStrategy"
STRATEGY_CLASSES: Final = (
    TOPIC_NAME_STRATEGY,
    f"{_CLASSES}RecordNameStrategy",
    f"{_CLASSES}TopicRecordNameStrategy",
)


def _has_no_login(value: Value) -> str | None:
    """Refuse a password in the address: DescribeConfigs shows addresses. The message does not repeat it."""
    if isinstance(value, tuple) and any("@" in url for url in value):
        return "user and password do not belong in the address; set confluent.basic.auth.user.info"
    return None


_topic = partial(Setting, scope=Scope.TOPIC)

SCHEMAS_OF_TOPICS = (
    _topic(
        "confluent.key.schema.validation",
        BOOLEAN,
        False,
        "Whether each key must begin with the id of a schema that the registry has under the key's subject. Other "
        "records are refused with INVALID_RECORD. A null key passes.",
    ),
    _topic(
        "confluent.value.schema.validation",
        BOOLEAN,
        False,
        "Whether each value must begin with the id of a schema that the registry has under the value's subject. Other "
        "records are refused with INVALID_RECORD. A null value passes.",
    ),
    _topic(
        "confluent.key.subject.name.strategy",
        STRING,
        TOPIC_NAME_STRATEGY,
        "The subject of keys, for `confluent.key.schema.validation`.",
        choices=STRATEGY_CLASSES,
    ),
    _topic(
        "confluent.value.subject.name.strategy",
        STRING,
        TOPIC_NAME_STRATEGY,
        "The subject of values, for `confluent.value.schema.validation`.",
        choices=STRATEGY_CLASSES,
    ),
    _topic(
        "moldau.key.schema.validation",
        STRING,
        NOT_VALIDATED,
        "The subject that must have the schema of each key: `topic` (TOPIC-key), `record` (the record's name) or "
        "`topic-record` (TOPIC-NAME). It replaces the two settings of Confluent's; `none` leaves it to them.",
        choices=(NOT_VALIDATED, *STRATEGIES),
    ),
    _topic(
        "moldau.value.schema.validation",
        STRING,
        NOT_VALIDATED,
        "The subject that must have the schema of each value: `topic` (TOPIC-value), `record` (the record's name) or "
        "`topic-record` (TOPIC-NAME). It replaces the two settings of Confluent's; `none` leaves it to them.",
        choices=(NOT_VALIDATED, *STRATEGIES),
    ),
)

REGISTRY_OF_BROKER = (
    Setting(
        "confluent.schema.registry.url",
        LIST,
        (),
        "The addresses of the schema registry, for topics with schema validation. Without one, such topics refuse all "
        "records.",
        check=_has_no_login,
    ),
    Setting("confluent.basic.auth.user.info", PASSWORD, None, "The broker's login at the registry, as user:password."),
    Setting(
        "confluent.basic.auth.credentials.source",
        STRING,
        "USER_INFO",
        "The place of the broker's login at the registry.",
        choices=("USER_INFO", "URL"),
        no_effect="the login is in `confluent.basic.auth.user.info`",
    ),
    Setting("confluent.bearer.auth.token", PASSWORD, None, "A token for the registry, instead of user and password."),
    Setting(
        "confluent.ssl.truststore.location", STRING, None, "The file with the certificates that sign the registry's."
    ),
    Setting("confluent.ssl.truststore.password", PASSWORD, None, "The password of that file, if it is PKCS12."),
    Setting(
        "confluent.max.cache.size",
        INT,
        10_000,
        "The number of schema ids whose subjects are cached. A schema id that was found is not asked for again.",
        low=1,
    ),
    Setting(
        "confluent.missing.id.cache.ttl.sec",
        LONG,
        60,
        "The time in seconds for which a schema id that the registry does not have is refused without asking again.",
        low=0,
        high=LONG_MAX,
    ),
    Setting("confluent.max.retries", INT, 1, "The repetitions of a question that no registry could answer.", low=0),
    Setting("confluent.retries.wait.ms", INT, 0, "The wait before each repetition, in milliseconds.", low=0),
    Setting(
        "moldau.schema.registry.timeout.ms",
        INT,
        5_000,
        "The time in milliseconds in which the registry must answer a question. If it does not, the producer gets "
        "REQUEST_TIMED_OUT, and retries.",
        low=1,
    ),
)
