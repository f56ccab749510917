"""What is in the spool of a collector without consumers, compared with what was sent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

from rsocket_trio import lumberjack
from rsocket_trio.spool import describe_spool, read_range

from .arrived import Row


@attrs.frozen
class Window:
    """A window of an agent, as it is stored.

    Attributes:
        collector: The id of the spool.
        first: The offset of its first event.
        lines: Its lines.
        peer: The address of the agent. A later connection may have the same.
    """

    collector: str
    first: int
    lines: tuple[str, ...]
    peer: str = ""


def stored_windows(directory: Path) -> list[Window]:
    """Return all windows of a spool, in order."""
    spool = describe_spool(directory)
    assert spool.oldest == 0, "the spool of this test keeps everything"
    return [
        Window(
            spool.spool_id,
            batch.first,
            tuple(json.loads(raw)["message"] for raw in lumberjack.stored_events(batch).raw),
            batch.facts["peer"],
        )
        for batch in read_range(directory, 0, spool.head, spool_id=spool.spool_id)
    ]


def assert_none_lost(windows: Iterable[Window], sent: Counter[str]) -> int:
    """From an agent to a spool, in any case: no line is lost.

    An agent that is killed goes on where its registry says. The registry counts batches of the
    reader of files, and a window can have parts of two of them, so a part of it can come again.

    Returns:
        The number of lines that came again.
    """
    stored = Counter(line for window in windows for line in window.lines)
    assert not sent - stored, f"{(sent - stored).total()} lines are missing"
    assert stored.keys() == sent.keys(), "there are lines that no agent has sent"
    return (stored - sent).total()


def assert_only_whole_windows_again(windows: Iterable[Window], sent: Counter[str]) -> int:
    """From an agent that is not killed to a spool: lines come twice only as whole windows.

    A window that was stored, and whose acknowledgement was lost, comes again. Its lines can be
    in other windows then, but never only a part of them.

    Returns:
        The number of lines that came again.
    """
    windows = list(windows)
    doubled = assert_none_lost(windows, sent)
    stored = Counter(line for window in windows for line in window.lines)
    seen: set[str] = set()
    for window in windows:
        new = [line for line in window.lines if line not in seen]
        again = [line for line in new if stored[line] > 1]
        assert again in ([], new), f"a part of a window came again, as {again[0]}"
        seen.update(new)
    return doubled


def assert_in_order(windows: Iterable[Window], lines: Sequence[str]) -> None:
    """On each connection, lines come in the order of the file, without a gap.

    A new connection may get the port of one that is gone. It goes on where the agent's registry
    says, at the start of a window and among lines that came before.
    """
    numbers = {line: number for number, line in enumerate(lines)}
    expected: dict[str, int] = {}
    stored = 0
    for window in windows:
        first = numbers[window.lines[0]]
        if first <= stored:
            expected[window.peer] = first
        for line in window.lines:
            number = expected.setdefault(window.peer, first)
            assert numbers[line] == number, f"{window.peer}: {line!r} is not line {number}"
            expected[window.peer] += 1
        stored = max(stored, expected[window.peer])


def assert_rows_of(windows: Iterable[Window], rows: Sequence[Row]) -> None:
    """From a spool to a sink: exactly once, with the same contents at each offset."""
    expected = Counter(
        Row(window.collector, window.first + index, line)
        for window in windows
        for index, line in enumerate(window.lines)
    )
    arrived = Counter(rows)
    missing, more = expected - arrived, arrived - expected
    assert not missing, f"{missing.total()} rows are missing, as {min(missing)}"
    assert not more, f"{more.total()} rows too many, as {min(more)}"
