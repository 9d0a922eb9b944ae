"""Settings that every connector has, whatever its class: those of sources, and those of sinks.

Names, types, defaults, groups and labels are those of Kafka Connect 4.3, so that consoles show the same forms. The
settings of a connector's own are in its class; those of transforms, predicates and topic creation depend on the aliases
that a configuration names, and are declared for each alias by the functions at the end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from moldau.connect.config_def import (
    NO_DEFAULT,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    Validator,
    between,
    one_of,
)

BOOLEAN, STRING, INT, SHORT, LONG, LIST, CLASS = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.LIST,
    ConfigType.CLASS,
)
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

NAME: Final = "name"
CONNECTOR_CLASS: Final = "connector.class"
TRANSFORMS: Final = "transforms"
PREDICATES: Final = "predicates"
TOPICS: Final = "topics"
TOPICS_REGEX: Final = "topics.regex"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
TOPIC_CREATION: Final = "topic.creation"
TOPIC_CREATION_GROUPS: Final = "topic.creation.groups"
DEFAULT_GROUP: Final = "default"
OFFSETS_TOPIC: Final = "offsets.storage.topic"
CONVERTERS: Final = ("header.converter", "key.converter", "value.converter")
"""In the order in which Kafka Connect's answer lists their settings."""

_COMMON, _ERRORS, _ONCE = "Common", "Error Handling", "Exactly Once Support"


# -- validators ------------------------------------------------------------------------------------------------------


def _invalid(name: str, value: Any, problem: str) -> str:
    return f"Invalid value {value} for configuration {name}: {problem}"


def _printable(name: str, value: Any) -> str | None:
    """Kafka's rule for the names of connectors."""
    if value is None:
        return None
    if not value.strip():
        return _invalid(name, value, "String may not be empty")
    controls = ", ".join(str(ord(c)) for c in value if ord(c) < 32 or 127 <= ord(c) < 160)
    if controls:
        return _invalid(
            name, repr(value), f"String may not contain control sequences but had the following: {controls}"
        )
    return None


def _one_of_any_case(*allowed: str) -> Validator:
    def check(name: str, value: Any) -> str | None:
        if isinstance(value, str) and value.upper() in allowed:
            return None
        return _invalid(name, value, f"String must be one of (case insensitive): {', '.join(allowed)}")

    return check


def _unique(name: str, value: Any) -> str | None:
    aliases: Sequence[str] = value or ()
    duplicate = len(set(aliases)) < len(aliases)
    return _invalid(name, f"[{', '.join(aliases)}]", "Duplicate alias provided.") if duplicate else None


def _regex(name: str, value: Any) -> str | None:
    try:
        re.compile(value or "")
    except re.error as error:
        return _invalid(name, value, f"Invalid regular expression: {error}")
    return None


def _regexes(name: str, value: Any) -> str | None:
    return next((problem for one in value or () if (problem := _regex(name, one))), None)


def _not_blank(name: str, value: Any) -> str | None:
    return _invalid(name, value, "String must be non-empty") if value is not None and not value else None


def _positive_or_default(what: str) -> Validator:
    def check(name: str, value: Any) -> str | None:
        if value is None or value == -1 or value >= 1:
            return None
        return _invalid(name, value, f"{what} must be positive, or -1 to use the broker's default")

    return check


# -- declarations ----------------------------------------------------------------------------------------------------


def _version(of: str, label: str, order: int, importance: Importance = LOW, width: str = "SHORT") -> ConfigKey:
    doc = "Version of the class. Moldau has one version of each: another one is refused."
    return ConfigKey(
        f"{of}.plugin.version",
        STRING,
        doc,
        None,
        importance,
        group=_COMMON,
        order=order,
        width=width,
        display_name=label,
    )


_BASE: Final = ConfigDef(
    [
        ConfigKey(NAME, STRING, "Name of the connector, unique among all connectors of the group of workers.",
                  validator=_printable, importance=HIGH, group=_COMMON, order=1, width="MEDIUM",
                  display_name="Connector name"),
        ConfigKey(CONNECTOR_CLASS, STRING, "Class name of the connector, or a short form of it such as FileStreamSink.",
                  importance=HIGH, group=_COMMON, order=2, width="LONG", display_name="Connector class"),
        _version("connector", "Connector version", 3, MEDIUM, "MEDIUM"),
        ConfigKey("tasks.max", INT, "How many tasks of this connector may run at the same time.",
                  1, HIGH, between(1), group=_COMMON, order=4, width="SHORT", display_name="Tasks max"),
        ConfigKey("tasks.max.enforce", BOOLEAN, "Deprecated in Kafka. tasks.max is always respected here.",
                  True, LOW, group=_COMMON, order=5, width="SHORT", display_name="Enforce tasks max"),
        ConfigKey("key.converter", CLASS, "Converter of keys; the worker's if it is not given.",
                  None, LOW, group=_COMMON, order=6, width="SHORT", display_name="Key converter class"),
        _version("key.converter", "Key converter version", 7),
        ConfigKey("value.converter", CLASS, "Converter of values; the worker's if it is not given.",
                  None, LOW, group=_COMMON, order=8, width="SHORT", display_name="Value converter class"),
        _version("value.converter", "Value converter version", 9),
        ConfigKey("header.converter", CLASS, "Converter of header values; the worker's if it is not given.",
                  None, LOW, group=_COMMON, order=10, width="SHORT", display_name="Header converter class"),
        _version("header.converter", "Header converter version", 11),
        ConfigKey(TRANSFORMS, LIST, "Aliases of the transforms, in the order in which they are applied.",
                  (), LOW, _unique, group="Transforms", order=12, width="LONG", display_name="Transforms"),
        ConfigKey(PREDICATES, LIST, "Aliases of the predicates that transforms refer to.",
                  (), LOW, _unique, group="Predicates", order=13, width="LONG", display_name="Predicates"),
        ConfigKey("config.action.reload", STRING,
                  "What to do when a config provider reports a changed value: restart the connector, or none.",
                  "restart", LOW, one_of("none", "restart"), group=_COMMON, order=14, width="MEDIUM",
                  display_name="Reload Action"),
        ConfigKey("errors.retry.timeout", LONG,
                  "For how many milliseconds a failed operation is tried again; 0: not at all, -1: without a limit.",
                  0, group=_ERRORS, order=1, width="MEDIUM", display_name="Retry Timeout for Errors"),
        ConfigKey("errors.retry.delay.max.ms", LONG, "Longest pause in milliseconds between two attempts.",
                  60_000, group=_ERRORS, order=2, width="MEDIUM",
                  display_name="Maximum Delay Between Retries for Errors"),
        ConfigKey("errors.tolerance", STRING, "none: a bad record fails the tasks. all: bad records are skipped.",
                  "none", validator=one_of("none", "all"), group=_ERRORS, order=3, width="SHORT",
                  display_name="Error Tolerance"),
        ConfigKey("errors.log.enable", BOOLEAN, "Whether tolerated errors are logged.",
                  False, group=_ERRORS, order=4, width="SHORT", display_name="Log Errors"),
        ConfigKey("errors.log.include.messages", BOOLEAN, "Whether the log shows the record of an error.",
                  False, group=_ERRORS, order=5, width="SHORT", display_name="Log Error Details"),
    ]
)  # fmt: skip

SOURCE: Final = _BASE + ConfigDef(
    [
        ConfigKey(TOPIC_CREATION_GROUPS, LIST, "Groups of settings for the topics that the connector creates.",
                  (), LOW, _unique, group="Topic Creation", order=1, width="LONG",
                  display_name="Topic Creation Groups"),
        ConfigKey("exactly.once.support", STRING,
                  "required: the configuration is refused if the connector cannot write exactly once.",
                  "requested", validator=_one_of_any_case("REQUIRED", "REQUESTED"), group=_ONCE, order=2,
                  width="SHORT", display_name="Exactly once support"),
        ConfigKey("transaction.boundary", STRING, "What one transaction of the connector holds. Here: a micro-batch.",
                  "poll", validator=_one_of_any_case("INTERVAL", "POLL", "CONNECTOR"), group=_ONCE, order=3,
                  width="SHORT", display_name="Transaction Boundary"),
        ConfigKey("transaction.boundary.interval.ms", LONG, "Time between two transactions of the boundary interval.",
                  None, LOW, between(0), group=_ONCE, order=4, width="SHORT",
                  display_name="Transaction boundary interval"),
        ConfigKey(OFFSETS_TOPIC, STRING, "Topic for the offsets of this connector instead of the worker's.",
                  None, LOW, _not_blank, group="offsets.topic", order=1, width="LONG", display_name="Offsets topic"),
    ]
)  # fmt: skip

SINK: Final = _BASE + ConfigDef(
    [
        ConfigKey(TOPICS, LIST, "Topics to read, separated by commas.",
                  (), HIGH, group=_COMMON, order=4, width="LONG", display_name="Topics"),
        ConfigKey(TOPICS_REGEX, STRING, "Regular expression of the topics to read, instead of topics.",
                  "", HIGH, _regex, group=_COMMON, order=4, width="LONG", display_name="Topics regex"),
        ConfigKey(DEAD_LETTER_TOPIC, STRING, "Topic for the records that could not be processed; empty: none.",
                  "", group=_ERRORS, order=6, width="MEDIUM", display_name="Dead Letter Queue Topic Name"),
        ConfigKey("errors.deadletterqueue.topic.replication.factor", SHORT,
                  "Replication factor of the dead-letter topic, if it does not exist yet.",
                  3, group=_ERRORS, order=7, width="MEDIUM",
                  display_name="Dead Letter Queue Topic Replication Factor"),
        ConfigKey("errors.deadletterqueue.context.headers.enable", BOOLEAN,
                  "Whether dead letters have headers that say what failed, where and why.",
                  False, group=_ERRORS, order=8, width="MEDIUM", display_name="Enable Error Context Headers"),
    ]
)  # fmt: skip


def transform_settings(alias: str, classes: Sequence[str]) -> tuple[ConfigDef, ConfigDef]:
    """Type and version of a transform; and the settings that every transform has beside its own."""
    return (
        _type_and_version(f"{TRANSFORMS}.{alias}.", alias, "Transformation", f"Transforms: {alias}", classes),
        ConfigDef(
            [
                ConfigKey("predicate", STRING, "Alias of the predicate that decides which records are changed.", None),
                ConfigKey(
                    "negate", BOOLEAN, "Whether the records for which the predicate is false are changed.", False
                ),
            ]
        ),
    )


def predicate_settings(alias: str, classes: Sequence[str]) -> tuple[ConfigDef, ConfigDef]:
    """Type and version of a predicate; all other settings are its own."""
    head = _type_and_version(f"{PREDICATES}.{alias}.", alias, "Predicate", f"Predicates: {alias}", classes)
    return head, ConfigDef()


def _type_and_version(prefix: str, alias: str, kind: str, group: str, classes: Sequence[str]) -> ConfigDef:
    return ConfigDef(
        [
            ConfigKey(prefix + "type", CLASS, f"Class of the {kind.lower()} {alias}.", importance=HIGH,
                      recommended=tuple(classes), group=group, order=0, width="LONG",
                      display_name=f"{kind} type for {alias}"),
            ConfigKey(prefix + "plugin.version", STRING, f"Version of the {kind.lower()} {alias}.", None, HIGH,
                      group=group, order=1, width="LONG", display_name=f"{kind} version for {alias}"),
        ]
    )  # fmt: skip


def topic_creation_settings(alias: str) -> ConfigDef:
    """The settings of one group of topics that a source creates. Topic settings come on top."""
    prefix = f"{TOPIC_CREATION}.{alias}."
    default = alias == DEFAULT_GROUP
    group = DEFAULT_GROUP if default else f"Topic Creation: {alias}"
    fallback: Any = NO_DEFAULT if default else None
    return ConfigDef(
        [
            ConfigKey(prefix + "include", LIST, "Regular expressions of the topics that belong to the group.",
                      (".*",) if default else (), LOW, _regexes, group=group, order=1, width="LONG",
                      display_name=f"Inclusion Topic Pattern for {group}"),
            ConfigKey(prefix + "exclude", LIST, "Regular expressions of topics that do not belong to the group.",
                      (), LOW, _regexes, group=group, order=2, width="LONG",
                      display_name=f"Exclusion Topic Pattern for {group}"),
            ConfigKey(prefix + "replication.factor", SHORT,
                      "Replication factor of the topics; -1: the broker's default.",
                      fallback, LOW, _positive_or_default("Replication factor"), group=group, order=3, width="LONG",
                      display_name=f"Replication Factor for Topics in {group}"),
            ConfigKey(prefix + "partitions", INT, "Number of partitions of the topics; -1: the broker's default.",
                      fallback, LOW, _positive_or_default("Number of partitions"), group=group, order=4, width="LONG",
                      display_name=f"Partition Count for Topics in {group}"),
        ]
    )  # fmt: skip
