"""TLS contexts: what two sides agree on, whom they refuse, and what a wrong setting says."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from moldau.net.tls_context import TLS_1_3_SUITES, client_context, openssl_name, server_context
from moldau.net.tls_settings import TlsSettings
from moldau.settings.setting import SettingError
from tests.support.certificates import Authority, Certificate, self_signed

PASSWORD = "pass-word-of-a-key"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Certificate:
    return authority.issue("broker")


def inline(certificate: Certificate, **others: str) -> TlsSettings:
    return TlsSettings(keystore_key=certificate.key_pem(), keystore_certificate_chain=certificate.chain_pem)._replace(
        **others  # type: ignore[arg-type]
    )


def handshake(server: TlsSettings, client: TlsSettings, host: str = "localhost") -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both sides after the handshake, in memory. Raises the first error."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client_context(client).wrap_bio(to_client, to_server, server_hostname=host),
        server_context(server).wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(6):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    client_side, server_side = sides
    server_side.write(b"!")  # with TLS 1.3 the client learns of a refused certificate only now
    client_side.read(1)
    return server_side, client_side


def trusting(authority: Authority, **others: str) -> TlsSettings:
    return TlsSettings(truststore_certificates=authority.pem)._replace(**others)  # type: ignore[arg-type]


# -- stores ----------------------------------------------------------------------------------------------------------


def test_inline_pem_serves_a_client_that_trusts_its_authority(authority: Authority, broker: Certificate) -> None:
    server, client = handshake(inline(broker), trusting(authority))
    assert server.version() == client.version() == "TLSv1.3"


def test_inline_pem_on_one_line_is_accepted(authority: Authority, broker: Certificate) -> None:
    tls = TlsSettings(
        keystore_key=broker.key_pem().replace("\n", " "),
        keystore_certificate_chain=broker.chain_pem.replace("\n", " "),
    )
    handshake(tls, trusting(authority, truststore_certificates=authority.pem.replace("\n", " ")))


@pytest.mark.parametrize("password", ["", PASSWORD])
def test_one_pem_file_holds_key_and_chain(
    authority: Authority, broker: Certificate, tmp_path: Path, password: str
) -> None:
    store = broker.write_pem(tmp_path / "broker.pem", password)
    trust = authority.write_pem(tmp_path / "ca.pem")
    server = TlsSettings(keystore_location=str(store), keystore_type="PEM", key_password=password)
    handshake(server, TlsSettings(truststore_location=str(trust), truststore_type="PEM"))


@pytest.mark.parametrize("declared", ["PKCS12", "JKS", ""])
def test_pkcs12_is_read_by_its_content(
    authority: Authority, broker: Certificate, tmp_path: Path, declared: str
) -> None:
    store = broker.write_pkcs12(tmp_path / "broker.p12", PASSWORD)
    trust = authority.write_pkcs12(tmp_path / "trust.p12", PASSWORD)
    server = TlsSettings(keystore_location=str(store), keystore_type=declared, keystore_password=PASSWORD)
    handshake(server, TlsSettings(truststore_location=str(trust), truststore_password=PASSWORD))


@pytest.mark.needs_java
def test_a_jks_file_is_refused_with_the_command_that_converts_it(authority: Authority, tmp_path: Path) -> None:
    keytool = shutil.which("keytool")
    assert keytool is not None
    store = tmp_path / "broker.jks"
    where = ["-keystore", str(store), "-storetype", "JKS", "-storepass", PASSWORD, "-keypass", PASSWORD]
    who = ["-alias", "a", "-dname", "CN=localhost", "-keyalg", "EC", "-ext", "san=dns:localhost"]
    subprocess.run([keytool, "-genkeypair", *where, *who], check=True, capture_output=True)
    with pytest.raises(SettingError) as refused:
        server_context(TlsSettings(keystore_location=str(store), keystore_password=PASSWORD))
    message = str(refused.value)
    assert message.startswith("ssl.keystore.location: ")
    command = message[message.index("keytool ") : message.index(", and use")].split()
    passwords = ["-srcstorepass", PASSWORD, "-deststorepass", PASSWORD]
    subprocess.run([keytool, *command[1:], *passwords], check=True, capture_output=True)
    converted = TlsSettings(keystore_location=str(tmp_path / "broker.p12"), keystore_password=PASSWORD)
    der = handshake(converted, TlsSettings(truststore_certificates=pem_of(converted)))[1].getpeercert(True)
    assert der


def pem_of(tls: TlsSettings) -> str:
    """The own certificate of a server, which trusts itself here."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server)
    server = server_context(tls).wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    der = client.getpeercert(binary_form=True)
    assert der is not None
    return ssl.DER_cert_to_PEM_cert(der)


# -- refused peers ---------------------------------------------------------------------------------------------------


def refused(server: TlsSettings, client: TlsSettings, host: str = "localhost") -> str:
    with pytest.raises(ssl.SSLError) as error:
        handshake(server, client, host)
    return str(error.value)


def test_a_client_refuses_wrong_servers(authority: Authority) -> None:
    trust = trusting(authority)
    assert "expired" in refused(inline(authority.expired()), trust)
    assert "not yet valid" in refused(inline(authority.not_yet_valid()), trust)
    assert "self-signed" in refused(inline(self_signed()), trust)
    assert "self-signed certificate in certificate chain" in refused(inline(Authority("another").issue()), trust)
    assert "Hostname mismatch" in refused(inline(authority.issue(hosts=("elsewhere",))), trust)
    assert "IP address mismatch" in refused(inline(authority.issue(hosts=("localhost",))), trust, "127.0.0.1")


def test_a_client_refuses_the_certificate_of_another_authority_even_without_a_host_name_check(
    authority: Authority,
) -> None:
    unchecked = trusting(authority, endpoint_identification_algorithm="")
    handshake(inline(authority.issue(hosts=("elsewhere",))), unchecked)
    assert "CERTIFICATE_VERIFY_FAILED" in refused(inline(Authority("another").issue()), unchecked)


def test_without_a_trust_store_the_operating_systems_authorities_count(broker: Certificate) -> None:
    assert "CERTIFICATE_VERIFY_FAILED" in refused(inline(broker), TlsSettings())


def test_client_certificates_are_ignored_requested_or_required(authority: Authority, broker: Certificate) -> None:
    alice = authority.issue("CN=alice,OU=tests")
    with_key = trusting(authority, keystore_key=alice.key_pem(), keystore_certificate_chain=alice.chain_pem)
    stranger = Authority("another").issue("mallory")
    strange = trusting(authority, keystore_key=stranger.key_pem(), keystore_certificate_chain=stranger.chain_pem)

    def listener(client_auth: str) -> TlsSettings:
        return inline(broker, truststore_certificates=authority.pem, client_auth=client_auth)

    assert handshake(listener("none"), with_key)[0].getpeercert() is None
    assert handshake(listener("requested"), trusting(authority))[0].getpeercert() is None
    assert handshake(listener("requested"), with_key)[0].getpeercert()
    assert handshake(listener("required"), with_key)[0].getpeercert()
    assert "did not return a certificate" in refused(listener("required"), trusting(authority))
    for client_auth in ("requested", "required"):
        assert "CERTIFICATE_VERIFY_FAILED" in refused(listener(client_auth), strange)


def test_a_certificate_for_servers_is_no_client_certificate(authority: Authority, broker: Certificate) -> None:
    from cryptography.x509.oid import ExtendedKeyUsageOID

    server_only = authority.issue("mallory", usages=(ExtendedKeyUsageOID.SERVER_AUTH,))
    client = trusting(authority, keystore_key=server_only.key_pem(), keystore_certificate_chain=server_only.chain_pem)
    listener = inline(broker, truststore_certificates=authority.pem, client_auth="required")
    assert "unsuitable certificate purpose" in refused(listener, client)


def test_a_trusted_certificate_needs_no_root_authority(authority: Authority, broker: Certificate) -> None:
    own = broker.chain_pem[: broker.chain_pem.index("-----END CERTIFICATE-----")] + "-----END CERTIFICATE-----"
    handshake(inline(broker), TlsSettings(truststore_certificates=own))


# -- versions and ciphers --------------------------------------------------------------------------------------------


def test_only_enabled_protocols_are_used(authority: Authority, broker: Certificate) -> None:
    older = inline(broker)._replace(enabled_protocols=("TLSv1.2",))
    newer = trusting(authority)._replace(enabled_protocols=("TLSv1.3",))
    assert handshake(older, trusting(authority))[0].version() == "TLSv1.2"
    assert handshake(inline(broker), newer)[0].version() == "TLSv1.3"
    assert "UNSUPPORTED_PROTOCOL" in refused(older, newer)


@pytest.mark.parametrize("protocols", [("TLSv1.1",), ("TLSv1", "TLSv1.2"), ("SSLv3",), ()])
def test_broken_versions_of_tls_are_refused(broker: Certificate, protocols: tuple[str, ...]) -> None:
    with pytest.raises(SettingError, match=r"^ssl\.enabled\.protocols: .*TLSv1\.2, TLSv1\.3"):
        server_context(inline(broker)._replace(enabled_protocols=protocols))


def test_cipher_suites_have_javas_names(authority: Authority, broker: Certificate) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    server, _ = handshake(inline(broker)._replace(cipher_suites=(suite,)), trusting(authority))
    assert server.version() == "TLSv1.2"  # the list has no suite of TLS 1.3
    cipher = server.cipher()
    assert cipher is not None and cipher[0] == openssl_name(suite) == "ECDHE-ECDSA-AES256-GCM-SHA384"
    both = inline(broker)._replace(cipher_suites=(suite, *TLS_1_3_SUITES))
    assert handshake(both, trusting(authority))[0].version() == "TLSv1.3"


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_openssl_knows_the_converted_name(suite: str, name: str) -> None:
    assert openssl_name(suite) == name
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(name)


@pytest.mark.parametrize("suites", [("TLS_NO_SUCH_SUITE",), ("TLS_AES_256_GCM_SHA384",)])
def test_cipher_suites_that_cannot_be_used_are_refused(broker: Certificate, suites: tuple[str, ...]) -> None:
    with pytest.raises(SettingError, match=r"^ssl\.cipher\.suites: "):
        server_context(inline(broker)._replace(cipher_suites=suites))


# -- errors ----------------------------------------------------------------------------------------------------------


def problem(tls: TlsSettings) -> str:
    with pytest.raises(SettingError) as error:
        server_context(tls)
    message = str(error.value)
    assert PASSWORD not in message and "wrong-password" not in message and "PRIVATE KEY-----\nM" not in message
    assert error.value.__cause__ is None or isinstance(error.value.__cause__, OSError)
    return message


def test_errors_name_the_setting_and_the_file(authority: Authority, broker: Certificate, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    assert problem(TlsSettings()).startswith("ssl.keystore.location: is not set")
    assert problem(TlsSettings(keystore_location=missing)) == (
        f"ssl.keystore.location: the file {missing} cannot be read: No such file or directory"
    )
    (tmp_path / "empty").touch()
    assert "is empty" in problem(TlsSettings(keystore_location=str(tmp_path / "empty")))
    (tmp_path / "garbage").write_bytes(b"garbage")
    assert "neither PEM nor PKCS12" in problem(TlsSettings(keystore_location=str(tmp_path / "garbage")))
    assert "is a directory" in problem(TlsSettings(keystore_location=str(tmp_path))).lower()
    trust = authority.write_pem(tmp_path / "ca.pem")
    assert "has no private key" in problem(TlsSettings(keystore_location=str(trust)))
    assert problem(inline(broker, prefix="listener.name.internal.", truststore_location=missing)).startswith(
        "listener.name.internal.ssl.truststore.location: "
    )
    assert "ssl.keystore.key: is missing" in problem(TlsSettings(keystore_certificate_chain=broker.chain_pem))
    assert "has no certificate" in problem(inline(broker, truststore_certificates="nothing"))
    assert "JKS, PKCS12, PEM" in problem(inline(broker, keystore_type="BKS"))
    assert "ssl.client.auth: " in problem(inline(broker, client_auth="maybe"))
    assert "needs the authorities" in problem(inline(broker, client_auth="requested"))


def test_wrong_passwords_are_named_but_not_shown(broker: Certificate, tmp_path: Path) -> None:
    encrypted = broker.write_pem(tmp_path / "broker.pem", PASSWORD)
    store = broker.write_pkcs12(tmp_path / "broker.p12", PASSWORD)
    assert problem(TlsSettings(keystore_location=str(encrypted))).startswith("ssl.key.password: is not set")
    assert "check the password" in problem(TlsSettings(keystore_location=str(encrypted), key_password="wrong-password"))
    wrong = TlsSettings(keystore_location=str(store), keystore_password="wrong-password")
    assert "ssl.keystore.password is wrong" in problem(wrong)


def test_a_key_of_another_certificate_is_refused(authority: Authority, broker: Certificate) -> None:
    mixed = TlsSettings(keystore_key=authority.issue().key_pem(), keystore_certificate_chain=broker.chain_pem)
    assert "does not belong to the first certificate" in problem(mixed)


def test_no_secret_is_in_the_text_of_the_settings(broker: Certificate) -> None:
    tls = inline(broker, key_password=PASSWORD, keystore_password=PASSWORD, truststore_password=PASSWORD)
    assert PASSWORD not in repr(tls) and "PRIVATE" not in repr(tls) and PASSWORD not in f"{tls}"


def test_an_unknown_way_to_identify_hosts_is_refused() -> None:
    with pytest.raises(SettingError, match=r"^ssl\.endpoint\.identification\.algorithm: 'LDAP'"):
        client_context(TlsSettings(endpoint_identification_algorithm="LDAP"))
