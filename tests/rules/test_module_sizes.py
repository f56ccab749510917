"""A module has one job; a module that has grown long has two."""

from __future__ import annotations

from pathlib import Path

from tests.rules.sources import FILES, none_of, text_of

CEILING = 400


def test_no_module_is_too_long():
    """No module of the package has more lines than the limit."""
    lines = {file: len(text_of(file).splitlines()) for file in FILES}
    assert lines[Path("connection/connection.py")] > 100
    none_of(
        f"{file} has {number} lines: which two jobs does it have?"
        for file, number in lines.items()
        if number > CEILING
    )
