"""Each module of the engine has its test file: by name, or in one whose docstring names it.

The engine is a heap of small parts that only make sense together, so some are tested by what a
connection does. Where, is said in the docstring of that file, in a line of its own::

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
def test_a_module_has_its_tests(module):
    """A file of its name, beside the others; or a file that names it."""
    own = TESTS / "connection" / f"test_{module}.py"
    assert own.exists() or any(module in names for names in NAMED.values())


def test_only_modules_are_named():
    """What is named is there: no line outlives its module."""
    for path, names in NAMED.items():
        assert set(names) <= set(MODULES), path
        assert len(set(names)) == len(names), path
