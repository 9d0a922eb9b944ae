"""Message generator: its output is current, and errors in definitions name file and line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.wire.schema import ROOT
from tools.notation import DefinitionError, Parser


def generate(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "tools" / "generate.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the definitions that a test may damage."""
    ignore = shutil.ignore_patterns("__pycache__")
    for part in ("definitions", "tools", "src/moldau/wire"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=ignore)
    return tmp_path


def test_the_committed_files_match_the_definitions() -> None:
    done = generate(ROOT, "--check")
    assert done.returncode == 0, done.stderr


def test_check_names_every_file_that_is_stale_missing_or_extra_and_changes_nothing(copy: Path) -> None:
    messages = copy / "src/moldau/wire/messages"
    stale = (messages / "fetch.py").read_text() + "\n# changed by hand\n"
    (messages / "fetch.py").write_text(stale)
    (messages / "produce.py").unlink()
    (messages / "gossip.py").write_text("")
    done = generate(copy, "--check")
    assert done.returncode == 1
    for line in ("stale: messages/fetch.py", "missing: messages/produce.py", "extra: messages/gossip.py"):
        assert f"generate: {line}\n" in done.stderr
    assert "run `python tools/generate.py`" in done.stderr
    assert (messages / "fetch.py").read_text() == stale
    assert not (messages / "produce.py").exists()

    assert generate(copy).returncode == 0
    assert not (messages / "gossip.py").exists()
    assert generate(copy, "--check").returncode == 0


def test_a_definition_that_cannot_be_read_is_an_error_with_its_place(copy: Path) -> None:
    path = copy / "definitions" / "12_heartbeat.def"
    path.write_text(path.read_text().replace("generation_id      int32", "generation_id      int33"))
    done = generate(copy, "--check")
    assert done.returncode == 2
    assert done.stderr == "generate: 12_heartbeat.def:9: unknown type 'int33'\n"


HEAD = "# Says something.\n\napi 7 Thing\nversions 0-3\nflexible 2+\n\nrequest\n"
TAIL = "\nresponse\n  error_code  int16\n"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("  name  strin\n", "8: unknown type 'strin'"),
        ("  name  string 5+\n", "8: no version of ThingRequest carries name"),
        ("  name  string 3-2\n", "8: '3-2' is an empty range of versions"),
        ("  name  string 1+  tag 0\n", "8: a tagged field needs flexible versions"),
        ("  name  string  = null\n", "8: the default is null, but the type is not nullable"),
        ("  count  int32?\n", "8: int32 cannot be null"),
        ("  names  []bool\n", "8: arrays of bool do not exist"),
        ("  name  string\n  name  string\n", "9: name is defined twice"),
        ("  topics  []Topic\n", "8: ThingRequestTopic has no fields"),
        ("  topics  []Topic\n    id  uuid  1+\n", "ThingRequestTopic has no fields in version 0"),
        (
            "  topics  []Topic\n    id  uuid\n  others  []Topic\n    id  uuid\n",
            "10: ThingRequestTopic is defined twice",
        ),
        ("  topics  []Topic\n      id  uuid\n", "9: not a field: 'id  uuid'"),
        ("  Name  string\n", "8: not a field: 'Name  string'"),
        ("  name\n", "8: not a field: 'name'"),
    ],
)
def test_a_mistake_in_a_definition_is_named_with_its_line(tmp_path: Path, fields: str, message: str) -> None:
    path = tmp_path / "07_thing.def"
    path.write_text(HEAD + fields + TAIL)
    with pytest.raises(DefinitionError) as caught:
        Parser(path).parse()
    assert str(caught.value).startswith("07_thing.def:")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("api 7 Thing\n", "must start with a comment"),
        ("# Says something.\n\napi Thing\n", "expected 'api KEY Name' or 'data Name'"),
        ("# Says something.\n\napi 7 Thing\nflexible 2+\n", "expected 'versions …'"),
        (HEAD.replace("Thing", "Other") + "  name  string\n" + TAIL, "does not match the file name"),
        (HEAD + "  name  string\n", "expected 'response'"),
    ],
)
def test_a_definition_without_its_parts_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "07_thing.def"
    path.write_text(text)
    with pytest.raises(DefinitionError, match=message):
        Parser(path).parse()


def test_a_struct_used_twice_exists_in_the_versions_of_both_uses(tmp_path: Path) -> None:
    path = tmp_path / "07_thing.def"
    path.write_text(HEAD + "  new  []Topic  2+\n    parts  []Part\n      id  uuid\n  old  []Topic  0-1\n" + TAIL)
    request = Parser(path).parse().messages[0]
    assert {
        struct.name: (struct.versions.first, struct.versions.last) for struct in request.structs if struct.versions
    } == {
        "ThingRequestPart": (0, 3),
        "ThingRequestTopic": (0, 3),
        "ThingRequest": (0, 3),
    }
