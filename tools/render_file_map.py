"""Renderer of docs/file-map.md: every package and module with the first sentence of its docstring."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

from rendered_page import ROOT, write_or_check

PAGE = ROOT / "docs" / "file-map.md"
PACKAGE = ROOT / "src" / "moldau"
GENERATED = ("wire/messages", "wire/stored", "broker/handlers")
"""Packages of one file per API or record type: their files are named after it and are not listed."""

INTRODUCTION = """\
# File map

<!-- Written by tools/render_file_map.py from the docstrings. Change a module's first sentence, not this page. -->

Every package and module of `src/moldau`, with the first sentence of its docstring. A package imports only packages that
come before it on this page (checked by import-linter). [ARCHITECTURE.md](ARCHITECTURE.md) is the guide to read first.
"""

CYTHON_DOCSTRING = re.compile(r'\A(?:#[^\n]*\n)*"""(.*?)"""', re.DOTALL)


def render() -> str:
    """The whole page: packages in the order of their layers, then the modules outside packages."""
    parts = [INTRODUCTION]
    for layer in _layers():
        if (PACKAGE / layer).is_dir():
            parts.append(f"## `{layer}/`\n\n{first_sentence(PACKAGE / layer / '__init__.py')}\n")
            parts.append("".join(_lines(PACKAGE / layer)))
    single = [path for path in sorted(PACKAGE.glob("*.py")) if path.name != "__init__.py"]
    parts.append("## Outside packages\n")
    parts.append("".join(_line(path) for path in single))
    return "\n".join(parts)


def _layers() -> list[str]:
    """The top-level packages, lowest first, as import-linter's contract lists them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (one["layers"] for one in project["tool"]["importlinter"]["contracts"] if one["id"] == "layers")
    return [name.strip("() ") for layer in reversed(layers) for name in layer.split("|")]


def _lines(folder: Path) -> list[str]:
    if folder.relative_to(PACKAGE).as_posix() in GENERATED:
        return []
    lines = [_line(path) for path in sorted(folder.iterdir()) if _is_listed(path)]
    for path in sorted(folder.iterdir()):
        if (path / "__init__.py").exists():
            lines.append(f"- `{path.relative_to(PACKAGE)}/` — {first_sentence(path / '__init__.py')}\n")
            lines.extend(_lines(path))
    return lines


def _is_listed(path: Path) -> bool:
    return path.suffix in (".py", ".pyx", ".pxd") and path.name != "__init__.py"


def _line(path: Path) -> str:
    return f"- `{path.relative_to(PACKAGE)}` — {first_sentence(path)}\n"


def first_sentence(path: Path) -> str:
    """The docstring up to the end of its first sentence, on one line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        docstring = ast.get_docstring(ast.parse(text))
    else:
        found = CYTHON_DOCSTRING.match(text)
        docstring = found[1] if found else None
    if not docstring:
        sys.exit(f"{path.relative_to(ROOT)} has no docstring")
    paragraph = " ".join(docstring.strip().split("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z])", paragraph)[0]


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, render, sys.argv[1:]))
