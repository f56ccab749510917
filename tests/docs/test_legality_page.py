"""docs/legality.md shows the tables the connection goes by."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_page() -> None:
    """The page is what scripts/legality_tables.py writes."""
    script = runpy.run_path(str(ROOT / "scripts/legality_tables.py"))
    assert script["PAGE"].read_text() == script["page"]()
