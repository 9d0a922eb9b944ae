"""Endpoints `/config`, `/mode` and `/contexts`: compatibility level and mode of the registry, contexts and subjects."""

from __future__ import annotations

from moldau.registry.registry import Registry
from moldau.registry.rest.bodies import mode_of
from moldau.registry.rest.endpoint import ApiCall, ApiReply, page
from moldau.registry.rest.paths import DEFAULT_CONTEXT, context_prefix


class SettingsResource:
    """Handlers of the endpoints. A path without a subject means the whole registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def config(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        found = self._registry.config(call.path.get("subject"), default_to_global=call.flag("defaultToGlobal"))
        return ApiReply(found)

    async def set_config(self, call: ApiCall) -> ApiReply:
        return ApiReply(await self._registry.set_config(call.path.get("subject"), call.json_object()))

    async def delete_config(self, call: ApiCall) -> ApiReply:
        return ApiReply(await self._registry.delete_config(call.path.get("subject")))

    async def mode(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        found = self._registry.mode(call.path.get("subject"), default_to_global=call.flag("defaultToGlobal"))
        return ApiReply({"mode": found})

    async def set_mode(self, call: ApiCall) -> ApiReply:
        mode = mode_of(call.json_object())
        return ApiReply(
            {"mode": await self._registry.set_mode(call.path.get("subject"), mode, force=call.flag("force"))}
        )

    async def delete_mode(self, call: ApiCall) -> ApiReply:
        return ApiReply({"mode": await self._registry.delete_mode(call.path.get("subject"))})

    async def contexts(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        prefix = call.text("contextPrefix")
        return ApiReply(page(call, [one for one in self._registry.contexts() if one.startswith(prefix)]))

    async def delete_context(self, call: ApiCall) -> ApiReply:
        await self._registry.delete_context(context_prefix(call.path["context"]).strip(":") or DEFAULT_CONTEXT)
        return ApiReply(status=204)
