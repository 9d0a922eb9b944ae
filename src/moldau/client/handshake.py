"""The first words on a connection: which APIs and versions does the broker have?

A broker that does not know our version of the question answers in version 0 with UNSUPPORTED_VERSION and, if it can,
the range that it does know; then it is asked again.
"""

from __future__ import annotations

import asyncio
from typing import Final

import moldau
from moldau.client.broker_errors import error_for
from moldau.client.connection import Connection
from moldau.client.own_errors import MoldauError, NotKafka
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode, WireError
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

SOFTWARE_NAME: Final = "moldau"
_KEYS: Final = frozenset(int(key) for key in ApiKey)


async def introduce(connection: Connection, deadline: float) -> None:
    """Ask a new connection's broker what it can do, and note it in the connection."""
    version = APIS[ApiKey.API_VERSIONS].max_version
    answer = await _ask(connection, version, deadline)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = version_to_ask_again(answer, version)
        answer = await _ask(connection, version, deadline)
    if answer.error_code:
        raise error_for(answer.error_code, f"asking broker {connection.name} for its versions")
    note(connection, answer)


def version_to_ask_again(answer: ApiVersionsResponse, asked: int) -> int:
    """The best version that the broker says it has, else 0: every broker that knows the question knows that."""
    for api in answer.api_keys:
        if api.api_key == ApiKey.API_VERSIONS:
            return max(0, min(api.max_version, asked - 1))
    return 0


def note(connection: Connection, answer: ApiVersionsResponse) -> None:
    """What the broker said about itself, into the connection."""
    connection.established(
        {ApiKey(api.api_key): (api.min_version, api.max_version) for api in answer.api_keys if api.api_key in _KEYS}
    )
    connection.supported_features = {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
    connection.finalized_features = {one.name: one.max_version_level for one in answer.finalized_features}


async def _ask(connection: Connection, version: int, deadline: float) -> ApiVersionsResponse:
    reply: asyncio.Future[ApiVersionsResponse] = asyncio.get_running_loop().create_future()

    def on_reply(view: memoryview | None, error: MoldauError | None) -> None:
        if reply.done():
            return
        if view is None:
            assert error is not None
            reply.set_exception(error)
            return
        try:
            reply.set_result(decode(view, version))
        except WireError as problem:
            reply.set_exception(
                NotKafka(f"{connection.name} answered with something else than its versions ({problem})")
            )

    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=moldau.__version__)
    connection.send(ApiKey.API_VERSIONS, version, (request.encode(version),), on_reply, deadline)
    return await reply


def decode(view: memoryview, version: int) -> ApiVersionsResponse:
    """The answer; one that says UNSUPPORTED_VERSION is in version 0, whatever was asked."""
    code = int.from_bytes(view[:2], "big", signed=True)
    if code == ErrorCode.UNSUPPORTED_VERSION:
        try:
            return ApiVersionsResponse.decode(view, 0)
        except WireError:
            return ApiVersionsResponse(error_code=code)
    return ApiVersionsResponse.decode(view, version)
