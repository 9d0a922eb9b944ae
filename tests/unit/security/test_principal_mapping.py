"""Names in certificates, and the rules that make principals of them."""

from __future__ import annotations

import pytest

from moldau.security.principal_mapping import NoMatchingRule, distinguished_name, mapped_name, parse_mapping_rules

ADMIN = "CN=kafka-admin,OU=admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown"
RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, DEFAULT"
)


def mapped(name: str, rules: str) -> str:
    return mapped_name(name, parse_mapping_rules(rules))


def test_the_first_rule_that_matches_counts() -> None:
    assert mapped("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", RULES) == "serviceuser"
    assert mapped(ADMIN.replace("kafka-admin", "Kafka-Admin"), RULES) == "kafka-admin@admin"
    assert mapped("CN=other,O=x", RULES) == "CN=other,O=x"


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", "CN=a", "CN=a"),
        ("", "CN=a", "CN=a"),
        ("RULE:CN=(.*)/$1/U", "CN=a", "A"),
        ("RULE:CN=(.*)/$1/L", "CN=ABC", "abc"),
        ("RULE:CN=(.*)/x$1y$1/", "CN=a", "xaya"),
        (r"RULE:CN=(.*)/\$1/", "CN=a", "$1"),
        ("RULE:CN=(.*)/$2$1/", "CN=a", "$2a"),
        (r"RULE:CN=(a\/b)/$1/", "CN=a/b", "a/b"),
        ("RULE:CN=(a,b)/$1/", "CN=a,b", "a,b"),
        ("RULE:CN=(x)?.*/<$1>/", "CN=a", "<>"),
        ("RULE:CN=b/b/\nRULE:CN=a/found/", "CN=a", "found"),
    ],
)
def test_rules(rules: str, name: str, principal: str) -> None:
    assert mapped(name, rules) == principal


def test_a_name_that_no_rule_matches_is_refused() -> None:
    for rules in ("RULE:CN=(.*),OU=x/$1/", "RULE:CN=/x/"):
        with pytest.raises(NoMatchingRule):
            mapped("CN=a,OU=y", rules)


@pytest.mark.parametrize(
    "rules", ["default", "RULE:a/b", "RULE:a", "RULE:(/x/", "DEFAULT DEFAULT", "RULE:a/b/X", "x,DEFAULT"]
)
def test_malformed_rules_are_an_error(rules: str) -> None:
    with pytest.raises(ValueError, match=r"rule|pattern"):
        parse_mapping_rules(rules)


def test_names_are_written_as_java_writes_them() -> None:
    subject = (
        (("countryName", "CZ"),),
        (("organizationName", 'Moldau, "Inc" <+;\\>'),),
        (("organizationalUnitName", " edge "),),
        (("commonName", "#alice"), ("userId", "a1")),
    )
    assert distinguished_name(subject) == (
        'CN=\\#alice+UID=a1,OU=\\ edge\\ ,O=Moldau\\, \\"Inc\\" \\<\\+\\;\\\\\\>,C=CZ'
    )


def test_attributes_without_short_name_are_numbers_with_encoded_values() -> None:
    assert distinguished_name(((("emailAddress", "a@b"),),)) == "1.2.840.113549.1.9.1=#1603614062"
    assert distinguished_name(((("serialNumber", "7"),),)) == "2.5.4.5=#130137"
    assert distinguished_name(((("1.2.3.4", "x" * 200),),)).startswith("1.2.3.4=#0c81c878")
