"""Fixtures of the tests with peers that speak ttrpc."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.programs import ROOT, environment

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


@pytest.fixture
def generate(tmp_path):
    """``generate(*files)`` copies files into the test's directory; protoc writes their modules."""

    def run(*files):
        for file in files:
            shutil.copy(file, tmp_path)
        protos = sorted(tmp_path.glob("*.proto"))
        argv = [sys.executable, "-m", "rsocket_trio", "ttrpc", "generate", *map(str, protos)]
        subprocess.run(argv, env=environment(), cwd=tmp_path, check=True, timeout=60)

    return run


@pytest.fixture
def from_page(tmp_path, generate):
    """``from_page(page, *names)`` writes these files of a page into the test's directory."""

    def write(page, *names):
        text = Path(ROOT, "docs/howto", page).read_text()
        for name in names:
            mark = rf"<!-- file: {re.escape(name)} -->\n```\w+\n(.*?)```"
            (tmp_path / name).write_text(re.search(mark, text, re.DOTALL).group(1))
        generate()

    return write
