"""ApiVersions (18): the APIs and versions that this broker serves.

Versions 0-4.

* The response is built from the handler registry, and from nothing else.
* A version that is not served is answered in version 0, with UNSUPPORTED_VERSION and the versions of this API. The
  client can then ask again.
* From version 3 on, the client sends the name and version of its software. Both must match Kafka's pattern
  (INVALID_REQUEST otherwise). They are kept for the log.
* All supported features are finalized.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import HANDLERS, Handler, handles
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
"""Clients of version 3 cannot read a feature with minimum version 0."""

FEATURES = {"group.version": 1, "transaction.version": 2}
"""Features and their levels: the new group protocol; transactions whose partitions the broker verifies and that each
end with a new epoch."""
FEATURES_EPOCH = 0
"""Constant: features depend on the version of the broker and do not change while it runs."""
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
    """The response to an ApiVersions version that is not served. It is always encoded in version 0."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_ranges([HANDLERS[ApiKey.API_VERSIONS]])
    )


def _ranges(handlers: Iterable[Handler]) -> list[ApiVersionsResponseApiKey]:
    return [
        ApiVersionsResponseApiKey(api_key=handler.api, min_version=handler.min_version, max_version=handler.max_version)
        for handler in sorted(handlers, key=lambda handler: handler.api)
    ]
