from __future__ import annotations

import pytest

from moldau.connect.herder.errors import BadRequestError
from moldau.connect.herder.results import ConnectorOffset, TargetState
from moldau.connect.rest.request_bodies import CreateRequest, parse_config, parse_create, parse_level, parse_offsets


def test_numbers_and_booleans_become_the_text_that_was_sent() -> None:
    assert parse_config(b'{"a": 1, "b": 1.50, "c": true, "d": "x", "e": null, "f": 1e3}') == {
        "a": "1",
        "b": "1.50",
        "c": "true",
        "d": "x",
        "e": None,
        "f": "1e3",
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "The request has no body"),
        (b"  ", "The request has no body"),
        (b"{", "no valid JSON"),
        (b"\xff", "no valid JSON"),
        (b"[" * 100_000, "no valid JSON"),
        (b'{"a": NaN}', "no valid JSON: NaN is no number"),
        (b"null", "The body of the request is null; an object is expected"),
        (b"[]", "The body of the request is a list"),
        (b'"x"', "The body of the request is a text"),
        (b"5", "The body of the request is a number"),
        (b"true", "The body of the request is a boolean"),
        (b'{"a": []}', 'The value of "a" is a list; a text is expected'),
        (b'{"a": {}}', 'The value of "a" is an object; a text is expected'),
    ],
)
def test_a_body_that_is_no_configuration_is_refused_with_the_place_of_the_mistake(content: bytes, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        parse_config(content)


def test_a_connector_is_created_with_name_config_and_state() -> None:
    content = b'{"name": " a ", "config": {"x": 1}, "initial_state": "Stopped"}'
    assert parse_create(content) == CreateRequest("a", {"x": "1"}, TargetState.STOPPED)
    assert parse_create(b'{"config": {}}') == CreateRequest("", {}, None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", 'no field "config"'),
        (b'{"config": null}', 'no field "config"'),
        (b'{"config": []}', 'The field "config" is a list'),
        (b'{"config": {}, "name": {}}', 'The field "name" is an object'),
        (
            b'{"config": {}, "initial_state": "SLEEPING"}',
            "Unknown initial_state SLEEPING; it is one of RUNNING, PAUSED",
        ),
        (b'{"config": {}, "colour": 1}', 'Unrecognized field "colour"'),
    ],
)
def test_a_wrong_body_of_a_new_connector_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        parse_create(content)


def test_offsets_keep_their_numbers() -> None:
    content = b'{"offsets": [{"partition": {"f": "x"}, "offset": {"p": 12345678901}}, {"partition": {"f": 1}}]}'
    assert parse_offsets(content) == [ConnectorOffset({"f": "x"}, {"p": 12345678901}), ConnectorOffset({"f": 1}, None)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", "Partitions / offsets need to be provided"),
        (b'{"offsets": []}', "Partitions / offsets need to be provided"),
        (b'{"offsets": {}}', 'The field "offsets" is an object; a list is expected'),
        (b'{"offsets": [1]}', r"offsets\[0\] is a number"),
        (b'{"offsets": [{"partition": "x"}]}', r"offsets\[0\]\.partition is a text"),
        (b'{"offsets": [{"partition": {}, "offset": 1}]}', r"offsets\[0\]\.offset is a number"),
        (b'{"offsets": [{"partition": {}, "ofset": {}}]}', 'Unrecognized field "ofset"'),
        (b'{"offset": []}', 'Unrecognized field "offset"'),
    ],
)
def test_wrong_offsets_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        parse_offsets(content)


def test_a_level_is_required() -> None:
    assert parse_level(b'{"level": "debug"}') == "debug"
    with pytest.raises(BadRequestError, match="Desired 'level' parameter was not specified"):
        parse_level(b'{"niveau": "debug"}')
