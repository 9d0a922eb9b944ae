"""Security towards a real ZooKeeper: TLS, logins by digest, and nodes that only brokers may read or change."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from moldau.broker.assembly import open_zookeeper
from moldau.cli.zookeeper.server import ZooKeeperEnsemble, ZooKeeperServer
from moldau.cluster.security_nodes import SECRET_FOLDERS
from moldau.cluster.store import Create, Set, Store, StoreError
from moldau.cluster.zookeeper_security import is_secret
from moldau.settings import BrokerSettings, SettingError
from tests.support.certificates import Authority
from tests.unit.cluster.support import run

pytestmark = pytest.mark.needs_java

DIGEST = "brokers:digest-secret"
SECRET = next(folder for folder in SECRET_FOLDERS if "config" not in folder)


class SecureServer(ZooKeeperServer):
    """A server that also has a TLS port, and wants a certificate there."""

    secure_port = 0
    lines: tuple[str, ...] = ()

    def _configuration(self) -> str:
        return super()._configuration() + "\n".join([*self.lines, ""])


class SecureEnsemble(ZooKeeperEnsemble):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.authority = Authority()
        self.trust = self.authority.write_pem(directory / "ca.pem")
        self.key = self.authority.issue("CN=broker").write_pem(directory / "broker.pem")
        store = self.authority.issue("CN=zookeeper").write_pem(directory / "zookeeper.pem")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.secure_port = probe.getsockname()[1]
        server = self.servers[0]
        server.__class__ = SecureServer
        assert isinstance(server, SecureServer)
        server.lines = (
            f"secureClientPort={self.secure_port}",
            "secureClientPortAddress=127.0.0.1",
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            f"ssl.keyStore.location={store}",
            "ssl.keyStore.type=PEM",
            f"ssl.trustStore.location={self.trust}",
            "ssl.trustStore.type=PEM",
            "ssl.clientAuth=need",
        )


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureEnsemble]:
    with SecureEnsemble(tmp_path_factory.mktemp("secure-zookeeper")) as running:
        assert isinstance(running, SecureEnsemble)
        yield running


def settings_of(ensemble: SecureEnsemble, chroot: str, **others: str) -> BrokerSettings:
    names = {name.replace("_", "."): value for name, value in others.items()}
    return BrokerSettings(
        {
            "zookeeper.connect": f"{ensemble.connect}/{chroot}",
            "zookeeper.session.timeout.ms": "4000",
            "moldau.zookeeper.digest": DIGEST,
            **names,
        }
    )


def with_tls(ensemble: SecureEnsemble, chroot: str, **others: str) -> BrokerSettings:
    return settings_of(
        ensemble,
        chroot,
        **{
            "zookeeper_connect": f"localhost:{ensemble.secure_port}/{chroot}",
            "zookeeper_ssl_client_enable": "true",
            "zookeeper_ssl_truststore_location": str(ensemble.trust),
            "zookeeper_ssl_keystore_location": str(ensemble.key),
            **others,
        },
    )


async def opened(settings: BrokerSettings) -> Store:
    return await open_zookeeper(settings)()


def stranger(ensemble: SecureEnsemble, digest: str = "") -> KazooClient:
    client = KazooClient(ensemble.connect, auth_data=[("digest", digest)] if digest else None)
    client.start(10)
    return client


async def write_nodes(store: Store) -> None:
    folders: dict[str, None] = {}
    for path in (f"{SECRET}/alice", "/topics/orders"):
        parts = path.split("/")[1:]
        for count in range(1, len(parts) + 1):
            folders["/" + "/".join(parts[:count])] = None
    await store.commit([Create(path, b"value", False) for path in folders])


def denied(client: KazooClient, path: str) -> bool:
    try:
        client.get(path)
    except NoAuthError:
        return True
    return False


def read_only(client: KazooClient, path: str) -> bool:
    try:
        client.set(path, b"changed")
    except NoAuthError:
        return True
    return False


def test_secrets_are_for_the_brokers_only(ensemble: SecureEnsemble) -> None:
    async def steps() -> None:
        store = await opened(settings_of(ensemble, "secrets"))
        await write_nodes(store)
        await store.close()
        other = await opened(settings_of(ensemble, "secrets"))
        found = await other.get(f"{SECRET}/alice")
        assert found is not None and found.value == b"value"
        await other.commit([Set(f"{SECRET}/alice", b"another", found.version)])
        await other.close()

    run(steps())
    for client in (stranger(ensemble), stranger(ensemble, "brokers:wrong")):
        try:
            assert denied(client, f"/secrets{SECRET}/alice")
            with pytest.raises(NoAuthError):
                client.get_children(f"/secrets{SECRET}")
            with pytest.raises(NoAuthError):
                client.delete(f"/secrets{SECRET}/alice")
            assert client.get("/secrets/topics/orders")[0] == b"value"
        finally:
            client.stop()
            client.close()


def test_a_broker_without_the_digest_is_told(ensemble: SecureEnsemble) -> None:
    async def steps() -> None:
        store = await opened(settings_of(ensemble, "told"))
        await write_nodes(store)
        await store.close()
        refusal = r"no permission.*moldau\.zookeeper\.digest"
        with pytest.raises(StoreError, match=refusal) as error:
            await opened(settings_of(ensemble, "told", moldau_zookeeper_digest="brokers:wrong-digest"))
        assert "wrong-digest" not in str(error.value)
        other = await opened(settings_of(ensemble, "told", moldau_zookeeper_digest=""))
        try:
            with pytest.raises(StoreError, match=refusal):
                await other.get(f"{SECRET}/alice")
        finally:
            await other.close()

    run(steps())


def test_set_acl_closes_every_node_to_changes(ensemble: SecureEnsemble) -> None:
    async def steps() -> None:
        store = await opened(settings_of(ensemble, "closed", zookeeper_set_acl="true"))
        await write_nodes(store)
        await store.close()

    run(steps())
    client = stranger(ensemble)
    try:
        assert denied(client, f"/closed{SECRET}/alice")
        assert client.get("/closed/topics/orders")[0] == b"value"
        assert read_only(client, "/closed/topics/orders") and read_only(client, "/closed")
    finally:
        client.stop()
        client.close()


def test_secrets_from_before_the_login_are_closed(ensemble: SecureEnsemble) -> None:
    async def steps(digest: str) -> None:
        store = await opened(settings_of(ensemble, "before", moldau_zookeeper_digest=digest))
        if not digest:
            await write_nodes(store)
        await store.close()

    run(steps(""))
    client = stranger(ensemble)
    try:
        assert not denied(client, f"/before{SECRET}/alice")
        run(steps(DIGEST))
        assert denied(client, f"/before{SECRET}/alice")
    finally:
        client.stop()
        client.close()


def test_a_store_works_over_tls(ensemble: SecureEnsemble) -> None:
    async def steps() -> None:
        store = await opened(with_tls(ensemble, "tls"))
        await write_nodes(store)
        many = [Create(f"/topics/t{number}", b"x" * 2_000, False) for number in range(300)]
        await store.commit(many)
        found = await store.read_children("/topics")
        assert len(found) == 301 and all(len(node.value) in (5, 2_000) for node in found.values())
        await store.close()

    run(steps())


def test_wrong_certificates_are_told(ensemble: SecureEnsemble, tmp_path: Path) -> None:
    another = Authority("another")
    trust = another.write_pem(tmp_path / "ca.pem")
    short = {"zookeeper_connection_timeout_ms": "1500"}

    async def told(settings: BrokerSettings) -> str:
        with pytest.raises(StoreError) as error:
            await opened(settings)
        return str(error.value)

    assert "does not trust" in run(told(with_tls(ensemble, "x", zookeeper_ssl_truststore_location=str(trust), **short)))
    plain = f"localhost:{ensemble.servers[0].port}/x"
    assert "no TLS connection" in run(told(with_tls(ensemble, "x", zookeeper_connect=plain, **short)))


def test_settings_that_cannot_work_are_refused(ensemble: SecureEnsemble, tmp_path: Path) -> None:
    missing = {"zookeeper_ssl_keystore_location": str(tmp_path / "missing.pem")}
    with pytest.raises(SettingError, match=r"^zookeeper\.ssl\.keystore\.location: "):
        open_zookeeper(with_tls(ensemble, "x", **missing))
    with pytest.raises(SettingError, match=r"^zookeeper\.set\.acl: needs a login"):
        open_zookeeper(settings_of(ensemble, "x", moldau_zookeeper_digest="", zookeeper_set_acl="true"))
    with pytest.raises(SettingError, match=r"^moldau\.zookeeper\.digest: is not of the form") as error:
        open_zookeeper(settings_of(ensemble, "x", moldau_zookeeper_digest="digest-secret"))
    assert "digest-secret" not in str(error.value)


def test_only_the_marked_folders_are_secret() -> None:
    assert all(is_secret(folder) and is_secret(f"{folder}/x") for folder in SECRET_FOLDERS)
    assert not is_secret("/topics/x") and not is_secret(f"{SECRET}-others") and not is_secret("/")
