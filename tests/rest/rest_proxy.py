"""A REST proxy for tests: in a thread of this process, with an HTTP client for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from moldau.rest.proxy import RestProxy
from moldau.rest.rest_settings import RestSettings, rest_settings

TIMEOUT_S = 60.0


class ServedProxy:
    """A proxy that runs. `http` is a client whose base URL is the proxy's."""

    def __init__(self, proxy: RestProxy, cluster_id: str) -> None:
        self.proxy = proxy
        self.url = proxy.addresses[0].url
        self.http = httpx.Client(base_url=self.url, timeout=TIMEOUT_S)
        self.cluster_id = cluster_id
        self._clients: dict[tuple[str, str], httpx.Client] = {}

    @property
    def cluster(self) -> str:
        return f"/v3/clusters/{self.cluster_id}"

    def client(self, user: str, password: str) -> httpx.Client:
        """A client that logs in as this user."""
        login = (user, password)
        if login not in self._clients:
            self._clients[login] = httpx.Client(base_url=self.url, timeout=TIMEOUT_S, auth=login)
        return self._clients[login]

    def close(self) -> None:
        for client in (self.http, *self._clients.values()):
            client.close()


def proxy_settings(settings: Mapping[str, Any]) -> RestSettings:
    """Settings on a free port."""
    given = {"listeners": "http://127.0.0.1:0", **settings}
    return rest_settings(assignments=[f"{name}={value}" for name, value in given.items()])


@contextmanager
def served(settings: Mapping[str, Any], cluster_id: str = "") -> Iterator[ServedProxy]:
    """A proxy with these settings. Its event loop runs in a thread, as the broker's does."""
    started: list[RestProxy | BaseException] = []
    ready, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        proxy = RestProxy(proxy_settings(settings))

        def tell(_: object) -> None:
            started.append(proxy)
            ready.set()

        await proxy.run(stop, tell)

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            started.append(error)
            ready.set()

    thread = threading.Thread(target=run, name="REST proxy")
    thread.start()
    assert ready.wait(TIMEOUT_S)
    found = started[0]
    if isinstance(found, BaseException):
        thread.join()
        raise found
    served_proxy = ServedProxy(found, cluster_id)
    try:
        if not cluster_id and settings.get("authentication.method") != "BASIC":
            served_proxy.cluster_id = served_proxy.http.get("/v3/clusters").json()["data"][0]["cluster_id"]
        yield served_proxy
    finally:
        served_proxy.close()
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
        if isinstance(started[-1], BaseException):
            raise started[-1]
