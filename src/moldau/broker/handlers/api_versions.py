"""ApiVersions (18): which requests this broker understands.

Versions 0-4. The answer is the handler registry, nothing else. A version that we do not know is answered in version 0
with UNSUPPORTED_VERSION and the range of this one API, so that the client can ask again. Software name and version,
where given, must look like names; they are kept for the log. Features are told as finalized: they are served.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from moldau.broker.registry import HANDLERS, Handler, handles
from moldau.broker.session import Request
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiKey,
    ApiVersionsResponseFinalizedFeature,
    ApiVersionsResponseSupportedFeature,
)

CLIENT_SOFTWARE_FROM = 3
LEVEL_ZERO_FROM = 4
"""Clients of version 3 cannot read a feature whose range begins at 0."""

FEATURES = {"group.version": 1, "transaction.version": 2}
"""What a client may rely on beyond single requests: groups of the new protocol; transactions whose partitions the
broker verifies, and that end with a new epoch each."""
FEATURES_EPOCH = 0
"""They come with the broker's version and do not change while it runs."""
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handles(ApiKey.API_VERSIONS)
def api_versions(request: Request, message: ApiVersionsRequest) -> ApiVersionsResponse:
    if request.version >= CLIENT_SOFTWARE_FROM:
        name, version = message.client_software_name, message.client_software_version
        if not (_NAME.fullmatch(name) and _NAME.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        request.session.client_software = f"{name}/{version}"
    return ApiVersionsResponse(
        api_keys=_ranges(HANDLERS.values()),
        supported_features=[
            ApiVersionsResponseSupportedFeature(name=name, min_version=0, max_version=level)
            for name, level in FEATURES.items()
            if request.version >= LEVEL_ZERO_FROM
        ],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            ApiVersionsResponseFinalizedFeature(name=name, max_version_level=level, min_version_level=level)
            for name, level in FEATURES.items()
        ],
    )


def unsupported_version(request: Request, body: memoryview) -> ApiVersionsResponse:
    """What a client of the future hears; always encoded as version 0."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_ranges([HANDLERS[ApiKey.API_VERSIONS]])
    )


def _ranges(handlers: Iterable[Handler]) -> list[ApiVersionsResponseApiKey]:
    return [
        ApiVersionsResponseApiKey(api_key=handler.api, min_version=handler.min_version, max_version=handler.max_version)
        for handler in sorted(handlers, key=lambda handler: handler.api)
    ]
