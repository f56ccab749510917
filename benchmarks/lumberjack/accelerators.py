"""Hide isal from a benchmark program, unless it was started with ``--fast``."""

from __future__ import annotations

import sys

__all__ = ["hide_unless_fast"]


def hide_unless_fast() -> None:
    """Make it look as if it was not installed. Call it before the package is imported."""
    if "--fast" not in sys.argv:
        sys.modules["isal"] = None  # type: ignore[assignment]  # None blocks an import.
