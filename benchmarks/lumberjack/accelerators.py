"""Hide orjson and isal from a benchmark program, unless it was started with ``--fast``."""

from __future__ import annotations

import sys

__all__ = ["hide_unless_fast"]


def hide_unless_fast() -> None:
    """Make both look as if they were not installed. Call it before the package is imported."""
    if "--fast" not in sys.argv:
        for name in ("orjson", "isal"):
            sys.modules[name] = None  # type: ignore[assignment]  # None blocks an import.
