"""Denial matrix: what every API needs, and its answers without a grant, with a wrong one, a denied one, the right one.

A case is a request with the grants that it needs. Each of its variants is sent by a user of its own, who has nothing
but the rules of the variant. So all rules are created once, before the first request.

The same cases run against Moldau and against Apache Kafka, and the outlines of their answers are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.security import CLUSTER_NAME, Operation, ResourceType
from moldau.security.acls import AclEntry, AclRule, PatternType, Permission, ResourcePattern
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TXN, USER, TOKEN = ResourceType.TRANSACTIONAL_ID, ResourceType.USER, ResourceType.DELEGATION_TOKEN

ELSEWHERE = "elsewhere"
"""A name that no resource of the matrix has."""

NODE_ID = "1"
"""The id of the only broker."""

WRONG: Mapping[ResourceType, tuple[Operation, Operation]] = {
    TOPIC: (Operation.ALTER_CONFIGS, Operation.CREATE),
    GROUP: (Operation.ALTER_CONFIGS, Operation.READ),
    CLUSTER: (Operation.IDEMPOTENT_WRITE, Operation.CREATE),
    TXN: (Operation.TWO_PHASE_COMMIT, Operation.DESCRIBE),
    USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
    TOKEN: (Operation.CREATE, Operation.ALTER_CONFIGS),
}
"""An operation on each type that allows next to nothing, and another one for needs that the first would meet."""


@dataclass(frozen=True)
class Need:
    """An operation on a resource. Without it, the answer has the error; without an error, the resource is not in the
    answer at all."""

    operation: Operation
    kind: ResourceType
    role: str = "cluster"
    """Which resource of the case: the name is made from the role, the case and the variant."""
    error: ErrorCode | None = None
    instead: tuple[Need, ...] = ()
    """Grants that do as well, each alone."""

    def __str__(self) -> str:
        return f"{self.operation.name} {self.kind.name}"


@dataclass(frozen=True)
class Case:
    """A request, and what it needs."""

    api: ApiKey
    name: str
    request: Callable[[Resources], dict[str, Any]]
    """The fields of the request, as nested dictionaries."""
    needs: tuple[Need, ...]
    version: int | None = None
    topics: tuple[str, ...] = ()
    """The roles of topics that exist. Other topics do not."""
    groups: tuple[str, ...] = ()
    """The roles of groups that have committed an offset in each of the topics."""
    txns: tuple[str, ...] = ()
    """The roles of transactional ids with an open transaction in each of the topics."""
    consumers: tuple[str, ...] = ()
    """The roles of groups of the newer protocol, each with a member that subscribes to the topics."""
    tokens: tuple[str, ...] = ()
    """The roles of delegation tokens. Each has an owner of its own."""
    also: tuple[tuple[Operation, ResourceType, str], ...] = ()
    """Grants that every variant has."""
    used_up: bool = False
    """Whether the request changes its resources, so that each variant has its own."""
    allowed_differs: str = ""
    """Why the answer of Apache Kafka to who may is not compared."""
    denied_differs: str = ""
    """Why the answer of Apache Kafka to who may not is not compared."""

    def __str__(self) -> str:
        return f"{APIS[self.api].name}-{self.name}"


@dataclass(frozen=True)
class Variant:
    """A case with a set of rules, and what is expected of the answer."""

    case: Case
    name: str
    rules: tuple[tuple[Permission, Operation, ResourceType, str], ...]
    """The last part is a role of the case, or ELSEWHERE."""
    missing: Need | None
    """The need that is not met; None if all are."""
    number: int

    @property
    def differs(self) -> str:
        """Why the answer of Apache Kafka is not compared; empty if it is."""
        return self.case.allowed_differs if self.missing is None else self.case.denied_differs

    @property
    def user(self) -> str:
        return f"user{self.number}"

    def __str__(self) -> str:
        return f"{self.case}-{self.name}"

    def resources(self) -> Resources:
        case = self.case
        own = f"m{self.number}" if case.used_up else f"m{CASE_NUMBERS[str(case)]}"
        return Resources(own, self.user, case)

    def acl_rules(self, resources: Resources) -> Iterator[AclRule]:
        for permission, operation, kind, role in self.rules:
            name = _resource_name(kind, role, resources)
            entry = AclEntry(f"User:{self.user}", "*", operation, permission)
            yield AclRule(ResourcePattern(kind, name, PatternType.LITERAL), entry)


def _resource_name(kind: ResourceType, role: str, resources: Resources) -> str:
    if kind is CLUSTER:
        return CLUSTER_NAME
    if kind is USER:
        return f"User:{resources[role]}"
    return resources.token_ids.get(role, ELSEWHERE) if kind is TOKEN else resources[role]


@dataclass
class Resources:
    """The names of the resources of one variant, and what the server said about them."""

    prefix: str
    user: str
    case: Case
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    """By topic name; filled in when the topics are created."""
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Producer id and epoch by transactional id; filled in when the transactions are begun."""

    token_ids: dict[str, str] = field(default_factory=dict)
    """Token ids by role; filled in when the tokens are created."""

    def __getitem__(self, role: str) -> str:
        return f"{self.prefix}-{role}"

    def id_of(self, role: str) -> bytes:
        return self.topic_ids[self[role]]

    def producer(self, role: str) -> dict[str, int]:
        producer_id, epoch = self.producers[self[role]]
        return {"producer_id": producer_id, "producer_epoch": epoch}

    def roles(self) -> dict[str, str]:
        """The roles by name: to recognise resources in answers."""
        case = self.case
        named = (
            {need.role for need in case.needs}
            | {role for _, _, role in case.also}
            | {*case.topics, *case.groups, *case.txns, *case.consumers}
        )
        tokens = {found: role for role, found in self.token_ids.items()}
        return {self[role]: role for role in named} | tokens | {NODE_ID: "broker"}


CASES: list[Case] = []
OPEN: dict[ApiKey, str] = {}
"""APIs that everyone may use, with the reason."""
CASE_NUMBERS: dict[str, int] = {}


def case(api: ApiKey, name: str, *needs: Need, **more: Any) -> Callable[[Callable[[Resources], Any]], None]:
    """Register a case. The decorated function returns the fields of the request."""

    def register(request: Callable[[Resources], dict[str, Any]]) -> None:
        made = Case(api, name, request, needs, **more)
        assert str(made) not in CASE_NUMBERS, f"two cases are named {made}"
        CASE_NUMBERS[str(made)] = len(CASES)
        CASES.append(made)

    return register


def variants() -> list[Variant]:
    """Every variant of every case, each with its own user."""
    found: list[Variant] = []
    for one in CASES:
        for name, rules, missing in _rule_sets(one):
            found.append(Variant(one, name, tuple(rules), missing, len(found)))
    return found


Grant = tuple[Permission, Operation, ResourceType, str]


def _rule_sets(one: Case) -> Iterator[tuple[str, list[Grant], Need | None]]:
    allow, deny = Permission.ALLOW, Permission.DENY
    always = [(allow, *grant) for grant in one.also]
    for need in one.needs:
        others = always + [(allow, other.operation, other.kind, other.role) for other in one.needs if other is not need]
        right = (allow, need.operation, need.kind, need.role)
        yield f"{need}: no grant", others, need
        wrong = next(two for two in WRONG[need.kind] if not _meets(two, need))
        yield f"{need}: wrong operation", [*others, (allow, wrong, need.kind, need.role)], need
        if need.kind is not CLUSTER:
            yield f"{need}: wrong resource", [*others, (allow, need.operation, need.kind, ELSEWHERE)], need
        yield f"{need}: deny over allow", [*others, right, (deny, need.operation, need.kind, need.role)], need
        for other in need.instead:
            yield f"{other} instead of {need}", [*others, (allow, other.operation, other.kind, other.role)], None
    rights = [(allow, need.operation, need.kind, need.role) for need in one.needs]
    yield "right grant", always + rights, None


def _meets(operation: Operation, need: Need) -> bool:
    implied = {
        Operation.DESCRIBE: {Operation.READ, Operation.ALTER},
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }
    ways = (need, *need.instead)
    return any(
        way.kind is need.kind and (way.operation is operation or operation in implied.get(way.operation, ()))
        for way in ways
    )
