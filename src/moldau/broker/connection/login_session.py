"""Session of a SASL listener: the client logs in before its first request, and again before its login ends.

A login is SaslHandshake, which names the mechanism, and then tokens: in SaslAuthenticate requests, or, after
SaslHandshake version 0, as frames without headers. Until it is complete, only these and ApiVersions are served
(`LoginHost.routes`), frames are small, and their memory is separate. Afterwards a request costs no more than on a
listener without login: what is served changes by replacing the routes, and time is a timer.

The rules, as in Kafka:

* A login that fails is answered after `connection.failed.authentication.delay.ms`, and the connection is closed.
* A login that lasts for a limited time (KIP-368) may be repeated, with the same mechanism and principal only. After its
  end, the first request other than a new login closes the connection.
* Everything unexpected closes the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.connection.session import Route, Session, SessionHost
from moldau.host.event_log import event_logger
from moldau.host.threads import ThreadsBusy, ThreadsClosed
from moldau.security.sasl_server import Identity, SaslExchange, SaslFailure, SaslStep
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode, WireError

if TYPE_CHECKING:
    from moldau.broker.connection.listener import Listener
    from moldau.broker.connection.listener_logins import ListenerLogins

log = event_logger(__name__)

MIN_REAUTHENTICATION_S = 1.0
"""A login may be repeated only after this time, as in Kafka: logins are costly."""

LOGIN_LANE = "login"
_LENGTH = Struct(">i")


class IllegalLogin(WireError):
    """A request that is not allowed at this point of a login."""


class Stage(Enum):
    """What a session expects from its client."""

    HANDSHAKE = "SaslHandshake"
    TOKEN = "SaslAuthenticate"
    RAW_TOKEN = "a SASL token"
    NOTHING = "nothing"
    """A step of the login is under way, or the login has failed."""
    REQUESTS = "requests"


class LoginAnswer(NamedTuple):
    """The answer to a token."""

    error: ErrorCode
    message: str | None
    token: bytes
    lifetime_ms: int


Answer = Callable[[LoginAnswer], None]


class LoginSession(Session):
    __slots__ = (
        "_exchange",
        "_host",
        "_identity",
        "_lifetime_ms",
        "_login",
        "_mechanism",
        "_since",
        "_stage",
        "_timer",
    )

    def __init__(self, host: SessionHost, listener: Listener, login: ListenerLogins) -> None:
        super().__init__(host, listener)
        self._host = host
        self._login = login
        self._stage = Stage.HANDSHAKE
        self._exchange: SaslExchange | None = None
        self._mechanism = ""
        self._identity: Identity | None = None  # of the last complete login
        self._since = 0.0
        self._lifetime_ms = 0
        self._timer: asyncio.TimerHandle | None = None
        self._memory = host.login.frame_memory
        self._routes = host.login.routes
        self.max_frame_bytes = login.config.max_receive_bytes

    # -- lifecycle -------------------------------------------------------------------------------------------------

    def secured(self) -> None:
        """The connection is open, and TLS is complete. The time for the login runs since it was accepted."""
        self._set_timer(self.last_active + self._host.login.timeout_s, self._timed_out)

    def closed(self, error: Exception | None) -> None:
        self._cancel_timer()
        super().closed(error)

    def _timed_out(self) -> None:
        self._metrics.failed_authentications += 1
        self._connections.log_client_error(
            "authentication failed", self, "the login was not complete in time (moldau.authentication.timeout.ms)"
        )
        if self.transport is not None:
            self.transport.abort()

    def _set_timer(self, when: float, action: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = self._loop.call_at(when, action)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- requests --------------------------------------------------------------------------------------------------

    def _dispatch(self, frame: memoryview, started: float) -> None:
        if self._stage is Stage.RAW_TOKEN:
            self._step(bytes(frame), self._answer_raw)
        else:
            super()._dispatch(frame, started)

    def _shown(self, frame: memoryview) -> str:
        return super()._shown(frame) if self._stage is Stage.REQUESTS else "not shown, it may have a secret"

    def _unserved(self, api_key: int, version: int) -> Route:
        if self._routes is not self._host.login.routes or api_key == ApiKey.API_VERSIONS:
            return super()._unserved(api_key, version)
        name = APIS[ApiKey(api_key)].name if api_key in APIS else f"API key {api_key}"
        if self._identity is not None and self._stage is Stage.HANDSHAKE:
            self._metrics.sessions_expired += 1
            raise IllegalLogin(f"{name} after the end of the login; the client must log in again before")
        raise IllegalLogin(f"{name} before the login is complete; expected is {self._stage.value}")

    def rejected(self, error: Exception) -> None:
        if self._stage is Stage.REQUESTS:
            super().rejected(error)
            return
        self._metrics.failed_authentications += 1
        reason = str(error).replace("socket.request.max.bytes", "sasl.server.max.receive.size")
        self._connections.log_client_error("authentication failed, connection closed", self, reason)

    # -- login -----------------------------------------------------------------------------------------------------

    def handshake(self, mechanism: str, version: int) -> tuple[ErrorCode, tuple[str, ...]]:
        """Begin a login, or a repeated one. After UNSUPPORTED_SASL_MECHANISM, the caller calls `fail`."""
        if self._stage is Stage.REQUESTS:
            if not self._lifetime_ms or self._now() - self._since < MIN_REAUTHENTICATION_S:
                return ErrorCode.ILLEGAL_SASL_STATE, ()
        elif self._stage is not Stage.HANDSHAKE:
            raise IllegalLogin(f"SaslHandshake during a login; expected is {self._stage.value}")
        offered = self._login.config.mechanisms if self._identity is None else (self._mechanism,)
        if mechanism not in offered:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM, offered
        if self._identity is not None:  # repeated: until it is complete, only the login is served
            self._routes = self._host.login.routes
            self.max_frame_bytes = self._login.config.max_receive_bytes
            self._set_timer(self._now() + self._host.login.timeout_s, self._timed_out)
        self._mechanism = mechanism
        self._exchange = self._login.exchange(mechanism)
        self._stage = Stage.TOKEN if version else Stage.RAW_TOKEN
        return ErrorCode.NONE, offered

    def authenticate(self, token: bytes, answer: Answer) -> bool:
        """Take a token of a SaslAuthenticate request. False if this session has no login under way."""
        if self._stage is Stage.REQUESTS:
            return False
        if self._stage is not Stage.TOKEN:
            raise IllegalLogin(f"SaslAuthenticate is not expected; expected is {self._stage.value}")
        self._step(token, answer)
        return True

    def _step(self, token: bytes, answer: Answer) -> None:
        exchange, stage = self._exchange, self._stage
        assert exchange is not None
        self._stage = Stage.NOTHING
        if exchange.is_costly(token):
            self.hold()
            task = self._loop.create_task(self._step_in_thread(exchange, token, stage, answer))
            self._tasks.append(task)
            task.add_done_callback(self._tasks.remove)
            return
        try:
            step = exchange.respond(token)
        except SaslFailure as failure:
            self.fail(failure, answer)
        else:
            self._stepped(step, stage, answer)

    async def _step_in_thread(self, exchange: SaslExchange, token: bytes, stage: Stage, answer: Answer) -> None:
        try:
            step = await self._host.login.threads.run(LOGIN_LANE, exchange.respond, token)
        except SaslFailure as failure:
            self.fail(failure, answer)
        except (ThreadsBusy, ThreadsClosed) as error:
            self.fail(SaslFailure("Authentication failed: the broker is busy", str(error)), answer)
        except Exception:
            # A bug in the broker: this client loses its connection, and others are not affected.
            self._metrics.handler_failures += 1
            log.exception("login failed, connection closed", extra={"client": self.peer})
            self.close()
        else:
            if self.transport is not None:
                self._stepped(step, stage, answer)
                self.release()

    def _stepped(self, step: SaslStep, stage: Stage, answer: Answer) -> None:
        if step.identity is None:
            self._stage = stage
        elif self._identity is not None and step.identity.principal != self._identity.principal:
            failure = SaslFailure(
                "Cannot change principals during re-authentication", f"{self.principal} tried to change its principal"
            )
            return self.fail(failure, answer)
        else:
            self._authenticated(step.identity)
        return answer(LoginAnswer(ErrorCode.NONE, None, step.answer, self._lifetime_ms if step.identity else 0))

    def _authenticated(self, identity: Identity) -> None:
        self._cancel_timer()
        self.principal = identity.principal
        self.token_authenticated = identity.by_token
        self._since = self._now()
        self._lifetime_ms = self._lifetime_of(identity)
        if self._lifetime_ms or identity.expires_ms is not None:
            self._set_timer(self._since + self._lifetime_ms / 1000, self._expire)
        if self._identity is None:
            self.unauthenticated = False
            self._connections.authenticated()
            self._use_shared_memory()
        self._identity = identity
        self._exchange = None
        self._stage = Stage.REQUESTS
        self._routes = self._host.routes
        self.max_frame_bytes = self._host.max_request_bytes

    def _lifetime_of(self, identity: Identity) -> int:
        """How long the login lasts, in milliseconds; 0 if it does not end, or has ended already."""
        limit = self._login.config.max_reauth_ms[self._mechanism]
        if identity.expires_ms is None:
            return max(0, limit)
        left = max(0, identity.expires_ms - self._host.login.now_ms())
        return min(left, limit) if limit > 0 else left

    def _expire(self) -> None:
        """The login has ended. Waiting requests are still answered; the next one must be a login."""
        self._timer = None
        self._stage = Stage.HANDSHAKE
        self._routes = self._host.login.routes

    def _use_shared_memory(self) -> None:
        """Count what was received after the last token as memory of all clients from now on."""
        before, self._memory = self._memory, self._host.frame_memory
        waiting = sum(map(len, self._backlog))
        if self._partial is not None and self._wanted and not self._waiting_for_memory:
            waiting += self._wanted
        if waiting:
            self._memory.in_use += waiting
            before.give(waiting)

    def fail(self, failure: SaslFailure, answer: Answer | None) -> None:
        """Answer a failed login after a pause, and close the connection. Until then nothing is read."""
        self._stage = Stage.NOTHING
        self._metrics.failed_authentications += 1
        self._connections.log_client_error(
            "authentication failed", self, f"{self._mechanism or 'SASL'}: {failure.reason}"
        )
        if self.transport is None:
            return
        self.hold()
        when = self._now() + self._host.login.failure_delay_s
        self._set_timer(when, lambda: self._close_failed(failure, answer))

    def _close_failed(self, failure: SaslFailure, answer: Answer | None) -> None:
        self._timer = None
        if answer is not None:
            answer(LoginAnswer(ErrorCode.SASL_AUTHENTICATION_FAILED, str(failure), b"", 0))
        self.close()

    def _answer_raw(self, answer: LoginAnswer) -> None:
        """Send a token without header. A failure has no answer: the connection is closed."""
        if answer.error is ErrorCode.NONE:
            size = len(answer.token)
            self.send([_LENGTH.pack(size) + answer.token], size + _LENGTH.size)
