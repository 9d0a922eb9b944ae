"""Cost of access control: small produce requests with 10,000 rules, compared with a broker that has no authorizer.

Both brokers run at the same time and take turns, so that other load on the machine affects both.
"""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from bench import kcat
from bench.harness import ADMIN_TIMEOUT_S, Broker, Context, Row, median, settle, spread
from bench.small_batches import KCAT_PROCESSES, PARTITIONS, SETTINGS

RULES = 10_000
RULES_PER_REQUEST = 500
LIMIT = 1.05
CLIENT = "User:ANONYMOUS"
WITH_RULES = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:nobody",
    "allow.everyone.if.no.acl.found=true",
)


def run(context: Context) -> Iterator[Row]:
    lines = context.lines(context.sized(1_000_000, 300_000))
    costs: dict[str, list[float]] = {"without": [], "with": []}
    with context.broker() as plain, context.broker(*WITH_RULES) as secured:
        _create_rules(secured)
        brokers = {"without": plain, "with": secured}
        for name, broker in brokers.items():
            _cost(context, broker, f"warm-up-{name}")
        for turn in range(context.repeats * 2):
            for name, broker in brokers.items():
                costs[name].append(_cost(context, broker, f"small-{turn}", lines))
            context.say(f"µs per request: without rules {costs['without'][-1]:.2f}, with {costs['with'][-1]:.2f}")
    ours, least = costs["with"], costs["without"]
    note = (
        f"{median(ours):.2f} ({spread(ours)}) against {median(least):.2f} ({spread(least)}) µs of CPU per request of "
        f"10 records; {RULES:,} rules"
    )
    yield Row("Produce with access control", median(ours) / median(least), "x without", LIMIT, note=note)


def _cost(context: Context, broker: Broker, topic: str, lines: object = None) -> float:
    """Microseconds of broker CPU time per request."""
    broker.create_topic(topic, PARTITIONS)
    settle()
    before = broker.cpu_seconds()
    kcat.produce(broker.address, topic, lines or context.lines(100_000), SETTINGS, KCAT_PROCESSES)  # type: ignore[arg-type]
    spent = broker.cpu_seconds() - before
    return spent / kcat.stored(broker.data, topic).batches * 1e6


def _create_rules(broker: Broker) -> None:
    """Rules of many principals on many topics, literal and prefixed, and those that allow the client of this run."""
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 3})
    rules = [
        _allow("small-", CLIENT, ResourcePatternType.PREFIXED, AclOperation.ALL),
        _allow("warm-up", CLIENT, ResourcePatternType.PREFIXED, AclOperation.ALL),
    ]
    kinds = (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED)
    rules += [
        _allow(f"team-{number % 997}-topic-{number}", f"User:user-{number % 311}", kinds[number % 2], AclOperation.READ)
        for number in range(RULES - len(rules))
    ]
    for at in range(0, len(rules), RULES_PER_REQUEST):
        created = admin.create_acls(rules[at : at + RULES_PER_REQUEST], request_timeout=ADMIN_TIMEOUT_S)
        for future in created.values():
            future.result(timeout=ADMIN_TIMEOUT_S)


def _allow(name: str, principal: str, kind: ResourcePatternType, operation: AclOperation) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, kind, principal, "*", operation, AclPermissionType.ALLOW)
