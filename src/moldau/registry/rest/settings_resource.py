"""Endpoints `/config`, `/mode` and `/contexts`: compatibility levels, modes, and names of contexts."""

from __future__ import annotations

from typing import Final

from moldau.registry.registry import Registry
from moldau.registry.rest.bodies import mode_of
from moldau.registry.rest.body_schemas import ANY_OBJECT, STRING, array, reference
from moldau.registry.rest.endpoint import ApiCall, ApiReply, flag, operation, page, word
from moldau.registry.rest.parameters import DEFAULT_TO_GLOBAL, PAGE
from moldau.registry.rest.paths import DEFAULT_CONTEXT, context_prefix

CONFIG: Final = reference("Config")
UPDATE: Final = reference("ConfigUpdate")
MODE: Final = reference("Mode")
INVALID: Final = (42203, 42205, 42210)
FORCE: Final = flag("force", "Change to IMPORT even if there are schemas.")
RECURSIVE: Final = flag("recursive", "Also the modes of all subjects of the context.")
CONTEXT_PREFIX: Final = word("contextPrefix", "Only contexts that begin with it.")


class SettingsResource:
    """Handlers of the endpoints. A path without a subject means the whole registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    @operation("GET /config", "getGlobalConfig", "Compatibility level of the registry", CONFIG, (DEFAULT_TO_GLOBAL,))
    @operation(
        "GET /config/{subject}",
        "getConfig",
        "Compatibility level of a subject or context",
        CONFIG,
        (DEFAULT_TO_GLOBAL,),
        errors=(40408,),
    )
    async def config(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        found = self._registry.config(call.path.get("subject"), default_to_global=call.flag("defaultToGlobal"))
        return ApiReply(found)

    @operation(
        "PUT /config",
        "setGlobalConfig",
        "Change the compatibility level of the registry",
        UPDATE,
        (),
        body=UPDATE,
        errors=INVALID,
    )
    @operation(
        "PUT /config/{subject}",
        "setConfig",
        "Change the compatibility level of a subject",
        UPDATE,
        (),
        body=UPDATE,
        errors=(*INVALID, 42208),
    )
    async def set_config(self, call: ApiCall) -> ApiReply:
        return ApiReply(await self._registry.set_config(call.path.get("subject"), call.json_object()))

    @operation("DELETE /config", "deleteGlobalConfig", "Return to the default", CONFIG, errors=(42205,))
    @operation(
        "DELETE /config/{subject}",
        "deleteConfig",
        "Return to the level of the registry",
        CONFIG,
        (),
        errors=(40401, 42205),
    )
    async def delete_config(self, call: ApiCall) -> ApiReply:
        return ApiReply(await self._registry.delete_config(call.path.get("subject")))

    @operation("GET /mode", "getGlobalMode", "Mode of the registry", MODE, (DEFAULT_TO_GLOBAL,))
    @operation(
        "GET /mode/{subject}", "getMode", "Mode of a subject or context", MODE, (DEFAULT_TO_GLOBAL,), errors=(40409,)
    )
    async def mode(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        found = self._registry.mode(call.path.get("subject"), default_to_global=call.flag("defaultToGlobal"))
        return ApiReply({"mode": found})

    @operation(
        "PUT /mode",
        "setGlobalMode",
        "Change the mode of the registry",
        MODE,
        (FORCE,),
        body=MODE,
        errors=(42204, 42205),
    )
    @operation(
        "PUT /mode/{subject}",
        "setMode",
        "Change the mode of a subject or context",
        MODE,
        (FORCE,),
        body=MODE,
        errors=(42204, 42205, 42208),
    )
    async def set_mode(self, call: ApiCall) -> ApiReply:
        mode = mode_of(call.json_object())
        return ApiReply(
            {"mode": await self._registry.set_mode(call.path.get("subject"), mode, force=call.flag("force"))}
        )

    @operation(
        "DELETE /mode", "deleteGlobalMode", "Return to the default", ANY_OBJECT, (RECURSIVE,), errors=(40401, 42205)
    )
    @operation(
        "DELETE /mode/{subject}",
        "deleteMode",
        "Return to the mode of the registry",
        ANY_OBJECT,
        (RECURSIVE,),
        errors=(40401, 42205),
    )
    async def delete_mode(self, call: ApiCall) -> ApiReply:
        found = await self._registry.delete_mode(call.path.get("subject"), recursive=call.flag("recursive"))
        return ApiReply({} if found is None else {"mode": found})

    @operation("GET /contexts", "getContexts", "Contexts", array(STRING), (CONTEXT_PREFIX, *PAGE))
    async def contexts(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        prefix = call.text("contextPrefix")
        return ApiReply(page(call, [one for one in self._registry.contexts() if one.startswith(prefix)]))

    @operation(
        "DELETE /contexts/{context}", "deleteContext", "Delete an empty context", {}, errors=(400, 42211), status=204
    )
    async def delete_context(self, call: ApiCall) -> ApiReply:
        await self._registry.delete_context(context_prefix(call.path["context"]).strip(":") or DEFAULT_CONTEXT)
        return ApiReply(status=204)
