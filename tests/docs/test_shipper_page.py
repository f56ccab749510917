"""docs/howto/lumberjack-client.md has every setting, with its real default."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from rsocket_trio.lumberjack import LumberjackLimits, ShipperConfig
from rsocket_trio.protocol.retry import Retry

PAGE = Path(__file__).parents[2] / "docs/howto/lumberjack-client.md"


def test_the_page_has_all_settings() -> None:
    """The table has exactly the fields of ShipperConfig."""
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE))
    names = {"Retry": Retry, "LumberjackLimits": LumberjackLimits, "MiB": 2**20}
    shown = {
        name: eval(text.strip("`").replace(" MiB", " * MiB"), names) for name, text in rows.items()
    }
    assert shown == attrs.asdict(ShipperConfig(), recurse=False)
