"""Security of a listener: TLS context, principals of certificates, and logins, from the settings in force.

Reads key stores and keys of tokens in a thread. New connections use what was read last; open ones keep what they have.
When a new key store cannot be used, the old one stays in use and the error is logged.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.connection.jwks_keys import JwksKeys, JwksUnavailable
from moldau.broker.connection.listener_logins import Accounts, ListenerLogins
from moldau.host.event_log import event_logger
from moldau.host.file_stamps import FileStamps, file_stamps
from moldau.net.listener_tls import listener_tls
from moldau.net.tls_context import server_context
from moldau.net.tls_settings import TlsSettings
from moldau.security import ANONYMOUS, Principal
from moldau.security.certificates import MissingExtra
from moldau.security.principal_mapping import MappingRule, distinguished_name, listener_rules, mapped_name
from moldau.security.sasl_config import SaslConfig, sasl_config
from moldau.security.token_validation import import_jwt
from moldau.settings.listener_overrides import ListenerSettings
from moldau.settings.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS
from moldau.settings.setting import SettingError

if TYPE_CHECKING:
    import ssl

    from moldau.host.clock import Clock
    from moldau.host.threads import Threads
    from moldau.settings import BrokerSettings

log = event_logger(__name__)

LANE = "certificates"


class SecurityHost(NamedTuple):
    """The parts of the broker that the security of a listener uses."""

    threads: Threads
    clock: Clock
    accounts: Accounts


class ListenerSecurity:
    """The security of one listener. PLAINTEXT has none of its parts."""

    __slots__ = ("_files", "_host", "_sasl", "_tls", "context", "login", "name", "needs_handshake", "protocol", "rules")

    def __init__(self, name: str, protocol: str) -> None:
        self.name = name
        self.protocol = protocol
        self.needs_handshake = protocol != "PLAINTEXT"
        self.context: ssl.SSLContext | None = None
        self.rules: tuple[MappingRule, ...] = ()
        self.login: ListenerLogins | None = None
        self._host: SecurityHost | None = None
        self._tls: TlsSettings | None = None
        self._sasl: SaslConfig | None = None
        self._files: FileStamps = ()

    def check(self, settings: BrokerSettings) -> None:
        """Raise SettingError for mistakes that `open` would find later, after the data directories were created."""
        of_listener = settings.for_listener(self.name)
        if self.protocol in TLS_PROTOCOLS:
            listener_rules(of_listener)
            _read_context(self._tls_settings(of_listener))
        if self.protocol in SASL_PROTOCOLS:
            sasl_config(of_listener)

    async def open(self, settings: BrokerSettings, host: SecurityHost) -> None:
        """Read everything for the first time. Raises SettingError if the listener could not be protected."""
        self._host = host
        of_listener = settings.for_listener(self.name)
        if self.protocol in TLS_PROTOCOLS:
            self.rules = listener_rules(of_listener)
            tls = self._tls_settings(of_listener)
            if tls.client_auth != of_listener["ssl.client.auth"]:
                log.warning(
                    "ssl.client.auth applies to SSL listeners only",
                    extra={"listener": self.name, "instead": f"{tls.prefix}ssl.client.auth"},
                )
            self._files, self.context = await host.threads.run(LANE, _read_context, tls)
            self._tls = tls
        if self.protocol in SASL_PROTOCOLS:
            await self._open_login(of_listener, host)

    def _tls_settings(self, settings: ListenerSettings) -> TlsSettings:
        """As in Kafka, a SASL_SSL listener wants certificates only if its own settings say so: its clients log in."""
        tls = listener_tls(settings)
        if self.protocol in SASL_PROTOCOLS and not settings.has_own("ssl.client.auth"):
            return tls._replace(client_auth="none")
        return tls

    async def _open_login(self, settings: ListenerSettings, host: SecurityHost) -> None:
        config = sasl_config(settings)
        keys = None
        if config.token_rules is not None:
            try:
                import_jwt()
            except MissingExtra as error:
                raise SettingError("sasl.enabled.mechanisms", str(error)) from None
        if config.jwks is not None:
            keys = JwksKeys(config.jwks, host.clock.monotonic)
            try:
                await host.threads.run(LANE, keys.load)
            except JwksUnavailable as error:
                raise SettingError("sasl.oauthbearer.jwks.endpoint.url", str(error)) from None
        self._sasl = config
        self.login = ListenerLogins(config, host.accounts, host.clock, keys)

    async def refresh(self, settings: BrokerSettings) -> None:
        """Use changed settings and changed files for new connections. An error is logged once, and changes nothing."""
        if self._host is None or not self.needs_handshake:
            return
        of_listener = settings.for_listener(self.name)
        if self.protocol in TLS_PROTOCOLS:
            await self._refresh_context(self._tls_settings(of_listener), self._host)
        if self.protocol in SASL_PROTOCOLS:
            await self._refresh_login(of_listener, self._host)

    async def _refresh_context(self, tls: TlsSettings, host: SecurityHost) -> None:
        stamps = await host.threads.run(LANE, file_stamps, tls.files)
        if tls == self._tls and stamps == self._files:
            return
        self._tls, self._files = tls, stamps  # also after an error: it is logged once per change
        try:
            self._files, self.context = await host.threads.run(LANE, _read_context, tls)
        except SettingError as error:
            log.error(
                "new certificates not used, the old ones stay",
                extra={"listener": self.name, "setting": error.name, "reason": error.reason},
            )
        else:
            log.info("new certificates in use", extra={"listener": self.name})

    async def _refresh_login(self, settings: ListenerSettings, host: SecurityHost) -> None:
        try:
            config = sasl_config(settings)
            if config == self._sasl:
                return
            self._sasl = config
            await self._open_login(settings, host)
        except SettingError as error:
            log.error(
                "new login settings not used, the old ones stay",
                extra={"listener": self.name, "setting": error.name, "reason": error.reason},
            )
        else:
            log.info("new login settings in use", extra={"listener": self.name})

    def peer_principal(self, transport: asyncio.BaseTransport) -> Principal:
        """Whom the client's certificate names; ANONYMOUS without certificate. Raises NoMatchingRule."""
        certificate = transport.get_extra_info("peercert")
        if not certificate:
            return ANONYMOUS
        return Principal("User", mapped_name(distinguished_name(certificate["subject"]), self.rules))


def _read_context(tls: TlsSettings) -> tuple[FileStamps, ssl.SSLContext]:
    # The stamps first: a file that changes while it is read is read again at the next check.
    stamps = file_stamps(tls.files)
    return stamps, server_context(tls)
