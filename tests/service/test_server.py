"""The server of a service: addresses, ports in use, TLS, clean stops, exit codes."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from moldau.cli.serve import describe
from moldau.service import server as server_module
from moldau.service.app import service_app
from moldau.service.http_settings import HttpAddress, HttpSettings, http_settings, parse_listener
from moldau.service.login import PasswordFile, hashed
from moldau.service.metrics import HttpMetrics
from moldau.service.server import HttpServer
from moldau.settings.setting import SettingError
from tests.service.http_services import LOOPBACK, ask, http, served, status_of
from tests.support.certificates import Authority
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]

# -- addresses beyond loopback -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["http://:8083", "http://0.0.0.0:8083", "http://[::]:1", "http://10.0.0.1:1", "http://box:1"]
)
def test_an_address_beyond_loopback_is_refused_without_a_login(text: str) -> None:
    with pytest.raises(SettingError, match=r"moldau\.http\.password\.file .*http-user.* or listen on 127\.0\.0\.1"):
        HttpSettings((parse_listener(text),)).check()


@pytest.mark.parametrize(
    "text", ["http://127.0.0.1:0", "http://localhost:8083", "http://[::1]:8083", "HTTP://127.1.2.3:5"]
)
def test_loopback_needs_no_login(text: str) -> None:
    HttpSettings((parse_listener(text),)).check()


def test_a_login_opens_addresses_beyond_loopback() -> None:
    HttpSettings((parse_listener("http://:8083"),), password_file="/users").check()


def test_required_certificates_are_a_login_for_https_only(tmp_path: Path) -> None:
    tls = http_settings(_values("https://0.0.0.0:1", **{"ssl.client.auth": "required"})).tls
    assert tls is not None and tls.client_auth == "required"
    with pytest.raises(SettingError, match="no login is configured"):
        http_settings(_values("https://0.0.0.0:1,http://0.0.0.0:2", **{"ssl.client.auth": "required"}))
    with pytest.raises(SettingError, match="no login is configured"):
        http_settings(_values("https://0.0.0.0:1", **{"ssl.client.auth": "requested"}))


def _values(listeners: str, **more: str) -> dict[str, object]:
    return {
        "listeners": tuple(listeners.split(",")),
        "access.control.allow.origin": (),
        "access.control.allow.methods": (),
        "moldau.http.allowed.hosts": (),
        "moldau.http.password.file": None,
        "moldau.http.max.body.bytes": 1,
        "moldau.http.request.timeout.ms": 1,
        **more,
    }


@pytest.mark.parametrize("text", ["127.0.0.1:8083", "ftp://127.0.0.1:1", "http://127.0.0.1", "http://127.0.0.1:70000"])
def test_a_malformed_listener_is_named(text: str) -> None:
    with pytest.raises(SettingError, match=r"listeners: .*is not of the form http://HOST:PORT"):
        parse_listener(text)


# -- ports and sockets -------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_a_clear_error() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            settings = HttpSettings((LOOPBACK, HttpAddress("http", "127.0.0.1", port)))
            server = HttpServer(settings)
            app = service_app([], settings, metrics=HttpMetrics("small"))
            with pytest.raises(OSError, match="in use") as caught:
                await server.start(app)
            assert caught.value.errno == errno.EADDRINUSE
            assert f"cannot listen on 127.0.0.1:{port}: process {os.getpid()}" in describe(caught.value)
            await server.stop()

    asyncio.run(run())


def test_connections_send_an_answer_without_waiting_for_the_client() -> None:
    """With Nagle's algorithm, the body of an answer waits 40 ms for the acknowledgement of its headers."""
    server = HttpServer(HttpSettings((LOOPBACK,)))
    server.bind()
    try:
        listening = server._sockets[0]
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    finally:
        server._close_sockets()


def test_a_host_that_does_not_exist_is_a_clear_error() -> None:
    settings = HttpSettings((HttpAddress("http", "no-such-host.invalid", 1),), password_file="x")
    with pytest.raises(OSError, match=r"no-such-host\.invalid:1"):
        HttpServer(settings).bind()


def test_all_addresses_are_served() -> None:
    async def run() -> None:
        wanted = [LOOPBACK, HttpAddress("http", "::1", 0)] if socket.has_dualstack_ipv6() else [LOOPBACK] * 2
        settings = HttpSettings(tuple(wanted))
        server = HttpServer(settings)
        app = service_app([], settings, metrics=HttpMetrics("small"))
        await server.start(app)
        async with httpx.AsyncClient(trust_env=False) as client:
            answers = [await client.get(f"{address.url}/metrics") for address in server.addresses]
        assert [answer.status_code for answer in answers] == [200, 200]
        await server.stop()

    asyncio.run(run())


def test_tls_with_a_certificate_of_an_authority(tmp_path: Path) -> None:
    issued = Authority().issue("localhost")
    keystore = issued.write_pem(tmp_path / "server.pem")

    async def run() -> None:
        values = _values("https://127.0.0.1:0", **{"listeners.https.ssl.keystore.location": str(keystore)})
        tls = http_settings(values).tls
        async with served(addresses=(HttpAddress("https", "127.0.0.1", 0),), tls=tls) as (_, address):
            context = ssl.create_default_context(cadata=issued.authority_pem)
            async with httpx.AsyncClient(trust_env=False, verify=context) as client:
                assert (await client.get(f"https://localhost:{address.port}/thing")).status_code == 200
            async with httpx.AsyncClient(trust_env=False) as stranger:
                with pytest.raises(httpx.ConnectError):
                    await stranger.get(f"https://localhost:{address.port}/thing")

    asyncio.run(run())


# -- stops -------------------------------------------------------------------------------------------------------------


def test_requests_in_flight_finish_when_the_service_stops() -> None:
    async def run() -> None:
        async with served() as (service, address):
            answer = asyncio.create_task(ask(address, http("GET", "/slow")))
            await service.began.wait()
            asyncio.get_running_loop().call_later(0.2, service.may_finish.set)
        assert status_of(await answer) == 200
        with pytest.raises(ConnectionRefusedError):
            await ask(address, http("GET", "/thing"))

    asyncio.run(run())


def test_a_request_that_never_ends_does_not_stop_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "STOP_TIMEOUT_S", 1.0)

    async def run() -> None:
        async with asyncio.timeout(8), served() as (service, address):
            answer = asyncio.create_task(ask(address, http("GET", "/slow")))
            await service.began.wait()
        await answer

    asyncio.run(run())


PROGRAM = """
import asyncio, sys
from moldau.service.server import HttpServer, banner_lines, run_process
from moldau.service.http_settings import HttpAddress, HttpSettings
from moldau.service.app import service_app
from moldau.service.metrics import HttpMetrics

async def main(stop):
    settings = HttpSettings((HttpAddress("http", "127.0.0.1", 0),))
    server = HttpServer(settings)
    app = service_app([], settings, metrics=HttpMetrics("small"))
    await server.start(app)
    print("\\n".join(banner_lines("small", server.addresses)), flush=True)
    await stop.wait()
    await server.stop()
    if sys.argv[1] == "hang":
        print("hanging", flush=True)
        await asyncio.Event().wait()
    return 0

sys.exit(run_process(main))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_process_with_exit_code_0(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, "end"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"Moldau small is ready on http://127.0.0.1:")
        process.send_signal(number)
        assert process.wait(10) == 0


def test_a_second_signal_ends_a_process_that_hangs() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, "hang"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        assert lines[1].startswith(b"  try     curl http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == b"hanging\n"
        process.send_signal(signal.SIGTERM)
        assert wait_until(process.poll, "its end") == 130


# -- password files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no user"),
        ("# nobody\n", "has no user"),
        ("alice:secret\n", "line 1 is not NAME:scrypt"),
        (f"{hashed('x')}\n", "line 1 is not NAME:scrypt"),
        (f"a:{hashed('x')}\nbob\n", "line 2 is not NAME:scrypt"),
    ],
)
def test_a_wrong_password_file_is_a_clear_error_without_the_secret(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "users"
    path.write_text(text)
    with pytest.raises(SettingError, match=problem) as caught:
        PasswordFile(str(path))
    assert "secret" not in str(caught.value)


def test_a_missing_password_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="the password file cannot be read: No such file"):
        PasswordFile(str(tmp_path / "users"))


def test_a_hash_that_would_take_all_memory_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "users"
    for parameters in (f"{1 << 30}$8$1", "16384$100000$1", "3$8$1", "x$8$1"):
        path.write_text(f"alice:scrypt${parameters}$AAAA$AAAA\n")
        header = "Basic YWxpY2U6eA=="
        assert asyncio.run(PasswordFile(str(path)).user(header)) is None
