"""Error replies: the response to a request whose every part failed with one error.

A response mostly mirrors its request: one topic per topic, one partition per partition, each with its own error code.
So one walk over the generated messages builds nearly all of them; the tables here cover the exceptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, get_args, get_origin, get_type_hints

from moldau.broker.connection.session import Request
from moldau.broker.handlers.produce import NO_ACKS
from moldau.broker.requests.fetch_sessions import FetchSessionError
from moldau.broker.requests.handler_registry import Body
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.message import WireStruct
from moldau.wire.tuned.fetch import TOPIC_IDS_FROM, FetchAnswer, decode_fetch, encode_fetch

MESSAGE = "a test wanted this to fail"

SOURCES = {
    "coordinators": ("coordinator_keys",),
    "entries": ("entries",),
    "filter_results": ("filters",),
    "groups": ("groups", "group_ids"),
    "markers": ("markers",),
    "members": ("members",),
    "partition_responses": ("partition_data",),
    "partition_result": ("partitions",),
    "partitions": ("partitions", "partition_indexes"),
    "replica_election_results": ("topic_partitions",),
    "responses": ("topic_data", "resources", "topics", "topic_names"),
    "results": ("topics", "resources", "groups_names", "creations", "upsertions", "deletions", "users"),
    "results_by_partition": ("partitions",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_transaction": ("transactions",),
    "topic_results": ("topics",),
    "topics": ("topics",),
    "transaction_states": ("transactional_ids",),
}
"""For each array of a response, the arrays of the request that it answers, element by element."""

RENAMED = {"user": "name"}
"""Fields of a response that have another name in the request."""

IDENTITIES = ("partition_index", "partition_id", "group_id", "key", "transactional_id", "name")
"""The field of a response element that answers a plain number or name."""

UNKNOWN = {"base_offset": -1, "log_append_time_ms": -1, "generation_id": -1, "node_id": -1, "port": -1}
"""Fields that are meaningless after an error, but whose default value would have a meaning."""

DEEPEST = "*"

LEVELS = {
    ApiKey.LEAVE_GROUP: ("", "members"),
    ApiKey.METADATA: ("topics",),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ("topics",),
    ApiKey.DESCRIBE_LOG_DIRS: ("", "results"),
    ApiKey.OFFSET_FETCH: ("", "groups", DEEPEST),
}
"""Levels of the error code, if not only the deepest one: the response itself (""), or the elements of an array."""

ANSWERED_FIRST = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_LOG_DIRS})
"""APIs whose response has parts that a client needs even after an error: the real response is built, then changed."""

IMPOSSIBLE = frozenset({ApiKey.ALTER_REPLICA_LOG_DIRS, ApiKey.API_VERSIONS})
"""APIs whose error responses do not mirror the request."""


def refuse(api: ApiKey, request: Request, body: memoryview, code: ErrorCode) -> Body | None:
    """The response to a request that was not carried out; None if the client expects none (acks=0)."""
    if api == ApiKey.FETCH:
        return _refuse_fetch(request, body, code)
    definition = APIS[api]
    asked = _class(definition.module, f"{definition.name}Request").decode(body, request.version)
    if api == ApiKey.PRODUCE and asked.acks == NO_ACKS:
        return None
    answer = _mirror(_class(definition.module, f"{definition.name}Response"), asked)
    _mark(api, answer, code)
    return [answer.encode(request.version)]


def spoil(api: ApiKey, request: Request, body: Body, code: ErrorCode) -> Body:
    """The response to a request that was carried out, changed to report an error."""
    definition = APIS[api]
    answer = _class(definition.module, f"{definition.name}Response").decode(b"".join(body), request.version)
    _mark(api, answer, code)
    return [answer.encode(request.version)]


def topics_of(api: ApiKey, request: Request, body: memoryview) -> set[str]:
    """The topics that a request names, by name or by id; for a fetch, also those of its session."""
    broker = request.broker
    named: set[str | bytes] = set()
    if api == ApiKey.FETCH:
        call = decode_fetch(body, request.version)
        named.update(topic for topic, _ in call.topics)
        session = broker.fetch_sessions.get(call.session_id)
        if session is not None:
            named.update(topic for topic, _ in session.partitions)
    else:
        definition = APIS[api]
        named.update(_named(_class(definition.module, f"{definition.name}Request").decode(body, request.version)))
    ids = broker.image.topic_names_by_id
    return {ids.get(topic, "") if isinstance(topic, bytes) else topic for topic in named}


def _refuse_fetch(request: Request, body: memoryview, code: ErrorCode) -> Body:
    """The session continues: the client counts this response as part of it."""
    call = decode_fetch(body, request.version)
    broker = request.broker
    try:
        session, watched, _ = broker.fetch_sessions.open(call, request.version >= TOPIC_IDS_FROM, broker.loop.time())
    except FetchSessionError as refused:
        return encode_fetch(request.version, refused.error, 0, [])
    topics: dict[str | bytes, list[FetchAnswer]] = {}
    for one in watched:
        answer = FetchAnswer(one.target.partition, code, -1, -1, -1, None, b"")
        topics.setdefault(one.topic, []).append(answer)
    return encode_fetch(request.version, 0, session.id if session is not None else 0, list(topics.items()))


# -- mirroring ---------------------------------------------------------------------------------------------------------


def _class(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


@cache
def _arrays(kind: Any) -> dict[str, Any]:
    """The array fields of a message, with the type of their elements."""
    found = {}
    for name, hint in get_type_hints(kind.__init__).items():
        for choice in (hint, *get_args(hint)):
            if get_origin(choice) is list:
                found[name] = get_args(choice)[0]
    return found


def _arrays_of(struct: Any) -> dict[str, Any]:
    kind: Any = type(struct)
    return _arrays(kind)


def _mirror(kind: Any, asked: WireStruct) -> Any:
    answer = kind()
    arrays = _arrays(kind)
    for name in kind.__slots__:
        if name in arrays:
            if issubclass(arrays[name], WireStruct):
                setattr(answer, name, [_element(arrays[name], one) for one in _source(name, asked)])
        elif name in UNKNOWN:
            setattr(answer, name, UNKNOWN[name])
        elif hasattr(asked, RENAMED.get(name, name)):
            setattr(answer, name, getattr(asked, RENAMED.get(name, name)))
    return answer


def _source(name: str, asked: WireStruct) -> list[Any]:
    for candidate in SOURCES.get(name, ()):
        if found := getattr(asked, candidate, None):
            return list(found)
    return []


def _element(kind: Any, asked: Any) -> Any:
    if isinstance(asked, WireStruct):
        return _mirror(kind, asked)
    answer = kind()
    setattr(answer, next(name for name in IDENTITIES if name in kind.__slots__), asked)
    return answer


def _mark(api: ApiKey, answer: WireStruct, code: ErrorCode) -> None:
    for level in LEVELS.get(api, (DEEPEST,)):
        if level == DEEPEST:
            _mark_deepest(answer, code)
        else:
            for struct in [answer] if not level else getattr(answer, level):
                _set_code(struct, code)


def _mark_deepest(struct: Any, code: ErrorCode) -> bool:
    children = [child for name in _arrays_of(struct) for child in getattr(struct, name) or ()]
    marked = [_mark_deepest(child, code) for child in children if isinstance(child, WireStruct)]
    return any(marked) or _set_code(struct, code)


def _set_code(struct: WireStruct, code: ErrorCode) -> bool:
    fields = [name for name in type(struct).__slots__ if name in ("error_code", "partition_error_code")]
    for name in fields:
        setattr(struct, name, int(code))
    if fields and "error_message" in type(struct).__slots__:
        struct.error_message = MESSAGE  # type: ignore[attr-defined]
    return bool(fields)


def _named(struct: Any) -> Iterator[str | bytes]:
    """Names and ids in the arrays of a request that have `topic` in their name."""
    for field in _arrays_of(struct):
        for element in getattr(struct, field) or ():
            if isinstance(element, WireStruct):
                if "topic" in field:
                    yield from _identity(element)
                yield from _named(element)
            elif "topic" in field and isinstance(element, str):
                yield element


def _identity(topic: WireStruct) -> Iterator[str | bytes]:
    for name in ("name", "topic", "topic_id"):
        if value := getattr(topic, name, None):
            yield value
