"""What has arrived in a sink, compared with what was sent, guarantee by guarantee."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import attrs


@attrs.frozen(order=True)
class Row:
    """A row of the default columns, as a sink has it.

    Attributes:
        collector: The spool that the event was in.
        offset: Its place there.
        line: The line of the file.
    """

    collector: str
    offset: int
    line: str


def row_of(columns: Mapping[str, Any]) -> Row:
    """Return a row with the default columns of ``format("lumberjack")``."""
    line = json.loads(columns["value"])["message"]
    return Row(columns["collector"], columns["offset"], line)


def _columns(text: str) -> list[dict[str, Any]]:
    # Not splitlines: it also splits at characters that JSON does not escape.
    return [json.loads(line) for line in text.split("\n") if line]


def sink_columns(directory: Path) -> list[dict[str, Any]]:
    """The rows of Spark's file sink, in the files that its metadata names.

    There can be other files: those of tasks that were killed.
    """
    files: set[str] = set()
    for path in (directory / "_spark_metadata").glob("[0-9]*"):
        version, *entries = path.read_text().splitlines()
        assert version == "v1"
        for entry in map(json.loads, entries):
            assert entry["action"] == "add"
            files.add(unquote(entry["path"].removeprefix("file://")))
    return [columns for file in sorted(files) for columns in _columns(Path(file).read_text())]


def file_sink(directory: Path) -> list[Row]:
    """The rows of Spark's file sink: see `sink_columns`."""
    return [row_of(columns) for columns in sink_columns(directory)]


def batch_attempts(
    directory: Path, row: Callable[[Mapping[str, Any]], Row] = row_of
) -> dict[int, list[list[Row]]]:
    """The rows of the sink ``batches`` of the application, by batch and then by attempt."""
    found: dict[int, list[list[Row]]] = {}
    for batch in directory.glob("batch-*"):
        attempts = [each for each in batch.iterdir() if (each / "_SUCCESS").exists()]
        found[int(batch.name.removeprefix("batch-"))] = [
            sorted(
                row(columns)
                for file in each.glob("part-*")
                for columns in _columns(file.read_text())
            )
            for each in attempts
        ]
    return found


def assert_each_offset_once(rows: Iterable[Row]) -> None:
    """From a spool to a sink: exactly once. Each offset comes once, without a gap from 0 on."""
    offsets: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        offsets[row.collector].append(row.offset)
    for collector, found in offsets.items():
        doubled = [offset for offset, times in Counter(found).items() if times > 1]
        assert not doubled, f"{len(doubled)} rows of {collector} twice, as {min(doubled)}"
        missing = set(range(max(found) + 1)).difference(found)
        assert not missing, f"{len(missing)} rows of {collector} are missing, as {min(missing)}"


def assert_each_line_once(rows: Iterable[Row], sent: Counter[str]) -> None:
    """From a file to a sink, if no agent and no collector was killed: each line once."""
    rows = list(rows)
    assert_each_offset_once(rows)
    arrived = Counter(row.line for row in rows)
    assert not sent - arrived, f"{(sent - arrived).total()} lines are missing"
    assert not arrived - sent, f"{(arrived - sent).total()} lines too many"


def assert_no_line_lost(rows: Iterable[Row], sent: Counter[str]) -> int:
    """From a file to a sink: at least once.

    Returns:
        The number of lines that came again.
    """
    rows = list(rows)
    assert_each_offset_once(rows)
    arrived = Counter(row.line for row in rows)
    assert not sent - arrived, f"{(sent - arrived).total()} lines are missing"
    assert not arrived.keys() - sent.keys(), "there are lines that no agent has sent"
    return (arrived - sent).total()


@attrs.frozen
class Kill:
    """What was known when an agent or its collector was killed.

    Attributes:
        known: The lines that the agent's registry says are acknowledged.
        head: The events that the collector had.
    """

    known: int
    head: int


def assert_doubled_only_on_the_way(
    rows: Iterable[Row], collector: str, lines: Sequence[str], kills: Sequence[Kill], unstored: int
) -> None:
    """From a file to a sink: lines come again only if they were on their way at a kill.

    Args:
        rows: What has arrived.
        collector: The spool that has this file, and no other one.
        lines: The lines of the file.
        kills: Those of its agent and of its collector.
        unstored: How many lines can be sent and not stored yet.
    """
    numbers = {line: number for number, line in enumerate(lines)}
    stored = sorted(row for row in rows if row.collector == collector)
    ends = [0, *accumulate((numbers[row.line] + 1 for row in stored), max)]
    for line, times in Counter(row.line for row in stored).items():
        number = numbers[line]
        allowed = sum(each.known <= number < ends[each.head] + unstored for each in kills)
        assert times <= 1 + allowed, f"line {number} came {times} times, at {allowed} kills"
