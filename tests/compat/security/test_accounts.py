"""Accounts that change while the broker runs: users, passwords, delegation tokens; and that secrets stay secret."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from moldau import Admin
from moldau.client.admin.users import UserScramUpsertion
from moldau.security.credentials import ScramMechanism
from moldau.security.delegation_tokens import token_password
from moldau.security.sasl_client import PlainClient, ScramSaslClient
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from moldau.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from moldau.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from moldau.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from tests.compat import wire
from tests.compat.security.test_logins import client_of, connect, log_in, metadata
from tests.support.raw import RawConnection
from tests.support.secured import ADMIN, ADMIN_PASSWORD, ALICE, ALICE_PASSWORD, LogLines, SecuredBroker
from tests.support.waiting import wait_until

SECRET_KEY = "token-k3y"
BROKER_RESOURCE, SET = 4, 0


def error_of(secured: SecuredBroker, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> ErrorCode:
    client = PlainClient(user, password) if mechanism == "PLAIN" else ScramSaslClient(mechanism, user, password)
    with connect(secured) as raw:
        return ErrorCode(log_in(raw, client, mechanism).error_code)


def test_users_of_the_first_start_are_stored_once(tmp_path: Path) -> None:
    with SecuredBroker(tmp_path) as secured:
        assert error_of(secured, ADMIN, ADMIN_PASSWORD) is ErrorCode.NONE
    users = tmp_path / "users.properties"
    users.write_text("admin=SCRAM-SHA-256=[password=another]\nnew=SCRAM-SHA-256=[password=another]\n")
    again = SecuredBroker(tmp_path)
    users.write_text("admin=SCRAM-SHA-256=[password=another]\nnew=SCRAM-SHA-256=[password=another]\n")
    with again:
        assert error_of(again, ADMIN, ADMIN_PASSWORD) is ErrorCode.NONE
        assert error_of(again, ADMIN, "another") is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert error_of(again, "new", "another") is ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    "text", ["admin", "admin=SCRAM-SHA-1=[password=s3cret]", "admin=SCRAM-SHA-256=[iterations=1,password=s3cret]"]
)
def test_a_malformed_users_file_is_an_error_at_the_start(tmp_path: Path, text: str) -> None:
    secured = SecuredBroker(tmp_path)
    (tmp_path / "users.properties").write_text(text)
    with pytest.raises(ValueError, match=r"moldau\.initial\.users\.file") as caught, secured:
        pass
    assert "s3cret" not in str(caught.value)


def test_a_changed_password_is_in_force_for_the_next_login(tmp_path: Path) -> None:
    with SecuredBroker(tmp_path) as secured, connect(secured) as before:
        log_in(before, client_of(secured, "SCRAM-SHA-256"), "SCRAM-SHA-256")
        with Admin({"bootstrap.servers": secured.address("PLAINTEXT")}) as admin:
            admin.alter_user_scram_credentials(
                UserScramUpsertion(ADMIN, "changed", mechanism=ScramMechanism.SCRAM_SHA_256)
            )
        wait_until(lambda: error_of(secured, ADMIN, "changed") is ErrorCode.NONE)
        assert error_of(secured, ADMIN, ADMIN_PASSWORD) is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert metadata(before).brokers  # a session that has logged in goes on


def test_users_of_plain_change_with_the_setting(tmp_path: Path, log_lines: LogLines) -> None:
    with SecuredBroker(tmp_path) as secured, RawConnection(secured.address("PLAINTEXT")) as admin:
        name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"

        def alter(text: str) -> int:
            config = IncrementalAlterConfigsRequestConfig(name=name, config_operation=SET, value=text)
            resource = IncrementalAlterConfigsRequestResource(
                resource_type=BROKER_RESOURCE, resource_name="1", configs=[config]
            )
            request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            return int(wire.ask(admin, request).responses[0].error_code)

        assert error_of(secured, ALICE, ALICE_PASSWORD, "PLAIN") is ErrorCode.NONE
        assert alter('x.PlainLoginModule required user_carol="c4rol";') == 0
        wait_until(lambda: error_of(secured, "carol", "c4rol", "PLAIN") is ErrorCode.NONE)
        assert error_of(secured, ALICE, ALICE_PASSWORD, "PLAIN") is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert alter("x.PlainLoginModule c4rol") != 0  # malformed
        assert alter('x.AnotherLoginModule required user_dave="d4ve";') == 0  # stored, and of no use
        wait_until(lambda: bool(log_lines.about("new login settings not used, the old ones stay")))
        assert error_of(secured, "carol", "c4rol", "PLAIN") is ErrorCode.NONE
        assert "c4rol" not in "\n".join(log_lines.lines)


def test_a_delegation_token_logs_in_until_it_ends(tmp_path: Path) -> None:
    with SecuredBroker(tmp_path, {"delegation.token.secret.key": SECRET_KEY}) as secured, connect(secured) as owner:
        log_in(owner, client_of(secured, "SCRAM-SHA-256"), "SCRAM-SHA-256")
        token = wire.ask(owner, CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1))
        assert token.error_code == 0
        password = token_password(SECRET_KEY, token.token_id)

        def login(mechanism: str, password: str, token_id: str = token.token_id) -> tuple[ErrorCode, int, bool]:
            client = ScramSaslClient(mechanism, token_id, password, token=True)
            with connect(secured) as raw:
                answer = log_in(raw, client, mechanism)
                if answer.error_code:
                    return ErrorCode(answer.error_code), 0, False
                sessions = secured.call(lambda: [one for one in secured.broker.connections if one.token_authenticated])
                assert [str(one.principal) for one in sessions] == [f"User:{ADMIN}"]
                refused = wire.ask(raw, CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1))
                return ErrorCode.NONE, answer.session_lifetime_ms, bool(refused.error_code)

        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            error, lifetime_ms, no_token_of_tokens = login(mechanism, password)
            assert (error, no_token_of_tokens) == (ErrorCode.NONE, True)
            assert 0 < lifetime_ms <= 24 * 3_600_000
            assert login(mechanism, "wrong")[0] is ErrorCode.SASL_AUTHENTICATION_FAILED
            assert login(mechanism, password, "no-such-token")[0] is ErrorCode.SASL_AUTHENTICATION_FAILED
        # Without `tokenauth`, the id is only the name of an unknown user.
        assert error_of(secured, token.token_id, password) is ErrorCode.SASL_AUTHENTICATION_FAILED
        ended = wire.ask(owner, ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1))
        assert ended.error_code == 0
        wait_until(lambda: login("SCRAM-SHA-256", password)[0] is ErrorCode.SASL_AUTHENTICATION_FAILED)


def test_no_secret_shows_in_logs_descriptions_and_metrics(tmp_path: Path) -> None:
    settings = {
        "delegation.token.secret.key": SECRET_KEY,
        "moldau.metrics.port": "0",
        "listener.name.sasl_ssl.ssl.key.password": "k3y-password",
        "ssl.truststore.password": "tru5t-password",
    }
    shown = []
    with LogLines() as lines, SecuredBroker(tmp_path, settings) as secured:
        private_key = secured.keystore.read_text().split("-----")[2].strip()[:40]
        token = secured.issuer.token()
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"):
            with connect(secured) as raw:
                log_in(raw, client_of(secured, mechanism), mechanism)
                resource = DescribeConfigsRequestResource(resource_type=BROKER_RESOURCE, resource_name="1")
                request = DescribeConfigsRequest(
                    resources=[resource], include_synonyms=True, include_documentation=True
                )
                described = wire.ask(raw, request)
                shown.append(repr(described))
                names = {config.name: config for config in described.results[0].configs}
                assert names["sasl.jaas.config"].value is None and names["sasl.jaas.config"].is_sensitive
        error_of(secured, ADMIN, "wr0ng-password")
        error_of(secured, "n0body", ADMIN_PASSWORD, "PLAIN")
        port = secured.call(lambda: secured.broker._metrics_server.sockets[0].getsockname()[1])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
            shown.append(page.read().decode())
        shown.append(secured.call(lambda: repr(secured.broker.image.security)))
    text = "\n".join((*shown, *lines.lines))
    for secret in (
        ADMIN_PASSWORD,
        ALICE_PASSWORD,
        SECRET_KEY,
        "k3y-password",
        "tru5t-password",
        private_key,
        token,
        "wr0ng-password",
    ):
        assert secret not in text
    assert "authentication failed" in text
