"""Endpoints of the registry, from the resources that handle them.

The routes and the OpenAPI description are made from them. Every path also exists below `/contexts/NAME`, for the
subjects of that context.
"""

from __future__ import annotations

from moldau.registry.registry import Registry
from moldau.registry.rest.endpoint import ApiEndpoint, endpoints_of
from moldau.registry.rest.schemas import SchemasResource
from moldau.registry.rest.server_info import ServerInfo
from moldau.registry.rest.settings_resource import SettingsResource
from moldau.registry.rest.subjects import SubjectsResource


def endpoints(registry: Registry, info: ServerInfo) -> list[ApiEndpoint]:
    """All endpoints of a registry."""
    resources = (SchemasResource(registry), SubjectsResource(registry), SettingsResource(registry), info)
    return [endpoint for resource in resources for endpoint in endpoints_of(resource)]
