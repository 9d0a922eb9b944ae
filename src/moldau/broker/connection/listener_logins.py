"""Logins of a SASL listener: creates the exchange of each mechanism, with the users and keys of this moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from moldau.broker.connection.jwks_keys import JwksKeys
from moldau.cluster.security_image import SecurityImage, UserCredentials
from moldau.host.clock import Clock, Randomness
from moldau.security.credentials import ScramCredential, ScramMechanism
from moldau.security.delegation_tokens import token_credential
from moldau.security.oauthbearer_server import AcceptedToken, InvalidToken, OauthbearerExchange
from moldau.security.sasl_config import SaslConfig
from moldau.security.sasl_server import Identity, PlainExchange, SaslExchange
from moldau.security.scram_server import ScramAccount, ScramExchange, ScramUsers
from moldau.security.token_validation import validate_token

MAX_CACHED_TOKENS = 1024
"""Delegation tokens whose keys are kept: to compute them takes milliseconds."""

_SCRAM = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


class Accounts:
    """SCRAM accounts of the cluster: users, and delegation tokens. Shared by all listeners of a broker."""

    def __init__(
        self, image: Callable[[], SecurityImage], clock: Clock, randomness: Randomness, token_secret_key: str | None
    ) -> None:
        self._image = image
        self._token_secret_key = token_secret_key
        self._token_credentials: dict[tuple[ScramMechanism, str], ScramCredential] = {}
        self._clock = clock
        self._secret = randomness.uuid() + randomness.uuid()
        self._users: dict[ScramMechanism, ScramUsers] = {}
        self._made_from: Mapping[str, UserCredentials] | None = None
        self._randomness = randomness

    def nonce(self) -> str:
        """A new random text, with more than 240 bits of entropy."""
        return (self._randomness.uuid() + self._randomness.uuid()).hex()

    def users(self, mechanism: ScramMechanism) -> ScramUsers:
        credentials = self._image().scram_credentials
        if credentials is not self._made_from:  # users have changed
            self._users.clear()
            self._made_from = credentials
        users = self._users.get(mechanism)
        if users is None:
            users = self._users[mechanism] = ScramUsers(credentials, mechanism, self._secret)
        return users

    def find(self, mechanism: ScramMechanism, users: ScramUsers, name: str, by_token: bool) -> ScramAccount:
        """The account of a user, or of a delegation token. The latter computes keys: it runs in a thread."""
        if not by_token:
            return users.find(name)
        token = self._image().delegation_tokens.get(name)
        if token is None or self._token_secret_key is None or token.expires_ms <= self._clock.now_ms():
            return ScramAccount(users.made_up(name), None)
        credential = self._token_credentials.get((mechanism, name))
        if credential is None:
            credential = token_credential(mechanism, self._token_secret_key, name)
            if len(self._token_credentials) >= MAX_CACHED_TOKENS:
                self._token_credentials.clear()
            self._token_credentials[mechanism, name] = credential
        return ScramAccount(credential, Identity(token.owner, token.expires_ms, by_token=True))


class ListenerLogins:
    """The logins of one listener with one configuration."""

    __slots__ = ("_accounts", "_clock", "config", "keys")

    def __init__(self, config: SaslConfig, accounts: Accounts, clock: Clock, keys: JwksKeys | None) -> None:
        self.config = config
        self.keys = keys
        self._accounts = accounts
        self._clock = clock

    def exchange(self, mechanism: str) -> SaslExchange:
        """A new login with one of the configured mechanisms."""
        if mechanism == "PLAIN":
            assert self.config.plain_users is not None
            return PlainExchange(self.config.plain_users)
        if mechanism in _SCRAM:
            scram = _SCRAM[mechanism]
            find = partial(self._accounts.find, scram, self._accounts.users(scram))
            return ScramExchange(scram, find, self._accounts.nonce())
        return OauthbearerExchange(self._validate)

    def _validate(self, token: str) -> AcceptedToken:
        rules = self.config.token_rules
        assert rules is not None
        find = self.keys.find if self.keys is not None else _no_key
        return validate_token(token, rules, find, self._clock.now_ms() / 1000)


def _no_key(key_id: str | None) -> None:
    raise InvalidToken("no keys of tokens are configured")
