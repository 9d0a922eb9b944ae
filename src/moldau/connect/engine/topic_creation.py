"""Topics that a source creates: `topic.creation.*` with its groups, as in Kafka Connect.

Without `topic.creation.default.partitions` and `topic.creation.default.replication.factor` a source creates no topics;
the brokers do, if they are configured to (auto.create.topics.enable).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.client.admin.topics import NewTopic
from moldau.client.blocking.admin import Admin
from moldau.client.errors import TopicAlreadyExists, UnknownTopicOrPartition
from moldau.connect.config_def import ConfigError

PREFIX: Final = "topic.creation."
GROUPS: Final = "topic.creation.groups"
DEFAULT_GROUP: Final = "default"
_OWN: Final = frozenset({"include", "exclude", "partitions", "replication.factor"})
MAX_KNOWN: Final = 10_000
"""Topics that a process remembers as existing."""


@dataclass(frozen=True)
class TopicGroup:
    """The rule for the topics that match it."""

    name: str
    partitions: int
    replication_factor: int
    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()
    configs: Mapping[str, str] = field(default_factory=dict)

    def matches(self, topic: str) -> bool:
        def any_of(patterns: tuple[str, ...]) -> bool:
            return any(re.fullmatch(pattern, topic) for pattern in patterns)

        return any_of(self.include) and not any_of(self.exclude)

    def new_topic(self, topic: str) -> NewTopic:
        return NewTopic(topic, self.partitions, self.replication_factor, dict(self.configs))


@dataclass(frozen=True)
class TopicRules:
    """All groups of a connector; the default is the last."""

    groups: tuple[TopicGroup, ...] = ()

    def group_of(self, topic: str) -> TopicGroup | None:
        """The first group that matches; None if the connector creates no topics."""
        return next((group for group in self.groups if group.matches(topic)), None)


def topic_rules(config: Mapping[str, Any], worker: Mapping[str, Any]) -> TopicRules:
    """Parse `topic.creation.*`; ConfigError names what is wrong."""
    if str(worker.get("topic.creation.enable", "true")).lower() == "false":
        return TopicRules()
    if not any(name.startswith(PREFIX + DEFAULT_GROUP) for name in config):
        if config.get(GROUPS):
            raise ConfigError(
                "topic.creation.groups needs topic.creation.default.partitions and "
                "topic.creation.default.replication.factor"
            )
        return TopicRules()
    names = [name.strip() for name in str(config.get(GROUPS) or "").split(",") if name.strip()]
    default = _group(config, DEFAULT_GROUP, None)
    return TopicRules((*(_group(config, name, default) for name in names), default))


def _group(config: Mapping[str, Any], name: str, default: TopicGroup | None) -> TopicGroup:
    prefix = f"{PREFIX}{name}."
    own = {key[len(prefix) :]: value for key, value in config.items() if key.startswith(prefix)}
    include = _patterns(prefix + "include", own.get("include"))
    if default is not None and not include:
        raise ConfigError(f'Missing required configuration "{prefix}include" which has no default value.')
    inherited = dict(default.configs) if default is not None else {}
    return TopicGroup(
        name,
        _number(prefix + "partitions", own.get("partitions"), default.partitions if default else None),
        _number(
            prefix + "replication.factor",
            own.get("replication.factor"),
            default.replication_factor if default else None,
        ),
        include or (".*",),
        _patterns(prefix + "exclude", own.get("exclude")),
        inherited | {key: str(value) for key, value in own.items() if key not in _OWN},
    )


def _number(name: str, text: Any, otherwise: int | None) -> int:
    if text is None:
        if otherwise is None:
            raise ConfigError(f'Missing required configuration "{name}" which has no default value.')
        return otherwise
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number != -1 and number < 1:
        raise ConfigError(
            f"Invalid value {text} for configuration {name}: use a positive number, or -1 for the broker's"
        )
    return number


def _patterns(name: str, text: Any) -> tuple[str, ...]:
    found = tuple(one.strip() for one in str(text or "").split(",") if one.strip())
    for pattern in found:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"Invalid value {pattern} for configuration {name}: {error}") from None
    return found


_known: dict[tuple[str, str], None] = {}


def ensure_topics(
    topics: Collection[str], rules: TopicRules, bootstrap: str, open_admin: Callable[[], Admin]
) -> list[str]:
    """Create the topics that do not exist and match a group. Returns those that were created.

    The process remembers which topics exist, so that this costs nothing in later batches.
    """
    unknown = [topic for topic in topics if (bootstrap, topic) not in _known and rules.group_of(topic) is not None]
    if not unknown:
        return []
    created = []
    admin = open_admin()
    for topic in unknown:
        group = rules.group_of(topic)
        assert group is not None
        try:
            admin.describe_topics([topic])
        except UnknownTopicOrPartition:
            try:
                admin.create_topics([group.new_topic(topic)])
                created.append(topic)
            except TopicAlreadyExists:
                pass
        while len(_known) >= MAX_KNOWN:
            _known.pop(next(iter(_known)))
        _known[bootstrap, topic] = None
    return created


def forget_topics() -> None:
    """Ask for all topics again: one that was deleted is created again."""
    _known.clear()
