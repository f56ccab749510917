"""The events of the Spark cases: those of `benchmarks.lumberjack.lines`, with Beats' metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from benchmarks.lumberjack.lines import WINDOW, WINDOWS, as_json, make_events
from rsocket_trio.lumberjack import encode_batch

SCHEMA: Final = (
    "`@timestamp` TIMESTAMP, message STRING, host STRUCT<name: STRING>, log STRUCT<offset: BIGINT>,"
    " `@metadata` STRUCT<beat: STRING, version: STRING>"
)
"""The columns into which every stack decodes the events: all that they have."""

RAW: Final = "value STRING"
"""The column of the events as texts."""

_METADATA: Final = {"beat": "filebeat", "version": "8.15.0"}


def make_texts(count: int = WINDOWS * WINDOW) -> list[bytes]:
    """Return events as JSON texts of about 220 bytes."""
    events: list[dict[str, Any]] = make_events(count)
    return [as_json({**event, "@metadata": _METADATA}) for event in events]


def make_windows(level: int, count: int = WINDOWS) -> list[bytes]:
    """Return windows of Lumberjack version 2 as bytes, ready to be sent."""
    texts = make_texts(count * WINDOW)
    return [
        encode_batch(texts[start : start + WINDOW], compression_level=level)
        for start in range(0, len(texts), WINDOW)
    ]


def write_files(directory: Path, events: int, files: int) -> int:
    """Write whole windows of events as files of JSON lines; return how many events these are."""
    texts = make_texts()
    windows = [
        b"".join(text + b"\n" for text in texts[start : start + WINDOW])
        for start in range(0, len(texts), WINDOW)
    ]
    each = max(1, events // files // WINDOW)
    for number in range(files):
        with open(directory / f"{number:03}.json", "wb") as file:
            file.writelines(windows[(number + index) % len(windows)] for index in range(each))
    return each * files * WINDOW
