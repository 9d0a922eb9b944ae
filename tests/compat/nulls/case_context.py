"""Cases of nullable strings in responses: a request, and whether Apache Kafka's answer has null, "" or a text.

Clients and their users compare error messages with null: "" is a message, and so an error.
A path names a field in the definition of the response. A case has one set of kinds per path, for all fields of the
path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode
from tests.compat import wire
from tests.compat.transactions.requests import RETRIABLE
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until
from tests.unit.wire.schema import Case as MessageCase
from tests.unit.wire.schema import all_messages, carries, may_be_null
from tools import notation

NULL, EMPTY, TEXT = "null", "empty", "text"
REASON = "null or text"  # the reason of an error, where Apache Kafka gives none and Moldau may
Kinds = frozenset[str]

NO_SUCH_ID = b"moldau-no-topic!"
JOIN = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "test"}


def one_of(*kinds: str) -> Kinds:
    return frozenset(kinds)


def message_of(name: str) -> MessageCase:
    (found,) = [message for message in all_messages() if message.name == name]
    return found


def build(message: MessageCase, struct: notation.Struct, values: dict[str, Any], version: int) -> Any:
    """Build a message from nested dictionaries. Fields that the version does not have are left out."""
    known = {one.name: one for one in struct.fields}
    made = {}
    for name, value in values.items():
        one = known[name]
        if not carries(one, version):
            continue
        if one.struct is not None and value is not None:
            value = [build(message, one.struct, element, version) for element in value]
        made[name] = value
    return getattr(message.module, struct.name)(**made)


def nullable_strings(struct: notation.Struct, version: int | None, path: str = "") -> Iterator[str]:
    """The paths of all nullable strings, in one version or in any."""
    for one in struct.fields:
        if version is not None and not carries(one, version):
            continue
        if one.struct is not None:
            yield from nullable_strings(one.struct, version, f"{path}{one.name}.")
        elif one.type == "string" and one.nullable and (version is None or may_be_null(one, version)):
            yield f"{path}{one.name}"


def kinds_at(value: Any, path: str) -> Kinds:
    """The kinds of values at a path: null, an empty text, or a text. A path through a list may have several."""
    name, _, rest = path.partition(".")
    below = getattr(value, name)
    if not rest:
        return one_of(NULL if below is None else TEXT if below else EMPTY)
    elements = below if isinstance(below, list) else [] if below is None else [below]
    return frozenset().union(*(kinds_at(element, rest) for element in elements))


@dataclass
class CaseContext:
    """A server, one version of one API, and the topics and groups that requests name."""

    raw: RawConnection
    version: int
    new_topic: Callable[..., str]
    unused_name: Callable[[], str]

    def ask(self, key: ApiKey, values: dict[str, Any], version: int | None = None) -> Any:
        chosen = self.version if version is None else version
        message = message_of(f"{APIS[key].name}Request")
        return wire.ask(self.raw, build(message, message.definition.top, values, chosen), chosen)

    @cached_property
    def topic(self) -> str:
        return self.new_topic()

    @cached_property
    def topic_id(self) -> bytes:
        return wire.topic_id(self.raw, self.topic)

    @cached_property
    def broker_id(self) -> int:
        (broker,) = wire.metadata(self.raw, []).brokers
        return broker.node_id

    @cached_property
    def group(self) -> str:
        """The name of a group with a ready coordinator."""
        name = self.unused_name()
        find = {"key": name}
        wait_until(lambda: self.ask(ApiKey.FIND_COORDINATOR, find, 3).error_code not in RETRIABLE)
        describe = {"groups": [name]}
        wait_until(lambda: self.ask(ApiKey.DESCRIBE_GROUPS, describe, 5).groups[0].error_code not in RETRIABLE)
        return name

    def join(self, version: int, **more: Any) -> Any:
        request = {**JOIN, "group_id": self.group, "protocols": [{"name": "only", "metadata": b""}], **more}
        answer = self.ask(ApiKey.JOIN_GROUP, request, version)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return self.ask(ApiKey.JOIN_GROUP, {**request, "member_id": answer.member_id}, version)
        return answer

    def synced(self, version: int, **more: Any) -> tuple[Any, Any]:
        """A member of a stable group: its JoinGroup and SyncGroup responses."""
        member = self.join(5, **more)
        request = {
            "group_id": self.group,
            "generation_id": member.generation_id,
            "member_id": member.member_id,
            "protocol_type": "test",
            "protocol_name": "only",
            "assignments": [{"member_id": member.member_id, "assignment": b"yours"}],
            **more,
        }
        return member, self.ask(ApiKey.SYNC_GROUP, request, version)

    def heartbeat(self, **more: Any) -> Any:
        """The first heartbeat of a member of the consumer group protocol."""
        request = {
            "group_id": self.group,
            "member_id": self.unused_name(),
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": [self.topic],
            "topic_partitions": [],
            **more,
        }
        return self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, min(self.version, 1))


@dataclass(frozen=True, eq=False)
class Case:
    """A request, and the kind of each nullable string in the response of Apache Kafka 4.3."""

    key: ApiKey
    outcome: str
    ask: Callable[[CaseContext], Any]
    expected: dict[str, Kinds]
    first_version: int = 0

    @property
    def versions(self) -> range:
        api = APIS[self.key]
        return range(max(api.min_version, self.first_version), api.max_stable_version + 1)

    def agrees(self, path: str, found: Kinds) -> bool:
        expected = self.expected.get(path, one_of())
        return found <= one_of(NULL, TEXT) if expected == one_of(REASON) else found == expected

    def __str__(self) -> str:
        return f"{APIS[self.key].name}, {self.outcome}"


CASES: list[Case] = []


def case(key: ApiKey, outcome: str, expected: dict[str, str | Kinds], first_version: int = 0) -> Callable[[Any], Any]:
    """Register a function that takes a CaseContext and returns either the fields of a request or a whole response."""
    kinds = {path: one_of(kind) if isinstance(kind, str) else kind for path, kind in expected.items()}

    def register(function: Callable[[CaseContext], Any]) -> Callable[[CaseContext], Any]:
        def ask(context: CaseContext) -> Any:
            made = function(context)
            return context.ask(key, made) if isinstance(made, dict) else made

        CASES.append(Case(key, outcome, ask, kinds, first_version))
        return function

    return register
