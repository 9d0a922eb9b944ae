"""JDBC URLs: what is understood, what is refused, and that no message shows a password."""

from __future__ import annotations

import pytest

from moldau.connect.config_def import ConfigError
from moldau.connect.connectors.databases.jdbc_url import DatabaseAddress, parse_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("jdbc:sqlite:/data/shop.db", DatabaseAddress("sqlite", "/data/shop.db")),
        ("jdbc:sqlite:file:shop.db", DatabaseAddress("sqlite", "shop.db")),
        ("jdbc:postgresql://h/shop", DatabaseAddress("postgresql", "shop", (("h", 5432),), "u", "p")),
        ("jdbc:postgresql:shop", DatabaseAddress("postgresql", "shop", (("localhost", 5432),), "u", "p")),
        (
            "jdbc:postgresql://a:1,b:2/shop?currentSchema=sales&sslmode=require",
            DatabaseAddress("postgresql", "shop", (("a", 1), ("b", 2)), "u", "p", {"sslmode": "require"}, "sales"),
        ),
        ("jdbc:postgresql://[::1]:7/shop", DatabaseAddress("postgresql", "shop", (("::1", 7),), "u", "p")),
        ("jdbc:mysql://h:3307/shop?useUnicode=true", DatabaseAddress("mysql", "shop", (("h", 3307),), "u", "p")),
        ("jdbc:mariadb://h/my%20shop", DatabaseAddress("mariadb", "my shop", (("h", 3306),), "u", "p")),
    ],
)
def test_urls_are_understood(url: str, expected: DatabaseAddress) -> None:
    login = (None, None) if url.startswith("jdbc:sqlite") else ("u", "p")
    assert parse_url(url, *login) == expected


def test_a_login_in_the_url_is_used_where_the_settings_have_none() -> None:
    url = "jdbc:postgresql://h/shop?user=inner&password=secret%26"
    assert (parse_url(url).user, parse_url(url).password) == ("inner", "secret&")
    assert (parse_url(url, "outer", "other").user, parse_url(url, "outer", "other").password) == ("outer", "other")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql://h/shop", "not a JDBC URL"),
        ("jdbc:oracle:thin:@h:1521:shop", "not supported"),
        ("jdbc:sqlite::memory:", "names no file"),
        ("jdbc:sqlite:x.db?mode=ro", "none are supported"),
        ("jdbc:postgresql://u:secret@h/shop", r"connection\.user and connection\.password"),
        ("jdbc:postgresql://h:port/shop", "not a number"),
        ("jdbc:postgresql://h/", "names no database"),
        ("jdbc:mysql://a,b/shop", "several hosts"),
        ("jdbc:postgresql://h/shop?sslpassword=secret", "parameter sslpassword"),
        ("jdbc:mysql://h/shop?password=secret&allowLoadLocalInfile=true", "parameter allowLoadLocalInfile"),
    ],
)
def test_urls_are_refused_with_a_reason(url: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        parse_url(url)
    assert "secret" not in str(caught.value).replace("sslpassword", "")


def test_an_address_shows_no_password() -> None:
    address = parse_url("jdbc:postgresql://h/shop?password=secret1", "u", "secret2")
    assert "secret" not in repr(address) + address.shown
