"""JAAS configurations: the forms that people write, and errors that keep secrets."""

from __future__ import annotations

import pytest

from moldau.security.jaas import JaasError, parse_jaas_file, parse_login_module, parse_login_modules

PLAIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" '
    'password="admin-secret" user_alice="alice secret; {x}";'
)


def test_a_setting_has_a_login_module_with_options() -> None:
    module = parse_login_module(PLAIN)
    assert module.simple_name == "PlainLoginModule"
    assert module.control_flag == "required"
    assert module.options == {"username": "admin", "password": "admin-secret", "user_alice": "alice secret; {x}"}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r'"a\"b"', 'a"b'),
        (r'"a\\b"', "a\\b"),
        (r'"a\nb"', "a\nb"),
        (r'"\101\60"', "A0"),
        ("'single \"quoted\"'", 'single "quoted"'),
        ("unquoted/with:marks$_-.", "unquoted/with:marks$_-."),
        ('""', ""),
        ('"grüße 密码"', "grüße 密码"),
        ('"// no comment"', "// no comment"),
    ],
)
def test_values_of_options(written: str, value: str) -> None:
    assert parse_login_module(f"m.Module REQUIRED option={written} ;").options == {"option": value}


def test_a_file_has_sections_and_comments() -> None:
    sections = parse_jaas_file(
        """
        // for clients
        KafkaServer {
            a.PlainLoginModule required  # the first
              user_a="1";
            b.ScramLoginModule sufficient;
        };
        /* and
           back */
        KafkaClient { c.Module optional username = "x" ; };
        """
    )
    assert [module.simple_name for module in sections["KafkaServer"]] == ["PlainLoginModule", "ScramLoginModule"]
    assert sections["KafkaClient"][0].options == {"username": "x"}
    assert sections["KafkaServer"][1].control_flag == "sufficient"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "m.Module",
        "m.Module required",
        "m.Module required s3cret",
        "m.Module required s3cret=",
        "m.Module required s3cret=;",
        'm.Module required x="s3cret',
        'm.Module required x="s3cret" ',
        'm.Module s3cret x="s3cret";',
        'm.Module required x = = "s3cret";',
        'm.Module required x="s3cret"; }',
        '= required x="s3cret";',
        'm.Module required; n.Module required x="s3cret";',
    ],
)
def test_a_malformed_setting_is_an_error_without_its_secrets(text: str) -> None:
    with pytest.raises(JaasError) as caught:
        parse_login_module(text)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["S", "S {", "S { m.M required; }", "S { m.M required };", "S {}; S {};", "{};", "S {} x"]
)
def test_a_malformed_file_is_an_error(text: str) -> None:
    with pytest.raises(JaasError):
        parse_jaas_file(text)


def test_a_login_module_does_not_show_its_options() -> None:
    assert "secret" not in repr(parse_login_modules(PLAIN)) + str(parse_login_modules(PLAIN))


def test_a_long_text_takes_linear_time() -> None:
    options = " ".join(f'user_{number}="{"p" * 50}"' for number in range(20_000))
    assert len(parse_login_module(f"m.M required {options};").options) == 20_000
