"""Conversation with a Connect worker: every endpoint of Kafka Connect 4.3, and every error that a client can cause.

The same requests go to Apache Kafka Connect and to Moldau. A request may build on those before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.compat.kafka_connect.rest_requests import Answer, Request

SOURCE_CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"
OF_SOURCE = "/connector-plugins/FileStreamSource/config/validate"
OF_SINK = "/connector-plugins/FileStreamSink/config/validate"
STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"
FILTER = "org.apache.kafka.connect.transforms.Filter"
MATCHES = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"
THE_FILE = {"filename": "{dir}/lines.txt"}
LINES_0 = {"kafka_topic": "lines", "kafka_partition": 0}


def source(**more: Any) -> dict[str, Any]:
    return {
        "connector.class": "FileStreamSource",
        "file": "{dir}/lines.txt",
        "topic": "lines",
        "value.converter": STRING,
        "key.converter": STRING,
        **more,
    }


def sink(**more: Any) -> dict[str, Any]:
    return {
        "connector.class": "FileStreamSink",
        "file": "{dir}/out.txt",
        "topics": "lines",
        "value.converter": STRING,
        "key.converter": STRING,
        **more,
    }


def in_state(state: str, tasks: int | None = 1) -> Callable[[Answer], bool]:
    """Connector in this state with so many tasks in the same state."""

    def reached(answer: Answer) -> bool:
        if answer.status != 200:
            return False
        states = [task["state"] for task in answer.body["tasks"]]
        wanted = [state] * len(states) if tasks is None else [state] * tasks
        return bool(answer.body["connector"]["state"] == state and states == wanted)

    return reached


def _gone(answer: Answer) -> bool:
    return answer.status == 404


def _has_no_offsets(answer: Answer) -> bool:
    """Kafka Connect takes the offset away first and the partition later; an answer in between has only one of them."""
    return answer.status == 200 and answer.body == {"offsets": []}


def _has_offsets(answer: Answer) -> bool:
    return answer.status == 200 and bool(answer.body["offsets"])


def _has_topics(count: int) -> Callable[[Answer], bool]:
    return lambda answer: answer.status == 200 and len(next(iter(answer.body.values()))["topics"]) == count


NOBODY = [
    Request("root", "GET", "/"),
    Request("health", "GET", "/health"),
    Request("no such path", "GET", "/nope"),
    Request("no such path below connectors", "GET", "/connectors/x/nope"),
    Request("tasks-config is gone since 4.0", "GET", "/connectors/x/tasks-config"),
    Request("root: wrong method", "POST", "/", {}),
    Request("health: wrong method", "PUT", "/health", {}),
    Request("connectors: none", "GET", "/connectors"),
    Request("connectors: with a slash at the end", "GET", "/connectors/"),
    Request("connectors: none, expanded", "GET", "/connectors?expand=status&expand=info"),
    Request("connectors: wrong method", "PUT", "/connectors", {}),
    Request("connectors: delete all is not offered", "DELETE", "/connectors"),
    Request("unknown: info", "GET", "/connectors/x"),
    Request("unknown: config", "GET", "/connectors/x/config"),
    Request("unknown: status", "GET", "/connectors/x/status"),
    Request("unknown: tasks", "GET", "/connectors/x/tasks"),
    Request("unknown: task status", "GET", "/connectors/x/tasks/0/status"),
    Request("unknown: task number is no number", "GET", "/connectors/x/tasks/abc/status"),
    Request("unknown: task number is too big", "GET", "/connectors/x/tasks/99999999999/status"),
    Request("unknown: topics", "GET", "/connectors/x/topics"),
    Request("unknown: reset topics", "PUT", "/connectors/x/topics/reset"),
    Request("unknown: offsets", "GET", "/connectors/x/offsets"),
    Request("unknown: alter offsets", "PATCH", "/connectors/x/offsets",
            {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 1}}]}),
    Request("unknown: reset offsets", "DELETE", "/connectors/x/offsets"),
    Request("unknown: patch config", "PATCH", "/connectors/x/config", {"tasks.max": "2"}),
    Request("unknown: delete", "DELETE", "/connectors/x"),
    Request("unknown: pause", "PUT", "/connectors/x/pause"),
    Request("unknown: resume", "PUT", "/connectors/x/resume"),
    Request("unknown: stop", "PUT", "/connectors/x/stop"),
    Request("unknown: restart", "POST", "/connectors/x/restart"),
    Request("unknown: restart with tasks", "POST", "/connectors/x/restart?includeTasks=true"),
    Request("unknown: restart only failed", "POST", "/connectors/x/restart?onlyFailed=true"),
    Request("unknown: restart task", "POST", "/connectors/x/tasks/0/restart"),
    Request("unknown: restart task that is no number", "POST", "/connectors/x/tasks/abc/restart"),
    Request("pause: wrong method", "POST", "/connectors/x/pause"),
    Request("restart: wrong method", "PUT", "/connectors/x/restart"),
    Request("status: wrong method", "PUT", "/connectors/x/status", {}),
    Request("head of connectors", "HEAD", "/connectors"),
    Request("options of connectors", "OPTIONS", "/connectors"),
]  # fmt: skip

BAD_BODIES = [
    Request("create: no body", "POST", "/connectors"),
    Request("create: no JSON", "POST", "/connectors", raw="{no json"),
    Request("create: a list", "POST", "/connectors", []),
    Request("create: a text", "POST", "/connectors", "text"),
    Request("create: null", "POST", "/connectors", raw="null"),
    Request("create: empty object", "POST", "/connectors", {}),
    Request("create: no config", "POST", "/connectors", {"name": "a"}),
    Request("create: unknown field", "POST", "/connectors", {"name": "a", "config": source(), "colour": "red"}),
    Request("create: config is a text", "POST", "/connectors", {"name": "a", "config": "x"}),
    Request("create: config is a list", "POST", "/connectors", {"name": "a", "config": []}),
    Request("create: name is a number", "POST", "/connectors", {"name": 5, "config": {"connector.class": "Nope"}}),
    Request("create: name is a list", "POST", "/connectors", {"name": [], "config": source()}),
    Request("create: setting is a list", "POST", "/connectors", {"name": "a", "config": source(file=["x"])}),
    Request("create: setting is an object", "POST", "/connectors", {"name": "a", "config": source(file={})}),
    Request("create: unknown initial state", "POST", "/connectors",
            {"name": "a", "config": source(), "initial_state": "SLEEPING"}),
    Request("create: plain text", "POST", "/connectors", raw="x", content_type="text/plain"),
    Request("create: form", "POST", "/connectors", raw="a=b", content_type="application/x-www-form-urlencoded"),
    Request("create: no content type", "POST", "/connectors", raw='{"name": "a"}', content_type=None),
    Request("create: wants XML", "POST", "/connectors", {"name": "a", "config": source()},
            headers={"Accept": "application/xml"}),
    Request("list: wants XML", "GET", "/connectors", headers={"Accept": "application/xml"}),
    Request("create: no name", "POST", "/connectors", {"config": source()}),
    Request("create: empty name", "POST", "/connectors", {"name": "  ", "config": source()}),
    Request("create: other name in config", "POST", "/connectors", {"name": "a", "config": source(name="b")}),
    Request("create: no class", "POST", "/connectors", {"name": "a", "config": {"file": "f"}}),
    Request("create: unknown class", "POST", "/connectors", {"name": "a", "config": {"connector.class": "Nope"}}),
    Request("create: a setting is missing", "POST", "/connectors",
            {"name": "a", "config": {"connector.class": "FileStreamSource", "file": "f"}}),
    Request("create: a sink without topics", "POST", "/connectors", {"name": "a", "config": sink(topics="")}),
    Request("create: two mistakes", "POST", "/connectors",
            {"name": "a", "config": {"connector.class": "FileStreamSource", "errors.tolerance": "some"}}),
    Request("put: other name in config", "PUT", "/connectors/a/config", source(name="b")),
    Request("put: no JSON", "PUT", "/connectors/a/config", raw="{"),
    Request("put: no body", "PUT", "/connectors/a/config"),
    Request("put: a list", "PUT", "/connectors/a/config", []),
    Request("put: no class", "PUT", "/connectors/a/config", {"file": "f"}),
    Request("put: invalid", "PUT", "/connectors/a/config", {"connector.class": "FileStreamSource"}),
    Request("patch: no JSON", "PATCH", "/connectors/a/config", raw="{"),
    Request("patch: plain text", "PATCH", "/connectors/a/config", raw="x", content_type="text/plain"),
    Request("nothing else was created", "GET", "/connectors"),
]  # fmt: skip

PLUGINS = [
    Request("plugins: wrong method", "POST", "/connector-plugins", {}),
    Request("plugin: unknown", "GET", "/connector-plugins/Nope/config"),
    Request("plugin: settings of the source", "GET", f"/connector-plugins/{SOURCE_CLASS}/config"),
    Request("plugin: settings of the sink by alias", "GET", "/connector-plugins/FileStreamSink/config"),
    Request("plugin: settings of a converter", "GET", f"/connector-plugins/{JSON_CONVERTER}/config"),
    Request("plugin: settings of a transform", "GET", f"/connector-plugins/{ROUTER}/config"),
    Request("plugin: settings of a predicate", "GET", f"/connector-plugins/{MATCHES}/config"),
    Request("validate: right source", "PUT", OF_SOURCE, source(name="a")),
    Request("validate: short class in the body", "PUT", f"/connector-plugins/{SOURCE_CLASS}/config/validate",
            source(name="a")),
    Request("validate: right sink by alias", "PUT", OF_SINK, sink(name="a")),
    Request("validate: short class in the path", "PUT", OF_SOURCE,
            {"connector.class": SOURCE_CLASS, "name": "a"}),
    Request("validate: other class in the path", "PUT", OF_SINK,
            source(name="a")),
    Request("validate: empty", "PUT", OF_SOURCE, {}),
    Request("validate: no body", "PUT", OF_SOURCE),
    Request("validate: no JSON", "PUT", OF_SOURCE, raw="{"),
    Request("validate: plain text", "PUT", OF_SOURCE,
            raw="x", content_type="text/plain"),
    Request("validate: unknown class", "PUT", "/connector-plugins/Nope/config/validate", {"connector.class": "Nope"}),
    Request("validate: wrong method", "GET", OF_SOURCE),
    Request("validate: wrong values", "PUT", OF_SOURCE,
            {"connector.class": "FileStreamSource", "tasks.max": "0", "errors.tolerance": "some",
             "errors.log.enable": "ja", "config.action.reload": "x", "key.converter": "Nope",
             "exactly.once.support": "x", "transaction.boundary": "x", "name": ""}),
    Request("validate: numbers that are none", "PUT", OF_SOURCE,
            source(name="a", **{"tasks.max": "x", "errors.retry.timeout": "1.5"})),
    Request("validate: null", "PUT", OF_SOURCE, source(name="a", file=None)),
    Request("validate: topics twice", "PUT", OF_SINK,
            sink(name="a", **{"topics.regex": "l.*"})),
    Request("validate: dead letters are read", "PUT", OF_SINK,
            sink(name="a", **{"errors.deadletterqueue.topic.name": "lines"})),
    Request("validate: transform", "PUT", OF_SOURCE,
            source(name="a", transforms="r", **{"transforms.r.type": ROUTER,
                                                "transforms.r.regex": "(.*)", "transforms.r.replacement": "x$1"})),
    Request("validate: transform without its settings", "PUT", OF_SOURCE,
            source(name="a", transforms="r", **{"transforms.r.type": ROUTER})),
    Request("validate: transform without type", "PUT", OF_SOURCE,
            source(name="a", transforms="r")),
    Request("validate: transform of unknown type", "PUT", OF_SOURCE,
            source(name="a", transforms="r", **{"transforms.r.type": "Nope"})),
    Request("validate: transform twice", "PUT", OF_SOURCE,
            source(name="a", transforms="r,r", **{"transforms.r.type": ROUTER,
                                                  "transforms.r.regex": "(.*)", "transforms.r.replacement": "x$1"})),
    Request("validate: predicate", "PUT", OF_SOURCE,
            source(name="a", transforms="f", predicates="p",
                   **{"transforms.f.type": FILTER, "transforms.f.predicate": "p",
                      "transforms.f.negate": "true", "predicates.p.pattern": "x.*",
                      "predicates.p.type": MATCHES})),
    Request("validate: negated without predicate", "PUT", OF_SOURCE,
            source(name="a", transforms="f", **{"transforms.f.type": FILTER,
                                                "transforms.f.negate": "true"})),
    Request("validate: converter with settings", "PUT", OF_SOURCE,
            source(name="a", **{"value.converter": JSON_CONVERTER,
                                "value.converter.schemas.enable": "false"})),
    Request("validate: converter with a wrong setting", "PUT", OF_SOURCE,
            source(name="a", **{"value.converter": JSON_CONVERTER,
                                "value.converter.schemas.enable": "perhaps"})),
    Request("validate: overrides of a source", "PUT", OF_SOURCE,
            source(name="a", **{"producer.override.linger.ms": "7", "consumer.override.fetch.min.bytes": "7"})),
    Request("validate: overrides of a sink", "PUT", OF_SINK,
            sink(name="a", **{"producer.override.linger.ms": "7", "consumer.override.fetch.min.bytes": "7"})),
    Request("validate: unknown setting", "PUT", OF_SOURCE,
            source(name="a", flie="x")),
]  # fmt: skip

FIRST = [
    # A worker of Moldau starts Spark for its first batch: the requests that need no connector come meanwhile.
    Request("create", "POST", "/connectors", {"name": "lines", "config": source()}),
]

LIFE = [
    Request("running", "GET", "/connectors/lines/status", until=in_state("RUNNING")),
    Request("topics", "GET", "/connectors/lines/topics", until=_has_topics(1)),
    Request("offsets", "GET", "/connectors/lines/offsets", until=_has_offsets),
    Request("create again", "POST", "/connectors", {"name": "lines", "config": source()}),
    Request("list", "GET", "/connectors"),
    Request("list: status", "GET", "/connectors?expand=status"),
    Request("list: info", "GET", "/connectors?expand=info"),
    Request("list: both", "GET", "/connectors?expand=status&expand=info"),
    Request("list: unknown expansion", "GET", "/connectors?expand=colour"),
    Request("info", "GET", "/connectors/lines"),
    Request("config", "GET", "/connectors/lines/config"),
    Request("tasks", "GET", "/connectors/lines/tasks"),
    Request("task status", "GET", "/connectors/lines/tasks/0/status"),
    Request("no such task", "GET", "/connectors/lines/tasks/7/status"),
    Request("restart no such task", "POST", "/connectors/lines/tasks/7/restart"),
    Request("put: changed", "PUT", "/connectors/lines/config", source(**{"batch.size": "10"})),
    Request("put: with the name", "PUT", "/connectors/lines/config", source(name="lines", **{"batch.size": "11"})),
    Request("put: invalid change", "PUT", "/connectors/lines/config", {"connector.class": "FileStreamSource"}),
    Request("config after an invalid change", "GET", "/connectors/lines/config"),
    Request("patch: changed", "PATCH", "/connectors/lines/config", {"batch.size": "12", "tasks.max": "1"}),
    Request("patch: removed", "PATCH", "/connectors/lines/config", {"tasks.max": None}),
    Request("patch: invalid", "PATCH", "/connectors/lines/config", {"topic": None}),
    Request("config after patches", "GET", "/connectors/lines/config"),
    Request("running again", "GET", "/connectors/lines/status", until=in_state("RUNNING")),
    Request("alter offsets: running", "PATCH", "/connectors/lines/offsets",
            {"offsets": [{"partition": THE_FILE, "offset": {"position": 0}}]}),
    Request("reset offsets: running", "DELETE", "/connectors/lines/offsets"),
    Request("pause", "PUT", "/connectors/lines/pause"),
    Request("paused", "GET", "/connectors/lines/status", until=in_state("PAUSED")),
    Request("alter offsets: paused", "PATCH", "/connectors/lines/offsets",
            {"offsets": [{"partition": THE_FILE, "offset": {"position": 0}}]}),
    Request("pause again", "PUT", "/connectors/lines/pause"),
    Request("resume", "PUT", "/connectors/lines/resume"),
    Request("resumed", "GET", "/connectors/lines/status", until=in_state("RUNNING")),
    Request("restart", "POST", "/connectors/lines/restart"),
    Request("restart with tasks", "POST", "/connectors/lines/restart?includeTasks=true"),
    Request("restarted", "GET", "/connectors/lines/status", until=in_state("RUNNING")),
    Request("restart only failed", "POST", "/connectors/lines/restart?includeTasks=true&onlyFailed=true"),
    Request("restart: no boolean", "POST", "/connectors/lines/restart?includeTasks=maybe"),
    Request("restart task", "POST", "/connectors/lines/tasks/0/restart"),
    Request("running at last", "GET", "/connectors/lines/status", until=in_state("RUNNING")),
    Request("reset topics", "PUT", "/connectors/lines/topics/reset"),
    Request("topics after the reset", "GET", "/connectors/lines/topics", until=_has_topics(0)),
    Request("stop", "PUT", "/connectors/lines/stop"),
    Request("stopped", "GET", "/connectors/lines/status", until=in_state("STOPPED", 0)),
    Request("stop again", "PUT", "/connectors/lines/stop"),
    Request("stopped: info", "GET", "/connectors/lines"),
    Request("stopped: tasks", "GET", "/connectors/lines/tasks"),
    Request("stopped: restart", "POST", "/connectors/lines/restart?includeTasks=true"),
    Request("alter offsets: no body", "PATCH", "/connectors/lines/offsets"),
    Request("alter offsets: empty", "PATCH", "/connectors/lines/offsets", {}),
    Request("alter offsets: empty list", "PATCH", "/connectors/lines/offsets", {"offsets": []}),
    Request("alter offsets: no list", "PATCH", "/connectors/lines/offsets", {"offsets": "x"}),
    Request("alter offsets: no JSON", "PATCH", "/connectors/lines/offsets", raw="{"),
    Request("alter offsets: negative", "PATCH", "/connectors/lines/offsets",
            {"offsets": [{"partition": THE_FILE, "offset": {"position": -1}}]}),
    Request("alter offsets: wrong type", "PATCH", "/connectors/lines/offsets",
            {"offsets": [{"partition": THE_FILE, "offset": {"position": "x"}}]}),
    Request("alter offsets: unknown partition", "PATCH", "/connectors/lines/offsets",
            {"offsets": [{"partition": {"name": "x"}, "offset": {"position": 1}}]}),
    Request("alter offsets", "PATCH", "/connectors/lines/offsets",
            {"offsets": [{"partition": THE_FILE, "offset": {"position": 4}}]}),
    Request("altered offsets", "GET", "/connectors/lines/offsets"),
    Request("reset offsets", "DELETE", "/connectors/lines/offsets"),
    Request("no offsets", "GET", "/connectors/lines/offsets", until=_has_no_offsets),
    Request("delete", "DELETE", "/connectors/lines"),
    Request("deleted", "GET", "/connectors/lines/status", until=_gone),
    Request("delete again", "DELETE", "/connectors/lines"),
    Request("put creates", "PUT", "/connectors/by-put/config", source(file="{dir}/none.txt")),
    Request("created by put", "GET", "/connectors/by-put/status", until=in_state("RUNNING")),
    Request("a name with a space", "POST", "/connectors", {"name": " my lines ", "config": source(file="{dir}/x.txt")}),
    Request("a name with a space: config", "GET", "/connectors/my%20lines/config"),
    Request("a name with a space: running", "GET", "/connectors/my%20lines/status", until=in_state("RUNNING")),
    Request("a name with a slash", "PUT", "/connectors/a%2Fb/config", source(file="{dir}/y.txt")),
    Request("a name with a slash: config", "GET", "/connectors/a%2Fb/config"),
    Request("a name with a slash: delete", "DELETE", "/connectors/a%2Fb"),
    Request("a name with an umlaut", "PUT", "/connectors/fl%C3%BCsse/config", source(file="{dir}/z.txt")),
    Request("a name with an umlaut: delete", "DELETE", "/connectors/fl%C3%BCsse"),
    Request("created stopped", "POST", "/connectors",
            {"name": "asleep", "config": source(), "initial_state": "stopped"}),
    Request("created stopped: status", "GET", "/connectors/asleep/status", until=in_state("STOPPED", 0)),
    Request("created stopped: offsets", "GET", "/connectors/asleep/offsets"),
    Request("created paused", "POST", "/connectors",
            {"name": "drowsy", "config": source(file="{dir}/none.txt"), "initial_state": "PAUSED"}),
    Request("created paused: status", "GET", "/connectors/drowsy/status", until=in_state("PAUSED", None)),
]  # fmt: skip

SINKS = [
    Request("sink: create", "POST", "/connectors", {"name": "out", "config": sink()}),
    Request("sink: running", "GET", "/connectors/out/status", until=in_state("RUNNING")),
    Request("sink: info", "GET", "/connectors/out"),
    Request("sink: offsets", "GET", "/connectors/out/offsets", until=_has_offsets),
    Request("sink: topics", "GET", "/connectors/out/topics", until=_has_topics(1)),
    Request("sink: reset offsets while running", "DELETE", "/connectors/out/offsets"),
    Request("sink: stop", "PUT", "/connectors/out/stop"),
    Request("sink: stopped", "GET", "/connectors/out/status", until=in_state("STOPPED", 0)),
    Request("sink: alter offsets: wrong keys", "PATCH", "/connectors/out/offsets",
            {"offsets": [{"partition": {"filename": "x"}, "offset": {"kafka_offset": 1}}]}),
    Request("sink: alter offsets: no number", "PATCH", "/connectors/out/offsets",
            {"offsets": [{"partition": {**LINES_0, "kafka_partition": "x"}, "offset": {"kafka_offset": 1}}]}),
    Request("sink: alter offsets: no offset", "PATCH", "/connectors/out/offsets",
            {"offsets": [{"partition": LINES_0, "offset": {"position": 1}}]}),
    Request("sink: alter offsets: no partition", "PATCH", "/connectors/out/offsets",
            {"offsets": [{"partition": None, "offset": {"kafka_offset": 1}}]}),
    Request("sink: alter offsets: negative", "PATCH", "/connectors/out/offsets",
            {"offsets": [{"partition": LINES_0, "offset": {"kafka_offset": -1}}]}),
    Request("sink: alter offsets", "PATCH", "/connectors/out/offsets",
            {"offsets": [{"partition": LINES_0, "offset": {"kafka_offset": 1}}]}),
    Request("sink: altered offsets", "GET", "/connectors/out/offsets"),
    Request("sink: remove one offset", "PATCH", "/connectors/out/offsets",
            {"offsets": [{"partition": LINES_0, "offset": None}]}),
    Request("sink: reset offsets", "DELETE", "/connectors/out/offsets"),
    Request("sink: no offsets", "GET", "/connectors/out/offsets"),
    Request("sink: delete", "DELETE", "/connectors/out"),
    Request("sink: deleted", "GET", "/connectors/out", until=_gone),
]  # fmt: skip

FAILING = [
    Request("failing: create", "POST", "/connectors",
            {"name": "broken", "config": sink(**{"value.converter": JSON_CONVERTER})}),
    Request("failing: failed", "GET", "/connectors/broken/status",
            until=lambda answer: answer.status == 200 and any(t["state"] == "FAILED" for t in answer.body["tasks"])),
    Request("failing: task", "GET", "/connectors/broken/tasks/0/status"),
    Request("failing: restart only failed", "POST", "/connectors/broken/restart?includeTasks=true&onlyFailed=true"),
    Request("failing: delete", "DELETE", "/connectors/broken"),
]  # fmt: skip

LOGGERS = [
    Request("loggers: root", "GET", "/admin/loggers/root"),
    Request("loggers: unknown", "GET", "/admin/loggers/no.such.logger"),
    Request("loggers: no level", "PUT", "/admin/loggers/x", {}),
    Request("loggers: unknown level", "PUT", "/admin/loggers/x", {"level": "LOUD"}),
    Request("loggers: no body", "PUT", "/admin/loggers/x"),
    Request("loggers: no JSON", "PUT", "/admin/loggers/x", raw="{"),
    Request("loggers: level is a number", "PUT", "/admin/loggers/x", {"level": 5}),
    Request("loggers: set a new one", "PUT", "/admin/loggers/my.test", {"level": "debug"}),
    Request("loggers: the new one", "GET", "/admin/loggers/my.test"),
    Request("loggers: set a child", "PUT", "/admin/loggers/my.test.child", {"level": "ERROR"}),
    Request("loggers: set both", "PUT", "/admin/loggers/my.test", {"level": "WARN"}),
    Request("loggers: the child", "GET", "/admin/loggers/my.test.child"),
    Request("loggers: of all workers", "PUT", "/admin/loggers/my.test?scope=cluster", {"level": "TRACE"}),
    Request("loggers: of all workers, set", "GET", "/admin/loggers/my.test",
            until=lambda answer: bool(answer.body.get("level") == "TRACE")),
    Request("loggers: unknown scope", "PUT", "/admin/loggers/my.test?scope=world", {"level": "INFO"}),
    Request("loggers: wrong method", "POST", "/admin/loggers/my.test", {"level": "INFO"}),
    Request("loggers: list", "GET", "/admin/loggers"),
]  # fmt: skip

NULLS = [
    Request("create: null value", "POST", "/connectors", {"name": "a", "config": source(file=None)}),
    Request("a with a null value: delete", "DELETE", "/connectors/a"),
]

ALL = [*NOBODY, *FIRST, *BAD_BODIES, *PLUGINS, *LIFE, *SINKS, *FAILING, *LOGGERS, *NULLS]
