"""Builder of the documentation site: collects the pages of the repository and runs MkDocs on them.

Pages keep their paths, so a relative link that works on GitHub works in the site. Every file that a page links to is
part of the site, too: a page or a picture is copied, any other file becomes a page with its text, and a folder without
a README.md becomes a page that lists its files. MkDocs checks all links and anchors.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
BUILD = "build"
PICTURES = {".svg", ".png", ".jpg", ".gif"}
LINK = re.compile(r"(?<=\]\()(?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?(?=\))")
FENCE = "~" * 10
ITEM = re.compile(r"(?:[-*+]|(?P<number>\d+)\.) +(?=\S)")
SOURCE_PAGE = """\
---
search: {{ exclude: true }}
---
# {name}

{fence} {{ .{language} }}
{text}
{fence}
"""


class Settings(yaml.SafeLoader):
    """Reader of mkdocs.yml that skips the tags for Python objects."""


Settings.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)


class Pages:
    """The pages of the site: path in the site and text, collected from the repository by following links."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.texts: dict[str, str] = {}
        self.files: set[str] = set()
        for path in (*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))):
            self.add(path)

    def add(self, path: Path) -> str | None:
        """Add a file or folder of the repository, with all that it links to. Returns its path in the site, or None for
        what is not in the repository: MkDocs reports the link to it."""
        if not path.exists() or not path.is_relative_to(self.root):
            return None
        name = path.relative_to(self.root).as_posix()
        if path.suffix in PICTURES:
            self.files.add(name)
            return name
        if path.is_dir() and (path / "README.md").exists():
            return self.add(path / "README.md")
        place = f"{name}/README.md" if path.is_dir() else name if path.suffix == ".md" else f"{name}.md"
        if place not in self.texts:
            self.texts[place] = ""  # Pages link to each other: this one counts as added while its links are followed.
            if path.is_file() and path.suffix != ".md":
                self.texts[place] = _source_page(path)
            else:
                text = _listing(path) if path.is_dir() else with_wide_lists(_read(path))
                folder = self.root / PurePosixPath(place).parent
                self.texts[place] = LINK.sub(lambda link: self._target(folder, link), text)
        return place

    def _target(self, folder: Path, link: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / link["path"]))
        place = self.add(target)
        if place is None:
            return link[0]
        # A line of a source file ("#L3") is no anchor of its page.
        anchor = link["anchor"] if target.suffix == ".md" else None
        return os.path.relpath(self.root / place, folder) + (anchor or "")

    def write(self, folder: Path) -> None:
        """Write all pages and other files into an empty folder."""
        shutil.rmtree(folder, ignore_errors=True)
        for name, text in self.texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        for name in self.files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.root / name, folder / name)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _source_page(path: Path) -> str:
    languages = {".py": "python", ".pyx": "cython", ".sh": "bash", ".toml": "toml", ".yml": "yaml"}
    language = languages.get(path.suffix, "text")
    return SOURCE_PAGE.format(name=path.name, language=language, text=_read(path), fence=FENCE)


def _listing(folder: Path) -> str:
    names = sorted(
        path.name + "/" * path.is_dir()
        for path in folder.iterdir()
        if not path.name.startswith((".", "__pycache__")) and path.suffix not in (".so", ".c", ".pyc")
    )
    return f"# {folder.name}/\n\n" + "".join(f"- [{name}]({name})\n" for name in names)


def with_wide_lists(text: str) -> str:
    """Markdown in which lists are as MkDocs needs them. On GitHub what belongs to an item is indented like the item's
    text, by two spaces or three, and a list may follow a paragraph without a blank line. MkDocs wants four spaces and a
    blank line; otherwise it ends the list, without a warning."""
    lines: list[str] = []
    columns: list[int] = []  # Of each list that is open here, outermost first: the column where the item's text begins.
    fenced, after_text = False, False
    several_paragraphs = False  # In the item so far: the next item needs a blank line before it, too.
    for line in text.split("\n"):
        body = line.lstrip(" ")
        indent = len(line) - len(body)
        item = None if fenced else _item(body, indent, columns, after_text)
        in_list = bool(columns)
        if body and not fenced and (item or not after_text or body.startswith(("#", "```", "|", ">"))):
            while columns and indent < columns[-1]:
                columns.pop()
        if item and after_text and (several_paragraphs or not in_list):
            lines.append("")
        inside = max(indent - columns[-1], 0) if columns else indent
        lines.append(" " * (4 * len(columns) + inside) + body if body else "")
        if item:
            columns.append(indent + len(item[0]))
        fenced ^= body.startswith("```")
        after_text = bool(body)
        several_paragraphs = not item and (several_paragraphs or not body)
    return "\n".join(lines)


def _item(body: str, indent: int, columns: list[int], after_text: bool) -> re.Match[str] | None:
    """The marker of a list item. Four spaces more than the text around are code; a number other than 1 starts no list
    in the middle of a paragraph."""
    around = max((column for column in columns if column <= indent), default=0)
    found = ITEM.match(body) if indent - around < 4 else None
    if found and not columns and after_text and found["number"] not in (None, "1"):
        return None
    return found


def navigation(given: list[Any], pages: set[str]) -> list[Any]:
    """The navigation with each pattern replaced by the pages that match and that no other entry names. Pages of docs/
    and of the root that are left over come last, as "More"."""
    left = pages - set(_names(given))
    expanded = _expanded(given, left)
    more = sorted(name for name in left if name.startswith("docs/") or "/" not in name)
    return [*expanded, {"More": more}] if more else expanded


def _names(entry: Any) -> list[str]:
    if isinstance(entry, list | dict):
        return [name for inner in (entry.values() if isinstance(entry, dict) else entry) for name in _names(inner)]
    return [entry]


def _expanded(entries: list[Any], left: set[str]) -> list[Any]:
    """Patterns are taken in order; what one matches is removed from `left`. A section without pages is dropped."""
    expanded: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            (title, inner), *_ = entry.items()
            inner = _expanded(inner, left) if isinstance(inner, list) else inner
            expanded += [{title: inner}] if inner else []
        elif "*" in entry:
            matching = sorted((name for name in left if fnmatchcase(name, entry)), key=_readme_first)
            left -= set(matching)
            expanded += matching
        else:
            expanded.append(entry)
    return expanded


def _readme_first(name: str) -> tuple[str, bool, str]:
    path = PurePosixPath(name)
    return str(path.parent), path.name != "README.md", path.name


def main() -> int:
    """Build the site into build/site. Returns MkDocs' exit code: not 0 if a link or an anchor leads nowhere."""
    build = ROOT / BUILD
    pages = Pages(ROOT)
    given = yaml.load(_read(ROOT / "mkdocs.yml"), Settings)
    pages.files.update(given["extra_css"])
    pages.write(build / "pages")
    settings = {
        "INHERIT": "../mkdocs.yml",
        "docs_dir": "pages",
        "site_dir": "site",
        "nav": navigation(given["nav"], set(pages.texts)),
    }
    (build / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    # Not --quiet: it hides the warnings from --strict, too. The variable silences a notice about the end of life of the
    # theme, which docs/decisions/0011-documentation-site.md deals with.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(build / "mkdocs.yml")]
    return subprocess.run(command, check=False, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
