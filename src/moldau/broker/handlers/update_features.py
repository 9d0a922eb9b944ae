"""UpdateFeatures (57): raise or lower the finalized version of a feature.

Versions 0-2.

* Features depend on the version of the brokers and are not stored. An update to the current level succeeds and changes
  nothing.
* Any other update is INVALID_UPDATE_VERSION for the whole request, with the reason.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.handlers.api_versions import FEATURES
from moldau.broker.requests.handler_registry import handles
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeatureUpdate,
    UpdateFeaturesResponse,
    UpdateFeaturesResponseFeature,
)


@handles(ApiKey.UPDATE_FEATURES)
def update_features(request: Request, message: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    if not request.authorized(Operation.ALTER, ResourceType.CLUSTER):
        return UpdateFeaturesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None)
    for update in message.feature_updates:
        if (problem := _problem(update)) is not None:
            reason = f"Invalid update version {update.max_version_level} for feature {update.feature}. {problem}"
            return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=reason)
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdateFeaturesResponseFeature(feature=update.feature, error_message=None)
            for update in message.feature_updates
        ],
    )


def _problem(update: UpdateFeaturesRequestFeatureUpdate) -> str | None:
    level = FEATURES.get(update.feature)
    if level is None:
        return f"This broker does not have it; it has {', '.join(FEATURES)}."
    if update.max_version_level > level:
        return f"This broker supports versions up to {level}."
    if update.max_version_level < level:
        return f"Features come with the version of the brokers; this one is at {level} and cannot be lowered."
    return None
