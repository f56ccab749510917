"""docs/reference/spark-lumberjack.md has every option of the source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from rsocket_trio.spark.spool_source.settings import SourceSettings

PAGE = Path(__file__).parents[2] / "docs/reference/spark-lumberjack.md"
FIELDS = {
    "maxSpoolSize": "max_spool_size",
    "consumer": "consumer",
    "startingOffsets": "starting",
    "endingOffsets": "ending",
    "failOnDataLoss": "fail_on_data_loss",
    "leaseMs": "lease",
    "trimOn": "trim_on",
    "pollTimeoutMs": "poll_timeout",
    "collectorTimeoutMs": "collector_timeout",
    "mode": "mode",
    "columnNameOfCorruptRecord": "corrupt_column",
    "includeRaw": "include_raw",
    "includeMetadata": "include_metadata",
}
"""Options with a default, and what `SourceSettings` calls them."""


def shown():
    section = PAGE.read_text().partition("## Options\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w.]+)` \| (?:`?(\w+)`?)? ?\|", section, re.MULTILINE)
    return dict(rows)


def test_the_page_has_all_options():
    """The error for an unknown option lists those that there are."""
    with pytest.raises(ValueError, match="there is no option") as caught:
        SourceSettings.read({"collectors": "one", "zzzzzzzzzzzz": "1"})
    known = str(caught.value).partition("there are ")[2].split(", ")
    assert sorted(known) == sorted(shown())


def test_the_page_has_the_defaults():
    settings = SourceSettings.read({"collectors": "one"})
    page = shown()
    for option, field in FIELDS.items():
        value = getattr(settings, field)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if option.endswith("Ms"):
            text = str(round(value * 1000))
        assert page[option] == text, option
