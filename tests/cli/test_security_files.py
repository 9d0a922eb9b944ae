"""`moldau security init` and `certificate`: what is written, who may read it, and what is refused."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from moldau.cli.main import app
from moldau.security.certificates import hosts_of
from moldau.security.initial_users import read_user
from moldau.security.jaas import parse_login_module
from moldau.settings.sources import read_properties

WITHOUT_SECRETS = {"ca.pem"}


def security(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["security", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("secured") / "security"
    code, _, problem = security("init", directory, "--broker", "kafka1,10.0.0.1", "--broker", "kafka2")
    assert (code, problem) == (0, "")
    return directory


def test_only_the_owner_can_read_secrets(made: Path) -> None:
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in made.iterdir()}
    assert {name for name, mode in modes.items() if mode != 0o600} == WITHOUT_SECRETS


def test_each_broker_has_a_certificate_for_its_hosts(made: Path) -> None:
    for number, hosts in enumerate(({"kafka1", "10.0.0.1"}, {"kafka2"})):
        context = ssl.create_default_context(cafile=made / "ca.pem")
        context.load_cert_chain(made / f"broker-{number}.pem")
        decoded = ssl._ssl._test_decode_cert(str(_certificate_only(made / f"broker-{number}.pem")))  # type: ignore[attr-defined]
        assert {value for _, value in decoded["subjectAltName"]} == hosts


def _certificate_only(path: Path) -> Path:
    """The first certificate of a PEM file in a file of its own, for the decoder of the standard library."""
    text = path.read_text()
    alone = path.parent.parent / f"{path.stem}-certificate.pem"
    alone.write_text(text[text.index("-----BEGIN CERTIFICATE") :])
    return alone


def test_users_have_keys_of_the_passwords_in_the_client_settings(made: Path) -> None:
    users = read_properties((made / "users.properties").read_text())
    assert set(users) == {"admin", "user", "broker"}
    for name in ("admin", "user"):
        settings = read_properties((made / f"{name}.properties").read_text())
        login = parse_login_module(settings["sasl.jaas.config"])
        assert login.options["username"] == name
        assert login.options["password"] not in (made / "users.properties").read_text()
        assert read_user(name, users[name])


def test_brokers_deny_by_default(made: Path) -> None:
    settings = read_properties((made / "broker-1.properties").read_text())
    assert settings["ssl.keystore.location"] == str(made / "broker-1.pem")
    assert settings["super.users"] == "User:admin;User:broker"
    assert "allow.everyone.if.no.acl.found" not in settings


def test_a_second_init_changes_nothing(made: Path) -> None:
    before = {path: path.read_bytes() for path in made.iterdir()}
    code, _, problem = security("init", made)
    assert code == 1
    assert "exists already" in problem
    assert {path: path.read_bytes() for path in made.iterdir()} == before


def test_passwords_are_not_printed(tmp_path: Path) -> None:
    code, printed, problem = security("init", tmp_path / "new")
    assert code == 0
    for name in ("admin", "user"):
        settings = read_properties((tmp_path / "new" / f"{name}.properties").read_text())
        assert parse_login_module(settings["sasl.jaas.config"]).options["password"] not in printed + problem


@pytest.mark.parametrize(
    ("brokers", "address"),
    [((), "127.0.0.1:9092"), (("--broker", "kafka1,10.0.0.1", "--broker", "kafka2"), "kafka1:9092")],
)
def test_the_commands_that_are_shown_have_an_address_of_the_certificate(
    tmp_path: Path, brokers: tuple[str, ...], address: str
) -> None:
    _, printed, _ = security("init", tmp_path / "new", *brokers)
    assert f"listeners=SASL_SSL://{address}" in printed
    assert printed.count(f"-b {address}") == 2
    assert address.partition(":")[0] in hosts_of((tmp_path / "new" / "broker-0.pem").read_text())


def test_a_certificate_is_renewed(tmp_path: Path) -> None:
    assert security("init", tmp_path / "new")[0] == 0
    before = (tmp_path / "new" / "broker-0.pem").read_text()
    code, printed, _ = security("certificate", tmp_path / "new", "--number", 0, "--hosts", "kafka9")
    assert (code, "kafka9" in printed) == (0, True)
    assert (tmp_path / "new" / "broker-0.pem").read_text() != before


def test_a_renewed_certificate_is_for_the_same_hosts(tmp_path: Path) -> None:
    assert security("init", tmp_path / "new", "--broker", "kafka1,10.0.0.1")[0] == 0
    code, printed, _ = security("certificate", tmp_path / "new", "--number", 0)
    assert (code, "is for kafka1, 10.0.0.1" in printed) == (0, True)
    assert hosts_of((tmp_path / "new" / "broker-0.pem").read_text()) == ["kafka1", "10.0.0.1"]


def test_a_damaged_certificate_is_renewed_for_this_machine(tmp_path: Path) -> None:
    assert security("init", tmp_path / "new", "--broker", "kafka1")[0] == 0
    (tmp_path / "new" / "broker-0.pem").write_text("damaged")
    code, printed, _ = security("certificate", tmp_path / "new", "--number", 0)
    assert (code, "is for localhost, 127.0.0.1" in printed) == (0, True)


def test_a_certificate_needs_an_authority(tmp_path: Path) -> None:
    code, _, problem = security("certificate", tmp_path, "--number", 0)
    assert code == 1
    assert "ca.pem is missing" in problem
