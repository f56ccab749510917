"""A small disk in memory, for one program and its children: `on_small_disk`."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

_INSIDE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]


def on_small_disk(where: Path, size: str, *before: str) -> list[str]:
    """Return the beginning of a command: the rest of it runs where the directory is a small disk.

    No privileges are needed where users may have namespaces. Other processes do not see the disk.
    The test is skipped where this is not possible.

    Args:
        where: The directory. It is made.
        size: The size of the disk, as ``mount -t tmpfs`` takes it.
        before: Commands of the shell that run on the disk before.
    """
    where.mkdir(exist_ok=True)
    reason = _why_not(where)
    if reason:
        pytest.skip(reason)
    steps = " && ".join([_mount(where, size), *before, 'exec "$@"'])
    return [*_INSIDE, steps, "sh"]


def _mount(where: Path, size: str) -> str:
    return f"mount -t tmpfs -o size={size} none {where}"


@cache
def _why_not(where: Path) -> str | None:
    if shutil.which("unshare") is None:
        return "unshare is not installed (util-linux)"
    command = [*_INSIDE, _mount(where, "1m")]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if tried.returncode:
        return f"a disk cannot be mounted here: {tried.stderr.strip()}"
    return None
