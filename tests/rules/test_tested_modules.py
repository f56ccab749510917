"""Each internal module has its test file: by name, or in one whose docstring names it.

Many modules are small and only make sense together, so some are tested by the behaviour of a
connection. The docstring of that test file names them, in a line of its own::

    Modules of rsocket_trio.connection: admission, latency.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import rsocket_trio

TESTS = Path(__file__).parents[1]
PACKAGE = Path(rsocket_trio.__file__).parent / "connection"
LINE = re.compile(r"^Modules of rsocket_trio\.connection: ([a-z_, ]+)\.$", re.MULTILINE)
MODULES = sorted(path.stem for path in PACKAGE.glob("*.py") if path.stem != "__init__")


def named_in(path: Path) -> list[str]:
    """The modules that the docstring of a test file names."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    lines = LINE.findall(docstring)
    return [name for line in lines for name in line.split(", ")]


FILES = [path for path in sorted(TESTS.rglob("test_*.py")) if "node_modules" not in path.parts]
NAMED = {path: named_in(path) for path in FILES if "Modules of rsocket_trio" in path.read_text()}


@pytest.mark.parametrize("module", MODULES)
def test_each_module_has_a_test_file(module):
    """There is a file of the same name, or a file that names the module."""
    own = TESTS / "connection" / f"test_{module}.py"
    assert own.exists() or any(module in names for names in NAMED.values())


def test_only_existing_modules_are_named():
    """A module that is named exists."""
    for path, names in NAMED.items():
        assert set(names) <= set(MODULES), path
        assert len(set(names)) == len(names), path
