"""The table of the parts of the suite, in tests/conftest.py, names what exists."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import PARTS, TRACED, UNTRACED
from tests.rules.sources import none_of

TESTS = Path(__file__).parents[1]


def missing(entry: str) -> bool:
    name, _, test = entry.partition("::")
    path = TESTS / name
    if not test:
        return not path.exists()
    return not path.is_file() or not re.search(
        rf"^(async )?def {test}\(", path.read_text(), re.MULTILINE
    )


def test_the_parts_exist():
    """A folder, file or test that is renamed keeps its markers."""
    none_of(
        f"tests/conftest.py names {entry}, which does not exist"
        for entries in (*PARTS.values(), TRACED, UNTRACED)
        for entry in entries
        if missing(entry)
    )
