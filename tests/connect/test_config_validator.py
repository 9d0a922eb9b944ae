from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from moldau.client.errors import MoldauError
from moldau.connect.built_in_plugins import Kind
from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType
from moldau.connect.config_validator import ConfigValidator
from moldau.connect.connector import SourceConnector
from moldau.connect.herder.errors import BadRequestError, RequestTimedOutError
from moldau.connect.herder.results import ValidationResult
from moldau.connect.plugins import Plugin, Plugins
from moldau.host.threads import Threads

answered = threading.Event()


class SlowSource(SourceConnector):
    config_def = ConfigDef([ConfigKey("login", ConfigType.STRING, "Login.", None)])

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        assert threading.current_thread() is not threading.main_thread()
        if config["login"] == "slow":
            answered.wait(30)
        return {}


PLUGINS = Plugins([Plugin(Kind.SOURCE, "SlowSource", f"{__name__}:SlowSource")])
CONFIG = {"name": "a", "connector.class": "SlowSource", "login": "${env:LOGIN}"}


def resolve_to(value: str) -> Any:
    return lambda config: {name: text.replace("${env:LOGIN}", value) for name, text in config.items()}


def validated(resolve: Any, config: Mapping[str, str | None] = CONFIG, timeout_s: float = 30.0) -> ValidationResult:
    async def run() -> ValidationResult:
        threads = Threads()
        try:
            return await ConfigValidator(threads, resolve, plugins=PLUGINS, timeout_s=timeout_s)(config)
        finally:
            answered.set()
            await threads.close()

    return asyncio.run(run())


def test_a_check_runs_in_a_thread_with_resolved_values_that_are_not_shown() -> None:
    found = validated(resolve_to("geheim"))
    assert found.error_count == 0
    assert "geheim" not in str(found)
    assert "${env:LOGIN}" in str(found)


def test_a_check_that_does_not_end_is_given_up() -> None:
    answered.clear()
    with pytest.raises(RequestTimedOutError, match=r"took longer than 0\.05 s"):
        validated(resolve_to("slow"), timeout_s=0.05)


def test_a_reference_that_cannot_be_resolved_is_the_mistake_of_the_request() -> None:
    def fail(config: Mapping[str, str]) -> Mapping[str, str]:
        raise MoldauError("no variable LOGIN")

    with pytest.raises(BadRequestError, match="no variable LOGIN"):
        validated(fail)


def test_a_null_stays_a_null() -> None:
    found = validated(resolve_to("x"), {**CONFIG, "login": None})
    assert list(found.errors) == ["login"]
