"""Validation of configurations for a worker: config providers, the worker's rules, and a thread to wait in.

`validation.py` decides. A connector's own check may look at files and databases: it runs in a thread, and with a limit,
so that a database that does not answer cannot occupy the worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from moldau.client.errors import MoldauError
from moldau.connect.herder.errors import BadRequestError, RequestTimedOutError
from moldau.connect.herder.results import ValidationResult
from moldau.connect.plugins import Plugins
from moldau.connect.validation import WorkerRules, validate
from moldau.host.threads import Threads

CHECK_TIMEOUT_S: Final = 60.0

Resolve = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Replaces references to config providers by their values."""


class ConfigValidator:
    """What a herder calls to validate a configuration."""

    def __init__(
        self,
        threads: Threads,
        resolve: Resolve,
        rules: WorkerRules | None = None,
        *,
        plugins: Plugins | None = None,
        timeout_s: float = CHECK_TIMEOUT_S,
    ) -> None:
        self._threads = threads
        self._resolve = resolve
        self._rules = rules
        self._plugins = plugins
        self._timeout_s = timeout_s

    async def __call__(self, config: Mapping[str, str | None]) -> ValidationResult:
        """Raises BadRequestError for a reference that cannot be resolved, RequestTimedOutError for a slow check."""
        lane = str(config.get("connector.class"))
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._threads.run(lane, self._validated, config)
        except TimeoutError:
            raise RequestTimedOutError(
                f"Request timed out. The check of the configuration took longer than {self._timeout_s:g} s"
            ) from None

    def _validated(self, config: Mapping[str, str | None]) -> ValidationResult:
        given = {name: text for name, text in config.items() if text is not None}
        try:
            values = self._resolve(given)
        except MoldauError as error:
            raise BadRequestError(f"Could not resolve the configuration: {error}") from error
        resolved = {name: values.get(name) for name in config}
        return validate(config, resolved=resolved, plugins=self._plugins, rules=self._rules)
