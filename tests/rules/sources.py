"""The source text of the package, read and parsed once for all tests that look at it.

These tests check hundreds of modules in one test, and report all faults that they find.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import rsocket_trio

ROOT = Path(rsocket_trio.__file__).parent
FILES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))


@cache
def text_of(file: Path) -> str:
    """The text of a module, by its path in the package."""
    return (ROOT / file).read_text(encoding="utf-8")


@cache
def tree_of(file: Path) -> ast.Module:
    """The syntax tree of a module, by its path in the package. Nobody may change it."""
    return ast.parse(text_of(file))


def none_of(faults: Iterable[str]) -> None:
    """Fail with all faults, each on a line of its own."""
    found = list(faults)
    assert not found, "\n".join([f"{len(found)} faults", *found])
