"""Names that Protobuf derives from the names of fields and enum values."""

from __future__ import annotations


def json_name(name: str) -> str:
    """The name of a field in JSON: without underscores, the letter after each one in upper case."""
    out: list[str] = []
    upper = False
    for letter in name:
        if letter == "_":
            upper = True
        else:
            out.append(_upper(letter) if upper else letter)
            upper = False
    return "".join(out)


def map_entry_name(name: str) -> str:
    """The name of the message that holds one entry of a map field."""
    camel = json_name(name)
    return (camel if name.startswith("_") else _upper(camel[:1]) + camel[1:]) + "Entry"


def enum_value_short_name(value: str, enum: str) -> str:
    """The name of an enum value as some languages show it: without the name of the enum in front, in camel case."""
    return _pascal(_without_prefix(value, enum))


def _without_prefix(value: str, enum: str) -> str:
    prefix = enum.replace("_", "").lower()
    index = matched = 0
    while index < len(value) and matched < len(prefix):
        if value[index] != "_":
            if value[index].lower() != prefix[matched]:
                return value
            matched += 1
        index += 1
    if matched < len(prefix):
        return value
    rest = value[index:].lstrip("_")
    return rest or value


def _pascal(name: str) -> str:
    out: list[str] = []
    upper = True
    for letter in name:
        if letter == "_":
            upper = True
        else:
            out.append(letter.upper() if upper else letter.lower())
            upper = False
    return "".join(out)


def _upper(letter: str) -> str:
    return letter.upper() if letter.isascii() else letter
