"""A disk of a few megabytes, if this machine allows mounting one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SMALL_DISK_BYTES = 24 << 20
NO_MOUNT = "a small tmpfs cannot be mounted here"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The root of a separate file system of SMALL_DISK_BYTES."""
    root = tmp_path / "disk"
    root.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "tmpfs", str(root)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"{NO_MOUNT}: {error}")
    try:
        yield root
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=True)
