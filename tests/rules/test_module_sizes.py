"""A module has one job; a module that has grown long has two."""

from __future__ import annotations

from pathlib import Path

import pytest

import rsocket_trio

ROOT = Path(rsocket_trio.__file__).parent
CEILING = 400


@pytest.mark.parametrize(
    "path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_no_module_is_too_long(path):
    """No module of the package has more lines than the limit."""
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= CEILING, f"{lines} lines: which two jobs does it have?"
