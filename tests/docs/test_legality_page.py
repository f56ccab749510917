"""docs/legality.md shows the tables that the connection uses."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_current() -> None:
    """scripts/legality_tables.py writes the page."""
    script = runpy.run_path(str(ROOT / "scripts/legality_tables.py"))
    assert script["PAGE"].read_text() == script["page"]()
