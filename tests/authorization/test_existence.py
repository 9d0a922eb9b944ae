"""What a client may not see is not revealed: its requests get the same answers, whether a resource exists or not."""

from __future__ import annotations

from dataclasses import replace

from moldau.broker import handlers  # noqa: F401  (registers them)
from moldau.broker.requests.handler_registry import HANDLERS
from tests.authorization.cases import CASES
from tests.authorization.matrix import Case, Resources
from tests.authorization.moldau_server import moldau_server
from tests.authorization.play import ADMIN, Server, create_resources, password_of, request_of, version_of
from tests.compat import wire

NOBODY = "nobody"
IDS_ARE_NO_SECRET = "by id"
"""Kafka tells an unknown topic id from a denied one, and so does Moldau: nobody guesses 128 bits."""

NO_TOPIC = b"moldau-no-topic!"

NAMED = [
    one
    for one in CASES
    if one.api in HANDLERS and (one.topics or one.groups or one.txns) and not one.name.startswith(IDS_ARE_NO_SECRET)
]


def test_existing_and_missing_resources_get_the_same_answers() -> None:
    with moldau_server({user: password_of(user) for user in (ADMIN, NOBODY)}) as server:
        staged = {str(one): Resources(f"real{place:03}", NOBODY, one) for place, one in enumerate(NAMED)}
        with server.connect(ADMIN) as admin:
            create_resources(admin, list(staged.values()))
        differing = [
            str(one)
            for one in NAMED
            if answer_about(server, one, staged[str(one)]) != answer_about(server, one, missing(staged[str(one)]))
        ]
        assert not differing, "\n".join(differing)
    assert len(NAMED) > 40


def missing(real: Resources) -> Resources:
    """The same resources with names of the same length that do not exist."""
    prefix = real.prefix.replace("real", "fake")
    producers = {name.replace("real", "fake"): found for name, found in real.producers.items()}
    topic_ids = {name.replace("real", "fake"): NO_TOPIC for name in real.topic_ids}
    return replace(real, prefix=prefix, producers=producers, topic_ids=topic_ids)


def answer_about(server: Server, case: Case, resources: Resources) -> bytes:
    """The bytes of the answer, with the same names and ids for both kinds."""
    version = version_of(case)
    with server.connect(NOBODY) as connection:
        answer = wire.ask(connection, request_of(case, resources, version), version)
    encoded: bytes = answer.encode(version)
    for topic_id in resources.topic_ids.values():
        encoded = encoded.replace(topic_id, NO_TOPIC)
    return encoded.replace(b"fake", b"real")
