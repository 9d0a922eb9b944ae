"""Documentation site: its pages, working links, and a build that fails on a dead link."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the site is built with moldau[docs]")

from tools.build_site import Pages, navigation, with_wide_lists

ROOT = Path(__file__).resolve().parents[2]


def write(root: Path, **files: str) -> Path:
    """Write files; in their names `__` stands for a slash and the last `_` for the dot."""
    for name, text in files.items():
        path = root / ".".join(name.replace("__", "/").rsplit("_", 1))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_page_keeps_its_path_and_its_links_to_pages_and_pictures(tmp_path: Path) -> None:
    text = "[use](docs/use.md#first) ![map](docs/map.svg) [other](https://example.org/a.py)"
    pages = Pages(write(tmp_path, README_md=text, docs__use_md="[home](../README.md)", docs__map_svg="<svg/>"))
    assert pages.texts == {"README.md": text, "docs/use.md": "[home](../README.md)"}
    assert pages.files == {"docs/map.svg"}


def test_a_linked_source_file_becomes_a_page(tmp_path: Path) -> None:
    pages = Pages(write(tmp_path, docs__use_md="[it](../src/it.py#L3)", src__it_py="x = 1\n", src__other_py=""))
    assert pages.texts["docs/use.md"] == "[it](../src/it.py.md)"
    assert "# it.py" in pages.texts["src/it.py.md"] and "x = 1" in pages.texts["src/it.py.md"]
    assert "src/other.py.md" not in pages.texts


def test_brackets_in_a_source_file_are_not_links(tmp_path: Path) -> None:
    source = "table[0](other.py)\n"
    pages = Pages(write(tmp_path, README_md="[it](it.py)", it_py=source, other_py=""))
    assert source in pages.texts["it.py.md"]


def test_a_link_to_a_folder_leads_to_its_readme_or_to_a_list_of_its_files(tmp_path: Path) -> None:
    pages = Pages(
        write(
            tmp_path,
            README_md="[a](shop/) [b](tools)",
            shop__README_md="# Shop",
            tools__a_py="a",
            tools__more__b_py="b",
        )
    )
    assert pages.texts["README.md"] == "[a](shop/README.md) [b](tools/README.md)"
    assert pages.texts["tools/README.md"] == "# tools/\n\n- [a.py](a.py.md)\n- [more/](more/README.md)\n"
    assert "tools/more/b.py.md" in pages.texts


def test_a_link_to_a_file_that_is_not_there_or_outside_is_left_for_mkdocs_to_report(tmp_path: Path) -> None:
    text = "[a](gone.md) [b](../outside.md)"
    root = write(tmp_path / "inside", README_md=text)
    write(tmp_path, outside_md="# Outside")
    assert Pages(root).texts == {"README.md": text}


@pytest.mark.parametrize(
    ("on_github", "for_mkdocs"),
    [
        ("1. one\n\n   more\n\n       code\n2. two", "1. one\n\n    more\n\n        code\n\n2. two"),
        ("- one\n  - inner\n    more\n- two\n\ntext", "- one\n    - inner\n        more\n- two\n\ntext"),
        ("1. one\n\n   more\n2. two\n3. three", "1. one\n\n    more\n\n2. two\n3. three"),
        ("text:\n- one\n- two", "text:\n\n- one\n- two"),
        ("in the year\n1986. A year", "in the year\n1986. A year"),
        ("- one\n\n  ```\n  - code\n  ```\n\n# Next", "- one\n\n    ```\n    - code\n    ```\n\n# Next"),
        ("```\ntext\n- code\n  - code\n```", "```\ntext\n- code\n  - code\n```"),
        ("    - code\n      - code", "    - code\n      - code"),
        ("- one\nlazy\n\n| a |", "- one\n    lazy\n\n| a |"),
    ],
)
def test_lists_are_those_that_github_shows(on_github: str, for_mkdocs: str) -> None:
    assert with_wide_lists(on_github) == for_mkdocs


def test_navigation_lists_new_pages_by_pattern_and_the_rest_under_more() -> None:
    given = [
        {"Start": ["README.md"]},
        {"Course": ["docs/course/*.md"]},
        {"Decisions": ["docs/decisions/*.md"]},
        {"Empty": ["docs/empty/*.md"]},
    ]
    pages = {
        "README.md",
        "docs/new.md",
        "docs/decisions/README.md",
        "docs/decisions/0001.md",
        "docs/course/1.md",
        "a/b.md",
    }
    assert navigation(given, pages) == [
        {"Start": ["README.md"]},
        {"Course": ["docs/course/1.md"]},
        {"Decisions": ["docs/decisions/README.md", "docs/decisions/0001.md"]},
        {"More": ["docs/new.md"]},
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[use](docs/use.md#first-steps) [code](code.py) [folder](docs/)", ""),
        ("[use](docs/gone.md)", "docs/gone.md"),
        ("[use](docs/use.md#gone)", "#gone"),
        ("[code](gone.py)", "gone.py"),
        ("[folder](gone/)", "gone/"),
        ("![picture](gone.svg)", "gone.svg"),
    ],
)
def test_the_build_fails_on_a_dead_link_or_anchor(tmp_path: Path, text: str, says: str) -> None:
    settings = (ROOT / "mkdocs.yml").read_text()
    nav = re.compile(r"^nav:\n(?: .*\n)+", re.MULTILINE)
    settings = nav.sub("nav: [README.md]\n", settings).replace("name: material", "name: mkdocs", 1)
    write(
        tmp_path,
        README_md=text,
        mkdocs_yml=settings,
        code_py="",
        docs__use_md="# Use\n\n## First steps\n",
        docs__site_css="",
    )
    (tmp_path / "src").mkdir()
    shutil.copytree(ROOT / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, str(tmp_path / "tools/build_site.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (not says), done.stderr
    assert (tmp_path / "build/site/index.html").exists() or says
    assert says in done.stderr
