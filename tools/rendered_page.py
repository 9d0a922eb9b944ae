"""Command line of the scripts that render a page of docs/: write the page, or check that it is current."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def write_or_check(page: Path, render: Callable[[], str], arguments: list[str]) -> int:
    """Write the page, or with `--check` compare it with the file. Returns the exit code."""
    script = Path(sys.argv[0]).name
    text = render()
    if arguments == ["--check"]:
        current = page.exists() and page.read_text(encoding="utf-8") == text
        if not current:
            print(f"{page.relative_to(ROOT)} is not current: run tools/{script}", file=sys.stderr)
        return 0 if current else 1
    if arguments:
        print(f"usage: {script} [--check]", file=sys.stderr)
        return 2
    page.write_text(text, encoding="utf-8")
    return 0
