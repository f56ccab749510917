"""A directory for a spool, in memory where the system has one: fsync costs nothing there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.given_back import everything_is_given_back

__all__ = ["everything_is_given_back"]

MEMORY = Path("/dev/shm")


@pytest.fixture
def directory():
    where = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="spool-", dir=where) as parent:
        yield Path(parent) / "spool"
