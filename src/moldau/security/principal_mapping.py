"""Principals of TLS clients: names in certificates, and the rules that shorten them.

The name is written as Java writes it (RFC 2253): most specific part first, no blanks after commas, and attributes
without a short name as a number with the value in hexadecimal. So rules that were written for Kafka match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from moldau.settings.listener_overrides import ListenerSettings
from moldau.settings.setting import SettingError

_SHORT_NAMES: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
_NUMBERS: Final = {
    "businessCategory": "2.5.4.15",
    "description": "2.5.4.13",
    "dnQualifier": "2.5.4.46",
    "emailAddress": "1.2.840.113549.1.9.1",
    "generationQualifier": "2.5.4.44",
    "givenName": "2.5.4.42",
    "initials": "2.5.4.43",
    "name": "2.5.4.41",
    "postalCode": "2.5.4.17",
    "pseudonym": "2.5.4.65",
    "serialNumber": "2.5.4.5",
    "surname": "2.5.4.4",
    "title": "2.5.4.12",
    "unstructuredName": "1.2.840.113549.1.9.2",
}
_IA5, _PRINTABLE, _UTF8 = 0x16, 0x13, 0x0C
_STRING_TYPES: Final = {"emailAddress": _IA5, "dnQualifier": _PRINTABLE, "serialNumber": _PRINTABLE}
"""The type of value that the standards require. `ssl` does not tell the type; others are nearly always UTF-8."""

_SPECIAL = re.compile(r'([,+"\\<>;])')
_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:[,\n]|$)")
_REPLACEMENT = re.compile(r"\\(.)|\$(\d)", re.DOTALL)


class NoMatchingRule(ValueError):
    """No rule matches the name in a certificate. The client is refused."""


class MappingRule(NamedTuple):
    """One rule. Without a pattern it is `DEFAULT`: the name as it is."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        result = _REPLACEMENT.sub(lambda part: _replaced(part, match), self.replacement)
        return {"L": result.lower(), "U": result.upper()}.get(self.case, result)


def parse_mapping_rules(text: str) -> tuple[MappingRule, ...]:
    """The rules of `ssl.principal.mapping.rules`; ValueError if the text has something else."""
    rules, position = [], 0
    text = text.strip()
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None:
            raise ValueError(
                f"the rule at character {position + 1} is neither DEFAULT nor RULE:pattern/replacement/ with L or U"
            )
        default, pattern, replacement, case = match.groups()
        rules.append(MappingRule(None if default else _compiled(pattern), replacement or "", case or ""))
        position = match.end()
    return tuple(rules) or (MappingRule(None, "", ""),)


def listener_rules(settings: ListenerSettings) -> tuple[MappingRule, ...]:
    """The rules of a listener; SettingError if they are malformed."""
    try:
        return parse_mapping_rules(settings["ssl.principal.mapping.rules"])
    except ValueError as error:
        raise SettingError("ssl.principal.mapping.rules", str(error)) from None


def mapped_name(name: str, rules: Iterable[MappingRule]) -> str:
    """The name of the principal: the result of the first rule that matches. NoMatchingRule if none does."""
    for rule in rules:
        if (result := rule.apply(name)) is not None:
            return result
    raise NoMatchingRule(f"no rule of ssl.principal.mapping.rules matches {name}")


def distinguished_name(subject: Sequence[Sequence[tuple[str, str]]]) -> str:
    """The subject of a certificate, as `ssl` returns it, in RFC 2253."""
    return ",".join("+".join(_attribute(*pair) for pair in parts) for parts in reversed(subject))


def _attribute(kind: str, value: str) -> str:
    if kind in _SHORT_NAMES:
        return f"{_SHORT_NAMES[kind]}={_escaped(value)}"
    data = value.encode()
    size = len(data)
    length = bytes([size]) if size < 0x80 else bytes([0x80 | (size.bit_length() + 7) // 8])
    if size >= 0x80:
        length += size.to_bytes((size.bit_length() + 7) // 8, "big")
    encoded = bytes([_STRING_TYPES.get(kind, _UTF8)]) + length + data
    return f"{_NUMBERS.get(kind, kind)}=#{encoded.hex()}"


def _escaped(value: str) -> str:
    value = _SPECIAL.sub(r"\\\1", value)
    if value[:1] in ("#", " "):
        value = "\\" + value
    if len(value) > 1 and value.endswith(" ") and not value.endswith("\\ "):
        value = value[:-1] + "\\ "
    return value


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern.replace("\\/", "/"))
    except re.error as error:
        raise ValueError(f"the pattern {pattern} is not a regular expression: {error}") from None


def _replaced(part: re.Match[str], match: re.Match[str]) -> str:
    if part[2] is None:
        return part[1]
    number = int(part[2])
    if number > match.re.groups:
        return part[0]
    return match[number] or ""
