"""Security of connections to other brokers: the protocol of the inter-broker listener, from this broker's side.

A broker connects to the others as they connect to it: with TLS if that listener has it, with its key store as client
certificate, and with the user name and password (or token settings) of the listener's JAAS configuration for
`sasl.mechanism.inter.broker.protocol`. Changed files, settings and passwords count for the next connection and the next
login; open connections are not disturbed.

The principal that results needs the permission ClusterAction on the cluster: name it in `super.users`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from moldau.host.clock import Clock, Randomness
from moldau.host.reference_files import resolve_references
from moldau.net.client_logins import ClientLogins, RetryPolicy, TokenCache, endpoint_fetch, unsecured_fetch
from moldau.net.framing import FrameMemory
from moldau.net.listener_tls import listener_tls
from moldau.net.peer_connection import PeerConnection, PeerConnectionLost, open_peer_connection
from moldau.net.tls_client import ClientTls
from moldau.net.tls_settings import TlsSettings
from moldau.net.token_endpoint import TokenEndpoint
from moldau.security.client_login import Login, LoginError, TokenLogin, login_of
from moldau.security.jaas import JaasError, parse_login_module
from moldau.security.sasl_client import SaslClient
from moldau.settings.listener_overrides import PREFIX
from moldau.settings.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS
from moldau.settings.setting import SettingError

if TYPE_CHECKING:
    from moldau.host.threads import Threads
    from moldau.settings import BrokerSettings

T = TypeVar("T")

LANE: Final = "peer logins"


class PeerSecurity:
    """Opens connections to other brokers. With PLAINTEXT it only connects."""

    def __init__(
        self, settings: Callable[[], BrokerSettings], threads: Threads, clock: Clock, randomness: Randomness
    ) -> None:
        plan = settings().listener_plan()
        self.listener = plan.inter_broker
        self.protocol = next(one.protocol for one in plan.advertised if one.name == plan.inter_broker)
        self._settings = settings
        self._threads = threads
        self._clock = clock
        self._random = randomness.random
        self._tls: ClientTls | None = None
        self._login: Login | None = None
        self._logins: ClientLogins | None = None

    def check(self) -> None:
        """Raise SettingError if this broker could not log in to the others."""
        if self.protocol in SASL_PROTOCOLS:
            self._current_login()

    async def connect(
        self, host: str, port: int, client_id: str, *, timeout_s: float, memory: FrameMemory, name: str
    ) -> PeerConnection:
        """Connect to a broker, and log in. Raises PeerConnectionLost."""
        try:
            tls = await self._client_tls().context() if self.protocol in TLS_PROTOCOLS else None
            login = self if self.protocol in SASL_PROTOCOLS else None
        except SettingError as error:
            raise PeerConnectionLost(f"broker {name} cannot be reached: {error}") from error
        return await open_peer_connection(
            host,
            port,
            client_id,
            timeout_s=timeout_s,
            memory=memory,
            name=name,
            tls=tls,
            login=login,
            random=self._random,
        )

    # -- TLS -------------------------------------------------------------------------------------------------------

    def _client_tls(self) -> ClientTls:
        settings: TlsSettings = listener_tls(self._settings().for_listener(self.listener))
        if self._tls is None or self._tls.settings != settings:
            self._tls = ClientTls(settings, self.run)
        return self._tls

    # -- SASL ------------------------------------------------------------------------------------------------------

    async def exchange(self) -> SaslClient:
        """Return the exchange for a login, with the credentials of this moment. Raises LoginError or TokenError."""
        try:
            login = self._current_login()
        except SettingError as error:
            raise LoginError(str(error)) from None
        if self._logins is None or login != self._login:
            tokens = self._token_cache(login) if isinstance(login, TokenLogin) else None
            self._login, self._logins = login, ClientLogins(login, tokens, self.run)
        return await self._logins.exchange()

    def run(self, function: Callable[[], T]) -> Awaitable[T]:
        """Run a function in a thread."""
        return self._threads.run(LANE, function)

    def _current_login(self) -> Login:
        settings = self._settings()
        mechanism: str = settings["sasl.mechanism.inter.broker.protocol"].upper()
        name = f"{PREFIX}{self.listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
        text = settings.for_listener(self.listener).of_mechanism(mechanism, "sasl.jaas.config")
        if not text:
            raise SettingError(
                name, f"is missing: a broker logs in to the others with {mechanism} and needs user name and password"
            )
        try:
            return login_of(mechanism, parse_login_module(resolve_references({name: text})[name]))
        except JaasError as error:
            raise SettingError(name, str(error)) from None
        except LoginError as error:
            hint = "; set sasl.mechanism.inter.broker.protocol" if mechanism == "GSSAPI" else ""
            raise SettingError(name, f"{error}{hint}") from None

    def _token_cache(self, login: TokenLogin) -> TokenCache:
        if login.unsecured_claims is not None:
            return TokenCache(unsecured_fetch(login, self._clock), self._clock, self._random)
        settings = self._settings()
        endpoint = TokenEndpoint(settings.for_listener(self.listener)["sasl.oauthbearer.token.endpoint.url"] or "")
        return TokenCache(endpoint_fetch(endpoint, login, self.run, RetryPolicy()), self._clock, self._random)
