"""The comparisons of the bad days notice what they are there for."""

from __future__ import annotations

import json
from collections import Counter

import attrs
import pytest

from .arrived import (
    Kill,
    Row,
    assert_doubled_only_on_the_way,
    assert_each_line_once,
    assert_each_offset_once,
    assert_no_line_lost,
    file_sink,
)
from .stored import (
    Window,
    assert_in_order,
    assert_only_whole_windows_again,
    assert_rows_of,
)

LINES = [f"line {number}" for number in range(6)]
SENT = Counter(LINES)
ROWS = [Row("spool", offset, line) for offset, line in enumerate(LINES)]


def windows(*groups):
    """Windows of lines by number, in the order in which they are stored."""
    found, first = [], 0
    for group in groups:
        found.append(Window("spool", first, tuple(LINES[number] for number in group)))
        first += len(group)
    return found


def test_equal_is_equal():
    """In any order."""
    assert_each_line_once(reversed(ROWS), SENT)
    assert assert_no_line_lost(ROWS, SENT) == 0
    assert_rows_of(windows([0, 1, 2], [3, 4, 5]), ROWS)


def test_a_row_is_missing():
    """In the middle: by its offset. At the end: by its line."""
    with pytest.raises(AssertionError, match="1 rows of spool are missing, as 2"):
        assert_each_offset_once(ROWS[:2] + ROWS[3:])
    for check in (assert_each_line_once, assert_no_line_lost):
        with pytest.raises(AssertionError, match="1 lines are missing"):
            check(ROWS[:-1], SENT)
    with pytest.raises(AssertionError, match="1 rows are missing"):
        assert_rows_of(windows([0, 1, 2], [3, 4, 5]), ROWS[1:])


def test_a_row_is_there_twice():
    """At the same offset it is a fault of the reader; at two offsets an agent has sent it twice."""
    for check in (assert_each_line_once, assert_no_line_lost):
        with pytest.raises(AssertionError, match="1 rows of spool twice, as 2"):
            check([*ROWS, ROWS[2]], SENT)
    with pytest.raises(AssertionError, match="1 rows too many"):
        assert_rows_of(windows([0, 1, 2], [3, 4, 5]), [*ROWS, ROWS[2]])
    again = [*ROWS, Row("spool", 6, LINES[5])]
    with pytest.raises(AssertionError, match="1 lines too many"):
        assert_each_line_once(again, SENT)
    assert assert_no_line_lost(again, SENT) == 1


def test_other_contents():
    """The numbers are right, and a line is not."""
    changed = [*ROWS[:-1], Row("spool", 5, "other")]
    with pytest.raises(AssertionError, match="1 lines are missing"):
        assert_each_line_once(changed, SENT)
    with pytest.raises(AssertionError, match=r"1 rows are missing, as .*line 5"):
        assert_rows_of(windows(range(6)), changed)


def test_whole_windows_come_again():
    """Also cut in another way the second time, and with new lines behind them."""
    assert assert_only_whole_windows_again(windows([0, 1], [2, 3], [2], [3, 4, 5]), SENT) == 2
    assert assert_only_whole_windows_again(windows([0, 1, 2], [3, 4], [3, 4], [3, 4, 5]), SENT) == 4


def test_half_a_window_comes_again():
    """The collector has acknowledged a part of it, or the agent begins at a wrong place."""
    with pytest.raises(AssertionError, match="a part of a window came again, as line 3"):
        assert_only_whole_windows_again(windows([0, 1], [2, 3], [3, 4, 5]), SENT)
    with pytest.raises(AssertionError, match="1 lines are missing"):
        assert_only_whole_windows_again(windows([0, 1], [2, 3], [5]), SENT)


def test_lines_come_again_that_were_on_their_way():
    """Behind the registry of the agent, once for each kill, and not far behind what was stored."""

    def check(again, *kills):
        rows = [*ROWS, Row("spool", 6, LINES[again]), Row("other", 0, "of another file")]
        assert_doubled_only_on_the_way(rows, "spool", LINES, kills, 1)

    check(2, Kill(known=2, head=2))
    check(3, Kill(known=1, head=3))
    for again, kill in [(1, Kill(known=2, head=2)), (3, Kill(known=1, head=2))]:
        with pytest.raises(AssertionError, match=f"line {again} came 2 times, at 0 kills"):
            check(again, kill)


def test_the_order_of_each_connection():
    """Connections may begin at a line that came before, also with a port that was used, and
    leave out nothing.
    """

    def on(peer, *groups):
        return [attrs.evolve(window, peer=peer) for window in windows(*groups)]

    assert_in_order([*on("a", [0, 1], [2]), *on("b", [1, 2], [3, 4, 5])], LINES)
    assert_in_order(on("a", [0, 1], [2], [1, 2], [3]), LINES)
    for wrong in (on("a", [0, 1], [3]), on("a", [0, 1, 3]), on("a", [0, 2, 1])):
        with pytest.raises(AssertionError, match=r"a: 'line .' is not line"):
            assert_in_order(wrong, LINES)


def test_files_that_the_sink_does_not_name(tmp_path):
    """A task that was killed has left one."""

    def write(name, offset):
        event = {"collector": "spool", "offset": offset, "value": json.dumps({"message": "a"})}
        (tmp_path / name).write_text(json.dumps(event) + "\n")
        return json.dumps(
            {"path": f"file://{tmp_path}/{name}".replace(" ", "%20"), "action": "add"}
        )

    metadata = tmp_path / "_spark_metadata"
    metadata.mkdir()
    (metadata / "0").write_text("v1\n" + write("part 0.json", 0))
    (metadata / "1.compact").write_text("v1\n" + write("part 0.json", 0) + "\n" + write("b", 1))
    (metadata / ".2.crc").write_text("")
    write("killed", 2)
    assert sorted(file_sink(tmp_path)) == [Row("spool", 0, "a"), Row("spool", 1, "a")]
