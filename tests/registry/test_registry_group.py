"""Choice of the leader, in the messages that Confluent's registries exchange."""

from __future__ import annotations

import json

from moldau.registry.registry_group import RegistryIdentity, assignment_of, choose_leader
from moldau.service.http_settings import HttpAddress


def identity(port: int, *, may_lead: bool = True, leads: bool = False) -> RegistryIdentity:
    return RegistryIdentity(HttpAddress("http", "127.0.0.1", port), may_lead, leads)


def test_the_smallest_url_leads_if_none_does() -> None:
    assert choose_leader({"x": identity(8083), "y": identity(8081), "z": identity(8082)}) == "y"


def test_a_leader_stays_the_leader() -> None:
    assert choose_leader({"x": identity(8083, leads=True), "y": identity(8081)}) == "x"


def test_two_that_believe_to_lead_are_chosen_as_if_none_did() -> None:
    assert choose_leader({"x": identity(8083, leads=True), "y": identity(8081), "z": identity(8082, leads=True)}) == "y"


def test_a_registry_that_may_not_lead_is_never_chosen() -> None:
    members = {"x": identity(8081, may_lead=False, leads=True), "y": identity(8082)}
    assert choose_leader(members) == "y"
    assert choose_leader({"x": identity(8081, may_lead=False)}) is None
    assert "master" not in json.loads(assignment_of({"x": identity(8081, may_lead=False)}))


def test_members_speak_confluents_protocol() -> None:
    assert identity(8081).encode() == {
        "version": 1,
        "host": "127.0.0.1",
        "port": 8081,
        "master_eligibility": True,
        "scheme": "http",
        "leader": False,
    }
    assert json.loads(assignment_of({"x": identity(8081)})) == {
        "version": 1,
        "error": 0,
        "master": "x",
        "master_identity": identity(8081).encode(),
    }
    sent = {"version": 1, "host": "h", "port": 1, "master_eligibility": True, "scheme": "https"}
    assert RegistryIdentity.decode(sent) == RegistryIdentity(HttpAddress("https", "h", 1), may_lead=True)


def test_two_members_with_one_address_are_an_error() -> None:
    assert json.loads(assignment_of({"x": identity(8081), "y": identity(8081)}))["error"] == 1
