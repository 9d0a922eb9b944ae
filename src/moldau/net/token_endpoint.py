"""Token endpoint: gets a bearer token over HTTP with client credentials (OAuth 2, RFC 6749, section 4.4).

Blocking: call it in a thread. The certificate of an https endpoint is verified against the authorities of the operating
system. Errors have no part of the credentials or of the token.
"""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from moldau.host.secret_files import read_bounded
from moldau.security.bearer_tokens import MAX_TOKEN_BYTES, TokenError

if TYPE_CHECKING:
    from urllib.request import Request

MAX_ANSWER_BYTES = MAX_TOKEN_BYTES + 64 * 1024
WRONG_REQUEST = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501})
"""Answers after which another attempt is useless."""


class TokenEndpoint(NamedTuple):
    """The address of a token endpoint and its time limits."""

    url: str
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 10.0


class EndpointBusy(TokenError):
    """The endpoint did not answer, or not now: another attempt may succeed."""


def request_token(endpoint: TokenEndpoint, client_id: str, client_secret: str, scope: str) -> str:
    """Return the text of a new token. Raises TokenError, or EndpointBusy if another attempt may succeed."""
    url = urlsplit(endpoint.url)
    if url.scheme == "file":
        return _from_file(unquote(url.path))
    if url.scheme not in ("http", "https"):
        raise TokenError(f"sasl.oauthbearer.token.endpoint.url is not an http, https or file URL: {_shown(url)}")
    if not client_id or not client_secret:
        raise TokenError("the token endpoint needs clientId and clientSecret, which sasl.jaas.config does not have")
    from urllib.request import Request  # imported late: it is slow, and few clients need it

    form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    credentials = b64encode(f"{client_id}:{client_secret}".encode()).decode()
    request = Request(
        endpoint.url,
        urlencode(form).encode(),
        {
            "Authorization": f"Basic {credentials}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        },
        method="POST",
    )
    return _token_in(_post(request, _shown(url), max(endpoint.connect_timeout_s, endpoint.read_timeout_s)))


def _post(request: Request, where: str, timeout_s: float) -> bytes:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, HTTPSHandler, build_opener

    class NoRedirect(HTTPRedirectHandler):
        """No redirects: the credentials are for this endpoint only."""

        def redirect_request(self, *_: object) -> None:
            return None

    opener = build_opener(NoRedirect(), HTTPSHandler(context=ssl.create_default_context()))
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            body: bytes = answer.read(MAX_ANSWER_BYTES + 1)
    except HTTPError as error:
        error.close()
        if error.code in WRONG_REQUEST or 300 <= error.code < 400:
            raise TokenError(f"the token endpoint {where} refused the request with HTTP {error.code}") from None
        raise EndpointBusy(f"the token endpoint {where} answered with HTTP {error.code}") from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise EndpointBusy(f"the token endpoint {where} cannot be reached: {reason}") from None
    if len(body) > MAX_ANSWER_BYTES:
        raise TokenError(f"the token endpoint {where} sent more than {MAX_ANSWER_BYTES} bytes")
    return body


def _token_in(body: bytes) -> str:
    try:
        answer = json.loads(body)
    except ValueError:
        raise TokenError("the token endpoint did not answer with JSON") from None
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token:
        raise TokenError("the answer of the token endpoint has no access_token")
    return token


def _from_file(path: str) -> str:
    try:
        return read_bounded(path).decode()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise TokenError(f"the token file {path} cannot be read: {reason}") from None


def _shown(url: SplitResult) -> str:
    """The URL without user, password and query, for messages."""
    return f"{url.scheme}://{url.hostname or ''}{f':{url.port}' if url.port else ''}{url.path}"
