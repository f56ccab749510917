"""docs/howto/ttrpc.md has every setting, with its real default."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from rsocket_trio.ttrpc import TtrpcConfig, TtrpcLimits

PAGE = Path(__file__).parents[2] / "docs/howto/ttrpc.md"
UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "s": 1}


def shown() -> dict[str, object]:
    """Return the settings of the page's tables with their defaults."""
    rows = re.findall(
        r'^\| `(\w+)` \| (?:`"(\w+)"`|([\d.]+) ?(\w*)) \|', PAGE.read_text(), re.MULTILINE
    )
    return {name: text or float(number) * UNITS[unit] for name, text, number, unit in rows}


def test_the_page_has_all_settings() -> None:
    """The tables have exactly the fields of TtrpcConfig and TtrpcLimits."""
    settings = attrs.asdict(TtrpcLimits()) | attrs.asdict(TtrpcConfig(), recurse=False)
    del settings["limits"]
    assert shown() == settings
