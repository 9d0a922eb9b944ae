"""References in settings: environment variables and files, and errors that keep what they found."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.host.reference_files import MAX_REFERENCE_BYTES, read_reference_file
from moldau.settings import SettingError
from moldau.settings.references import resolve, resolve_all

ENVIRONMENT = {"PASSWORD": "s3cret", "EMPTY": "", "NESTED": "${env:PASSWORD}"}


def resolved(text: str) -> str:
    return resolve("sasl.jaas.config", text, ENVIRONMENT, read_reference_file)


def test_a_value_without_reference_stays_as_it_is() -> None:
    for text in ("plain", "", "$", "${", "${}", "${other:x}", "$PASSWORD", "${PASSWORD}"):
        assert resolved(text) == text


def test_environment_variables_are_inserted_anywhere_in_a_value() -> None:
    assert resolved('m.M required password="${env:PASSWORD}" x="${env:EMPTY}";') == (
        'm.M required password="s3cret" x="";'
    )


def test_what_a_reference_stands_for_is_not_resolved_again() -> None:
    assert resolved("${env:NESTED}") == "${env:PASSWORD}"


def test_a_file_is_inserted_without_its_last_line_break(tmp_path: Path) -> None:
    (tmp_path / "a:b").mkdir()
    file = tmp_path / "a:b" / "secret"
    file.write_bytes(b"two\nlines \n")
    assert resolved(f"${{file:{file}}}") == "two\nlines "
    file.write_bytes(b"windows\r\n")
    assert resolved(f"${{file:{file}}}") == "windows"


def test_an_entry_of_a_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "secrets.properties"
    file.write_text("key.password = s3cret\nother=1\n")
    assert resolved(f"<${{file:{file}:key.password}}>") == "<s3cret>"
    with pytest.raises(SettingError, match="no such entry") as caught:
        resolved(f"${{file:{file}:absent}}")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("text", ["${env:ABSENT}", "${file:/no/such/file}", "${file:/}", "${file:}"])
def test_a_reference_to_nothing_is_an_error_that_names_the_setting(text: str) -> None:
    with pytest.raises(SettingError, match=r"sasl\.jaas\.config: refers to"):
        resolve_all({"sasl.jaas.config": f"s3cret {text}"}, ENVIRONMENT, read_reference_file)


def test_a_file_that_is_no_text_or_too_large_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingError, match="UTF-8"):
        resolved(f"${{file:{file}}}")
    file.write_bytes(b"x" * (MAX_REFERENCE_BYTES + 1))
    with pytest.raises(SettingError, match="more than"):
        resolved(f"${{file:{file}}}")
