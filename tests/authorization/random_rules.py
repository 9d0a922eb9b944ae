"""Random rules for many users, and the operations that a server then allows them on each topic."""

from __future__ import annotations

import random
from collections.abc import Sequence

from moldau.security import OPERATIONS, Operation
from moldau.security.acls import AclEntry, AclRule, PatternType, Permission, ResourcePattern
from moldau.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.authorization.matrix import TOPIC
from tests.authorization.play import ADMIN, Server
from tests.compat import wire
from tests.support.waiting import wait_until

USERS = tuple(f"random{number}" for number in range(150))
TOPICS = ("r", "ra", "rab", "rabc", "rb")
"""No name begins with a star: Apache Kafka's wildcard rules do not cover such names, Moldau's do."""
RULES_PER_USER = 6
SEED = 20_261_118
WITH_OPERATIONS = 8

LITERAL_NAMES = [*TOPICS, "*", "*"]
PREFIXES = ["r", "ra", "rab", "rabcd", "x"]
HOSTS = ["*", "*", "127.0.0.1", "10.9.9.9"]

Allowed = dict[tuple[str, str], tuple[int, int]]


def random_rules() -> list[AclRule]:
    chance = random.Random(SEED)
    operations = [*OPERATIONS[TOPIC], Operation.ALL]
    rules: list[AclRule] = []
    for user in USERS:
        for _ in range(chance.randrange(RULES_PER_USER)):
            prefixed = chance.random() < 0.4
            pattern = ResourcePattern(
                TOPIC,
                chance.choice(PREFIXES if prefixed else LITERAL_NAMES),
                PatternType.PREFIXED if prefixed else PatternType.LITERAL,
            )
            permission = Permission.DENY if chance.random() < 0.3 else Permission.ALLOW
            entry = AclEntry(f"User:{user}", chance.choice(HOSTS), chance.choice(operations), permission)
            rules.append(AclRule(pattern, entry))
    everyone = AclEntry("User:*", "127.0.0.1", Operation.DESCRIBE_CONFIGS, Permission.ALLOW)
    rules.append(AclRule(ResourcePattern(TOPIC, "rab", PatternType.PREFIXED), everyone))
    return list(dict.fromkeys(rules))


def allowed_operations(server: Server, users: Sequence[str] = USERS) -> Allowed:
    """The error and the bits of the authorised operations, by user and topic."""
    with server.connect(ADMIN) as admin:
        topics = [CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1) for name in TOPICS]
        answer = wire.ask(admin, CreateTopicsRequest(topics=topics, timeout_ms=20_000))
        assert {one.error_code for one in answer.topics} == {0}, answer
        wait_until(lambda: all(wire.is_served(admin, name, 1) for name in TOPICS))
    server.add_rules(random_rules())
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in TOPICS], include_topic_authorized_operations=True
    )
    found: Allowed = {}
    for user in users:
        with server.connect(user) as connection:
            for topic in wire.ask(connection, request, WITH_OPERATIONS).topics:
                found[user, topic.name] = (topic.error_code, topic.topic_authorized_operations)
    return found
