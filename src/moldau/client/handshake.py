"""Handshake of a new connection: ApiVersions, which returns the APIs and versions that the broker serves.

A broker that does not know our version of ApiVersions answers in version 0 with UNSUPPORTED_VERSION and, if it can,
with the versions that it knows. Then the client sends the request again in such a version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

import moldau
from moldau.client.broker_errors import error_for
from moldau.client.client_errors import MoldauError, NotKafka, SaslAuthenticationError
from moldau.client.connection import Connection
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode, WireError
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

T = TypeVar("T")

SOFTWARE_NAME: Final = "moldau"
_KEYS: Final = frozenset(int(key) for key in ApiKey)


async def introduce(connection: Connection, deadline: float) -> None:
    """Request the versions of the broker and store them in the connection."""
    version = APIS[ApiKey.API_VERSIONS].max_version
    answer = await _ask(connection, version, deadline)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = version_to_ask_again(answer, version)
        answer = await _ask(connection, version, deadline)
    if answer.error_code:
        raise error_for(answer.error_code, f"requesting the API versions of broker {connection.name}")
    note(connection, answer)


def version_to_ask_again(answer: ApiVersionsResponse, asked: int) -> int:
    """Return the highest version of ApiVersions that the broker names, otherwise 0, which all brokers know."""
    for api in answer.api_keys:
        if api.api_key == ApiKey.API_VERSIONS:
            return max(0, min(api.max_version, asked - 1))
    return 0


def note(connection: Connection, answer: ApiVersionsResponse) -> None:
    """Store the versions and features of the broker in the connection."""
    connection.established(
        {ApiKey(api.api_key): (api.min_version, api.max_version) for api in answer.api_keys if api.api_key in _KEYS}
    )
    connection.supported_features = {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
    connection.finalized_features = {one.name: one.max_version_level for one in answer.finalized_features}


async def check_no_login(connection: Connection, deadline: float) -> None:
    """Raise SaslAuthenticationError if the listener wants a login that this client does not know of.

    Such a broker answers ApiVersions and then closes the connection at the first other request, without a reason. Any
    broker answers SaslHandshake: this one with the mechanisms that it has, another one with ILLEGAL_SASL_STATE.
    """
    if ApiKey.SASL_HANDSHAKE not in connection.versions:
        return
    version = connection.version(ApiKey.SASL_HANDSHAKE)
    request = SaslHandshakeRequest(mechanism="")
    reply: asyncio.Future[SaslHandshakeResponse] = asyncio.get_running_loop().create_future()
    on_reply = _settle(connection, reply, lambda view: SaslHandshakeResponse.decode(view, version))
    connection.send(ApiKey.SASL_HANDSHAKE, version, (request.encode(version),), on_reply, deadline)
    answer = await reply
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        needed = "SASL_SSL" if connection.encrypted else "SASL_PLAINTEXT"
        raise SaslAuthenticationError(
            f"{connection.name} wants a login; set security.protocol={needed} and sasl.mechanism to one of: "
            f"{', '.join(answer.mechanisms)}"
        )


async def _ask(connection: Connection, version: int, deadline: float) -> ApiVersionsResponse:
    reply: asyncio.Future[ApiVersionsResponse] = asyncio.get_running_loop().create_future()
    on_reply = _settle(connection, reply, lambda view: decode(view, version))
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=moldau.__version__)
    connection.send(ApiKey.API_VERSIONS, version, (request.encode(version),), on_reply, deadline)
    return await reply


def _settle(
    connection: Connection, reply: asyncio.Future[T], decode_reply: Callable[[memoryview], T]
) -> Callable[[memoryview | None, MoldauError | None], None]:
    def on_reply(view: memoryview | None, error: MoldauError | None) -> None:
        if reply.done():
            return
        if view is None:
            assert error is not None
            reply.set_exception(error)
            return
        try:
            reply.set_result(decode_reply(view))
        except WireError as problem:
            reply.set_exception(
                NotKafka(
                    f"{connection.name} did not answer like a Kafka broker ({problem}); check the port in "
                    "bootstrap.servers"
                )
            )

    return on_reply


def decode(view: memoryview, version: int) -> ApiVersionsResponse:
    """Decode the response. With UNSUPPORTED_VERSION it has version 0, for any version of the request."""
    code = int.from_bytes(view[:2], "big", signed=True)
    if code == ErrorCode.UNSUPPORTED_VERSION:
        try:
            return ApiVersionsResponse.decode(view, 0)
        except WireError:
            return ApiVersionsResponse(error_code=code)
    return ApiVersionsResponse.decode(view, version)
