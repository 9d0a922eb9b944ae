"""Answers of Moldau that differ from those of Apache Kafka Connect 4.3 on purpose, with the reasons.

`comparable` removes what differs between any two workers (addresses, times, versions) and what differs everywhere for
one reason. `INTENDED` lists the single requests. A request that is listed and does not differ fails the test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moldau import __version__
from moldau.connect.engine.run_settings import ENGINE_SETTINGS
from tests.compat.kafka_connect.rest_requests import JSON, Answer

KAFKA_VERSION = "4.3.0"


# -- what differs everywhere -------------------------------------------------------------------------------------------


def comparable(answer: Answer, worker_url: str) -> Answer:
    """The answer without what must differ.

    - Kafka's errors of HTTP itself (404 for a path, 405, 406, 415) have a JSON body, but no content type. Ours have it.
    - Documentation of settings is in our own words.
    - Settings of Moldau's own are left out, and the lists of classes to choose from have Kafka's only.
    - `converter.type` is not required: the worker sets it. (In Kafka too, but its definition says otherwise.)
    - The importance of client settings is not declared in Moldau.
    """
    address = worker_url.partition("://")[2]
    text = json.dumps(answer.body).replace(address, "WORKER").replace(KAFKA_VERSION, "VERSION")
    body = json.loads(text.replace(f'"{__version__}"', '"VERSION"'))
    kind = JSON if answer.content_type is None and _is_error(body) else answer.content_type
    location = None if answer.location is None else answer.location.replace(address, "WORKER")
    return Answer(answer.status, kind, location, _plain(body))


def _is_error(body: Any) -> bool:
    return isinstance(body, dict) and "error_code" in body


def _plain(body: Any) -> Any:
    if isinstance(body, dict):
        if "configs" in body and "error_count" in body:
            return _validation(body)
        return {name: _plain_field(name, one) for name, one in body.items()}
    if isinstance(body, list):
        if body and isinstance(body[0], dict) and "order_in_group" in body[0]:
            return {one["name"]: _definition(one) for one in body if one["name"] not in ENGINE_SETTINGS.keys}
        items = [_plain(one) for one in body]
        return sorted(items) if all(isinstance(one, str) for one in items) else items
    if isinstance(body, str) and body.endswith("OPTIONS"):
        return sorted(body.split(", "))
    return body


def _plain_field(name: str, value: Any) -> Any:
    if name == "trace" and value:
        return "TRACE"
    if name == "last_modified" and value is not None:
        return "TIME"
    return _plain(value)


def _validation(body: dict[str, Any]) -> dict[str, Any]:
    entries = {}
    for one in body["configs"]:
        name = one["value"]["name"]
        if name not in ENGINE_SETTINGS.keys:
            value = {**one["value"], "recommended_values": _of_kafka(one["value"]["recommended_values"])}
            entries[name] = {"definition": _definition(one["definition"]), "value": value}
    # Kafka lists the settings of converters in the order of a hash table.
    order = [name for name in entries if not re.match(r"(key|value|header)\.converter\.(?!plugin)", name)]
    return {**body, "groups": sorted(body["groups"]), "configs": entries, "order": order}


def _definition(definition: dict[str, Any] | None) -> dict[str, Any] | None:
    if definition is None:
        return None
    plain = {name: one for name, one in definition.items() if name != "documentation"}
    if definition["name"].endswith("converter.type"):
        plain["required"] = False
    if ".override." in definition["name"]:
        plain["importance"] = ""
    return plain


def _of_kafka(classes: list[str]) -> list[str]:
    return [one for one in classes if one.startswith("org.apache.kafka.") or "." not in one or one == "VERSION"]


# -- what differs in single requests -----------------------------------------------------------------------------------

Holds = Callable[[Answer, Answer], bool]
"""Called with the answer of Apache Kafka Connect and that of Moldau."""


@dataclass(frozen=True)
class Difference:
    """An intended difference of some requests."""

    reason: str
    holds: Holds
    requests: tuple[str, ...]


def _refused_with_400(kafka: Answer, ours: Answer) -> bool:
    return kafka.status == 500 and ours.status == 400 and ours.body["error_code"] == 400 and bool(ours.body["message"])


def _same_message_with_400(kafka: Answer, ours: Answer) -> bool:
    return _refused_with_400(kafka, ours) and kafka.body["message"].endswith(ours.body["message"])


def _unknown_class(kafka: Answer, ours: Answer) -> bool:
    text = "Failed to find any class that implements Connector and which name matches Nope, available connectors are: "
    return text in kafka.body["message"] and ours.body["message"].startswith(text) and ours.status == 400


def _names_only(kafka: Answer, ours: Answer) -> bool:
    values = re.fullmatch(r"Connector config \{(.*)\} contains no connector type", kafka.body["message"])
    names = re.fullmatch(r"Connector config \{(.*)\} contains no connector type", ours.body["message"])
    assert values is not None and names is not None
    return {one.partition("=")[0] for one in values[1].split(", ")} == set(names[1].split(", "))


def _one_error_for_each_setting(kafka: Answer, ours: Answer) -> bool:
    """Equal, if only the first error of each setting counts."""

    def first(answer: Answer) -> Any:
        body = json.loads(json.dumps(answer.body))
        for one in body["configs"].values():
            one["value"]["errors"] = one["value"]["errors"][:1]
        return {**body, "error_count": sum(len(one["value"]["errors"]) for one in body["configs"].values())}

    return bool(first(kafka) == first(ours) and ours.body["error_count"] < kafka.body["error_count"])


def _only_these_errors_more(**errors: str) -> Holds:
    """Equal but for an error of each of these settings, which Kafka does not have."""

    def holds(kafka: Answer, ours: Answer) -> bool:
        body = json.loads(json.dumps(ours.body))
        for name, error in errors.items():
            if body["configs"][name]["value"]["errors"] != [error]:
                return False
            body["configs"][name]["value"]["errors"] = []
            if name not in kafka.body["configs"]:
                del body["configs"][name]
                body["order"].remove(name)
        return bool({**body, "error_count": 0} == kafka.body and ours.body["error_count"] == len(errors))

    return holds


def _same_status(kafka: Answer, ours: Answer) -> bool:
    return kafka.status == ours.status and _is_error(ours.body)


def _fewer_tasks(kafka: Answer, ours: Answer) -> bool:
    return bool(kafka.body["tasks"] == [] and {**ours.body, "tasks": []} == kafka.body)


def _same_fields(kafka: Answer, ours: Answer) -> bool:
    return kafka.status == ours.status and kafka.body.keys() == ours.body.keys()


def _same_loggers_of_ours(kafka: Answer, ours: Answer) -> bool:
    mine = [name for name in kafka.body if name.startswith("my.")]
    return bool(mine) and all(kafka.body[name] == ours.body[name] for name in mine) and "root" in ours.body


def _higher_offset(kafka: Answer, ours: Answer) -> bool:
    (kafkas,), (mine,) = kafka.body["offsets"], ours.body["offsets"]
    return bool(
        kafkas["partition"] == mine["partition"] and kafkas["offset"]["kafka_offset"] < mine["offset"]["kafka_offset"]
    )


INTENDED = [
    Difference(
        "A body that is not what the endpoint takes is the client's mistake: 400 with a message that says "
        "where. Kafka answers 500 with a message of its JSON library, and clients repeat requests after a "
        "500.",
        _refused_with_400,
        (
            "create: no body", "create: no JSON", "create: a list", "create: a text", "create: null",
            "create: empty object", "create: no config", "create: unknown field", "create: config is a text",
            "create: config is a list", "create: name is a list", "create: setting is a list",
            "create: setting is an object", "create: unknown initial state", "put: no JSON", "put: no body",
            "put: a list", "patch: no JSON", "validate: no body", "validate: no JSON", "alter offsets: no body",
            "alter offsets: no list", "alter offsets: no JSON", "loggers: no body", "loggers: no JSON",
        ),
    ),
    Difference(
        "Validation without a class, and offsets that a connector refuses, are answered with Kafka's message "
        "and 400; Kafka answers 500.",
        _same_message_with_400,
        ("validate: empty", "alter offsets: negative", "alter offsets: wrong type", "alter offsets: unknown partition"),
    ),
    Difference(
        "For an unknown class the message lists Moldau's classes. Kafka puts names of Java exceptions before "
        "it from the second time on, and answers a validation with 500.",
        _unknown_class,
        ("create: name is a number", "create: unknown class", "validate: unknown class"),
    ),
    Difference(
        "For a configuration without a class the message shows the names of its settings; Kafka's also shows "
        "the values, which may be passwords.",
        _names_only,
        ("create: no class", "put: no class"),
    ),
    Difference(
        "In a validation, a value that cannot be parsed or is missing is one error. Kafka also validates the "
        "null in its place.",
        _one_error_for_each_setting,
        ("validate: numbers that are none", "validate: transform without its settings"),
    ),
    Difference(
        "A setting that is null is refused, with the message that Kafka has for it. Kafka 4.3 accepts it, and "
        "the connector fails.",
        _only_these_errors_more(file="Null value can not be supplied as the configuration value."),
        ("validate: null",),
    ),
    Difference(
        "A connector with a setting that is null is not created.",
        lambda kafka, ours: (kafka.status, ours.status) in ((201, 400), (204, 404)),
        ("create: null value", "a with a null value: delete"),
    ),
    Difference(
        "A setting that nothing reads is an error. Kafka ignores it.",
        _only_these_errors_more(flie='Unknown configuration "flie"; did you mean file?'),
        ("validate: unknown setting",),
    ),
    Difference(
        "In a validation, any name of the class in the path matches any name of it in the body. Kafka "
        "compares the ends of the names, in one direction.",
        lambda kafka, ours: kafka.status == 400 and ours.status == 200 and ours.body["error_count"] == 0,
        ("validate: short class in the body",),
    ),
    Difference(
        "A slash in a name is refused with Connect's error body; Kafka's server refuses it with a page or no "
        "body.",
        _same_status,
        ("a name with a slash", "a name with a slash: config", "a name with a slash: delete"),
    ),
    Difference(
        "`GET /` shows Moldau's version; the commit is unknown.",
        _same_fields,
        ("root",),
    ),
    Difference(
        "The level of the root logger is the one that the worker was started with.",
        _same_fields,
        ("loggers: root",),
    ),
    Difference(
        "The loggers are those of Python.",
        _same_loggers_of_ours,
        ("loggers: list",),
    ),
    Difference(
        "A connector that is created paused has its tasks, paused. In Kafka it has none until it is resumed.",
        _fewer_tasks,
        ("created paused: status",),
    ),
    Difference(
        "The offset of a sink is higher: Moldau's sources write in transactions, and the marker that ends a "
        "transaction has an offset too, as have the records of an attempt that was aborted.",
        _higher_offset,
        ("sink: offsets",),
    ),
    Difference(
        "For an offset below 0 of a sink the message says what is wrong.",
        _same_status,
        ("sink: alter offsets: negative",),
    ),
]  # fmt: skip


def difference_of(name: str) -> Difference | None:
    return next((one for one in INTENDED if name in one.requests), None)
