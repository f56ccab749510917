"""docs/howto/limits.md has every setting, with its real default."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from rsocket_trio import ConnectionConfig, Limits

PAGE = Path(__file__).parents[2] / "docs/howto/limits.md"
UNITS = {"KiB": 2**10, "MiB": 2**20, "s": 1}


def shown() -> dict[str, float]:
    """Return the settings of the page's tables with their defaults."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+)(?: (\w+))? \|", PAGE.read_text(), re.MULTILINE)
    return {
        name: {"True": 1, "False": 0}.get(number) or float(number) * UNITS.get(unit, 1)
        for name, number, unit in rows
    }


def test_the_page_has_all_settings() -> None:
    """The tables have exactly the fields of Limits and ConnectionConfig."""
    settings = attrs.asdict(Limits()) | attrs.asdict(ConnectionConfig(), recurse=False)
    del settings["limits"]
    assert shown() == settings
