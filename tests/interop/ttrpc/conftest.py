"""Fixtures of the tests with peers that speak ttrpc."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path

import pytest

PEERS = ["ttrpc (Go)", "ttrpc (Rust)"]


def _support(module):
    return importlib.import_module(f"interop_support.{module}")


@pytest.fixture(scope="session")
def installed():
    """The module ``../support/installed.py``."""
    return _support("installed")


@pytest.fixture(scope="session")
def programs():
    """The module ``../support/processes.py``."""
    return _support("processes")


@pytest.fixture(scope="session")
def peers():
    """The module ``../support/ttrpc.py``."""
    return _support("ttrpc")


@pytest.fixture(params=PEERS)
def peer(request, installed):
    """The name of a peer that is installed."""
    installed.require(request.param)
    return request.param


@pytest.fixture
def directory():
    """A directory with a short path: the path of a Unix socket has 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="ttrpc-") as path:
        yield Path(path)


@pytest.fixture
def address(directory):
    """The address of a Unix socket that does not exist yet."""
    return f"unix://{directory}/socket"
