"""Config providers: what is resolved, what is refused, and what is never told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moldau.connect.config_def import ConfigError
from moldau.connect.config_providers import ConfigProviders, EnvVarConfigProvider, config_providers

PACKAGE = "org.apache.kafka.common.config.provider"


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "db.properties").write_text("user=alice\npassword=hun:ter=2\nempty=\nnested=${file:/x:y}\n")
    (tmp_path / "allowed" / "token").write_text("line one\nline two\n")
    (tmp_path / "outside.properties").write_text("password=stolen\n")
    (tmp_path / "allowed" / "link.properties").symlink_to(tmp_path / "outside.properties")
    return tmp_path


def providers(secrets: Path, **more: str) -> ConfigProviders:
    allowed = str(secrets / "allowed")
    return config_providers(
        {
            "config.providers": "file, dir,env",
            "config.providers.file.class": f"{PACKAGE}.FileConfigProvider",
            "config.providers.file.param.allowed.paths": allowed,
            "config.providers.dir.class": f"{PACKAGE}.DirectoryConfigProvider",
            "config.providers.dir.param.allowed.paths": allowed,
            "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider",
            "config.providers.env.param.allowlist.pattern": "MOLDAU_TEST_.*",
        }
        | {name.replace("_", "."): text for name, text in more.items()}
    )


def test_references_are_replaced(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLDAU_TEST_HOST", "db.example")
    file = f"{secrets}/allowed/db.properties"
    found = providers(secrets).resolve(
        {
            "url": f"jdbc:x://${{env:MOLDAU_TEST_HOST}}/?user=${{file:{file}:user}}&password=${{file:{file}:password}}",
            "token": f"${{dir:{secrets}/allowed:token}}",
            "empty": f"${{file:{file}:empty}}",
            "plain": "no reference",
            "not one": "${} ${x} ${other:key} $file",
            "once": f"${{file:{file}:nested}}",
        }
    )
    assert found == {
        "url": "jdbc:x://db.example/?user=alice&password=hun:ter=2",
        "token": "line one\nline two\n",
        "empty": "",
        "plain": "no reference",
        "not one": "${} ${x} ${other:key} $file",
        "once": "${file:/x:y}",
    }


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("${file:{0}/allowed/db.properties:nothing}", "has no entry 'nothing'"),
        ("${file:{0}/allowed/none.properties:x}", "cannot be read: No such file"),
        ("${file:{0}/outside.properties:password}", "outside of allowed.paths"),
        ("${file:{0}/allowed/../outside.properties:password}", "outside of allowed.paths"),
        ("${file:{0}/allowed/link.properties:password}", "outside of allowed.paths"),
        ("${file:{0}/allowed:x}", "cannot be read: Is a directory"),
        ("${file:password}", "a path is missing"),
        ("${dir:{0}:outside.properties}", "outside of allowed.paths"),
        ("${dir:{0}/allowed:../outside.properties}", "is not the name of a file"),
        ("${dir:{0}/allowed:/etc/passwd}", "is not the name of a file"),
        ("${dir:{0}/allowed:..}", "is not the name of a file"),
        ("${dir:token}", "a directory is missing"),
        ("${env:PATH}", "no environment variable 'PATH', or allowlist.pattern"),
        ("${env:MOLDAU_TEST_NOTHING}", "no environment variable"),
        ("${env:/path:MOLDAU_TEST_HOST}", "have no path"),
    ],
)
def test_a_reference_that_cannot_be_resolved_names_the_setting_and_no_secret(
    secrets: Path, reference: str, problem: str
) -> None:
    text = reference.replace("{0}", str(secrets))
    with pytest.raises(ConfigError, match=f"database.password: .*{problem}") as caught:
        providers(secrets).resolve({"database.password": text})
    assert "stolen" not in str(caught.value)
    assert "hun:ter" not in str(caught.value)
    assert os.environ["PATH"] not in str(caught.value)


def test_a_file_that_is_not_text_or_too_large_is_refused(secrets: Path) -> None:
    (secrets / "allowed" / "binary").write_bytes(b"\xff\xfe\x00")
    (secrets / "allowed" / "large").write_bytes(b"x" * (1024 * 1024 + 1))
    for name, problem in (("binary", "not UTF-8"), ("large", "has more than")):
        with pytest.raises(ConfigError, match=problem):
            providers(secrets).resolve({"x": f"${{dir:{secrets}/allowed:{name}}}"})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"config_providers_file_class": ""}, "config.providers.file.class is missing; known are FileConfigProvider"),
        ({"config_providers_file_class": "com.example.Vault"}, "com.example.Vault is not known; known are"),
        ({"config_providers_file_param_allowed_paths": "relative"}, "allowed.paths: relative is not absolute"),
        ({"config_providers_env_param_allowlist_pattern": "("}, "is not a regular expression"),
    ],
)
def test_wrong_providers_are_refused(secrets: Path, changes: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        providers(secrets, **changes)


def test_without_providers_references_stay() -> None:
    assert config_providers({}).resolve({"a": "${env:PATH}"}) == {"a": "${env:PATH}"}


def test_an_empty_list_of_paths_allows_nothing(secrets: Path) -> None:
    found = providers(secrets, config_providers_file_param_allowed_paths="")
    with pytest.raises(ConfigError, match=r"outside of allowed\.paths"):
        found.resolve({"a": f"${{file:{secrets}/allowed/db.properties:user}}"})


def test_the_whole_name_of_a_variable_must_match() -> None:
    provider = EnvVarConfigProvider({"allowlist.pattern": "A"}, {"A": "1", "AB": "2"})
    assert provider("", "A") == "1"
    with pytest.raises(LookupError):
        provider("", "AB")
